/* Figures end when they are asked to, and curves are bounded; the figures themselves are compared with scikit-learn's
 * (reference_metrics). */
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tools/millrace/train/judge.h"

enum { ROWS = 40, CLASSES = 3, FIGURES = 3 /* those with resamples */, RESAMPLES = 1000 };

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

TEST(it_ends_at_each_question) {
    const int all = CLASSES + FIGURES * RESAMPLES;
    assert_int_equal(judge(-1), MR_OK);
    assert_int_equal(judge(all), MR_OK);
    assert_int_equal(asked, all);
    for (int questions = 0; questions < all; questions += questions < 10 ? 1 : 333) {
        assert_int_equal(judge(questions), MR_ERROR_CANCELLED);
        assert_int_equal(asked, questions + 1);
    }
}

/* A curve with many points keeps some for plots, including the first and the last; the figures use all points. */
TEST(curves_are_bounded) {
    enum { MANY = 5003, TWELVE = 12 };
    static const char *const names[TWELVE] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
    static double scores[MANY * TWELVE];
    static int32_t truth[MANY], group[MANY];
    static mr_curve_point points[MANY];
    for (int i = 0; i < MANY; i++) {
        truth[i] = i * i % 11;
        group[i] = i;
        for (int j = 0; j < TWELVE; j++)
            scores[i * TWELVE + j] = (double)((i * 37 + j * 1009) % MANY) / MANY + (j == truth[i] ? 0.3 : 0.0);
    }
    const mr_judged of = {.scored = {.rows = MANY, .classes = TWELVE, .scores = scores, .truth = truth},
                          .group = group, .groups = MANY, .names = names, .seed = 1};
    ENDED_BY(mr_judgement_fini) mr_judgement made;
    assert_int_equal(mr_judge(&made, &of), MR_OK);
    for (int32_t j = 0; j < TWELVE; j++) {
        mr_curve whole = {.points = points};
        const mr_curve *kept = &made.curves[j];
        assert_int_equal(mr_curve_make(&of.scored, j, &whole), MR_OK);
        assert_true(whole.count > 4000);
        assert_in_range(kept->count, MR_JUDGE_POINTS / 2, MR_JUDGE_POINTS + 1);
        assert_memory_equal(&kept->points[0], &points[0], sizeof *points);
        assert_memory_equal(&kept->points[kept->count - 1], &points[whole.count - 1], sizeof *points);
        assert_memory_equal(&kept->roc_area, &whole.roc_area, sizeof whole.roc_area);
        assert_memory_equal(&kept->average_precision, &whole.average_precision, sizeof whole.average_precision);
        assert_true(kept->positives == whole.positives && kept->negatives == whole.negatives);
    }
}

RUN_TESTS(NULL, NULL)
