/* Figures for tempered scores, compared with those from all scores in a row, by millrace/figures.h's definitions,
 * with rows whose largest scores are equal. e2e_evaluate compares the temperature with SciPy. */
#include <math.h>

#include "kernels/draw.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tools/millrace/train/judge.h"
#include "tools/millrace/train/temper.h"

enum { ROWS = 600, CLASSES = 5 };

static double scores[ROWS * CLASSES];
static int32_t truth[ROWS];

/* Tenths, so that many are equal and some are 0. */
static void draw(void) {
    uint64_t state = 7;
    for (size_t i = 0; i < ROWS; i++) {
        for (size_t j = 0; j < CLASSES; j++)
            scores[i * CLASSES + j] = 0.0;
        for (int part = 0; part < 10; part++)
            scores[i * CLASSES + mr_draw_below(&state, CLASSES)] += 0.1;
        truth[i] = (int32_t)mr_draw_below(&state, CLASSES);
    }
}

static void temper(const double *row, double temperature, double to[CLASSES]) {
    double sum = 0.0;
    for (int j = 0; j < CLASSES; j++)
        sum += to[j] = pow(fmax(row[j], ldexp(1.0, -149)), 1.0 / temperature); /* the smallest float */
    for (int j = 0; j < CLASSES; j++)
        to[j] /= sum;
}

TEST(figures_are_those_of_all_scores) {
    double right_in[MR_JUDGE_BINS] = {0}, score_in[MR_JUDGE_BINS] = {0};
    double loss = 0.0, error = 0.0, row[CLASSES];
    mr_tempered made;
    int ties = 0;
    draw();
    const mr_scored scored = {.rows = ROWS, .classes = CLASSES, .scores = scores, .truth = truth};
    assert_int_equal(mr_temper(&made, &scored, &scored), MR_OK);
    assert_true(made.temperature > 1.0 && made.rows == ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        const int32_t first = mr_first_class(scores + i * CLASSES, CLASSES);
        temper(scores + i * CLASSES, made.temperature, row);
        ties += first != truth[i] && scores[i * CLASSES + (size_t)first] == scores[i * CLASSES + (size_t)truth[i]];
        const size_t bin = (size_t)fmin(row[first] * MR_JUDGE_BINS, MR_JUDGE_BINS - 1);
        right_in[bin] += first == truth[i];
        score_in[bin] += row[first];
        loss -= log(row[truth[i]]);
    }
    for (int b = 0; b < MR_JUDGE_BINS; b++)
        error += fabs(right_in[b] - score_in[b]);
    assert_true(ties > 20);
    assert_float_equal(made.log_loss, loss / ROWS, 1e-12);
    assert_float_equal(made.calibration_error, error / ROWS, 1e-12);
}

TEST(scores_that_are_no_probabilities_have_none) {
    mr_tempered made;
    draw();
    scores[17] += 0.5;
    const mr_scored scored = {.rows = ROWS, .classes = CLASSES, .scores = scores, .truth = truth};
    assert_int_equal(mr_temper(&made, &scored, &scored), MR_OK);
    assert_true(made.temperature == 0.0);
}

RUN_TESTS(NULL, NULL)
