/* Figures end when they are asked to; the figures themselves are compared with scikit-learn's (reference_metrics). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "millrace/status.h"
#include "tools/millrace/train/judge.h"

enum { ROWS = 40, CLASSES = 3, FIGURES = 4, RESAMPLES = 1000 };

static int asked, most;

static bool stop_later(void) {
    return ++asked > most;
}

static int judge(int questions) {
    static const char *const names[CLASSES] = {"a", "b", "c"};
    double scores[ROWS * CLASSES];
    int32_t truth[ROWS], group[ROWS];
    for (int i = 0; i < ROWS; i++) {
        truth[i] = i % CLASSES;
        group[i] = i / 2;
        for (int j = 0; j < CLASSES; j++)
            scores[i * CLASSES + j] = j == (i % 7 ? truth[i] : 0) ? 0.6 : 0.2;
    }
    const mr_judged of = {.scored = {.rows = ROWS, .classes = CLASSES, .scores = scores, .truth = truth},
                          .group = group, .groups = ROWS / 2, .names = names, .seed = 1,
                          .stopped = questions < 0 ? NULL : stop_later};
    mr_judgement made;
    asked = 0;
    most = questions;
    int status = mr_judge(&made, &of);
    mr_judgement_fini(&made);
    return status;
}

static void it_ends_at_each_question(void **state) {
    (void)state;
    const int all = CLASSES + FIGURES * RESAMPLES;
    assert_int_equal(judge(-1), MR_OK);
    assert_int_equal(judge(all), MR_OK);
    assert_int_equal(asked, all);
    for (int questions = 0; questions < all; questions += questions < 10 ? 1 : 333) {
        assert_int_equal(judge(questions), MR_ERROR_CANCELLED);
        assert_int_equal(asked, questions + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_ends_at_each_question)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
