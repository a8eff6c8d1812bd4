/* Fitting: the order of sums, gradients against finite differences, and known minima. Any number of threads must give
 * the same bits, also after a saved state. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/fit/fit_linear.h"
#include "kernels/fit/fit_scaler.h"
#include "kernels/fit/fit_sum.h"
#include "kernels/fit/lbfgs.h"
#include "millrace/status.h"
#include "tests/support/draw.h"
#include "tests/support/suite.h"

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* The definition as a recursion: sums the leaves [first, first + count) below a node that spans `span` leaves. */
static double sum_of(const double *leaf, size_t first, size_t span, size_t count) {
    if (span == 1 || count == 1)
        return leaf[first];
    size_t half = span / 2;
    if (count <= half)
        return sum_of(leaf, first, half, count);
    return sum_of(leaf, first, half, half) + sum_of(leaf, first + half, half, count - half);
}

static double whole(const double *leaf, size_t first, size_t count) {
    size_t span = 1;
    while (span < count)
        span *= 2;
    return sum_of(leaf, first, span, count);
}

static double node_of(mr_fit_sum *sum, const double *leaf, size_t count) {
    double made;
    mr_fit_sum_clear(sum);
    for (size_t i = 0; i < count; i++) {
        *mr_fit_sum_next(sum) = leaf[i];
        mr_fit_sum_added(sum);
    }
    mr_fit_sum_finish(sum, &made);
    return made;
}

/* The values differ so much in size that any other order gives other bits. */
TEST(sums_have_one_shape) {
    enum { MOST = 70 };
    double leaf[MOST], nodes[MOST];
    ENDED_BY(mr_fit_sum_fini) mr_fit_sum sum;
    assert_int_equal(mr_fit_sum_init(&sum, 1, MOST), 0);
    for (size_t count = 1; count <= MOST; count++) {
        for (size_t i = 0; i < count; i++)
            leaf[i] = ldexp(1.0 + (double)draw() / 2.0, (int)(30.0f * draw()));
        double want = whole(leaf, 0, count);
        assert_true(node_of(&sum, leaf, count) == want);
        for (size_t each = 1; each <= 64; each *= 2) {
            size_t made = 0;
            for (size_t at = 0; at < count; at += each, made++)
                nodes[made] = node_of(&sum, leaf + at, count - at < each ? count - at : each);
            for (size_t apart = 1; apart < made; apart *= 2)
                for (size_t i = 0; i + apart < made; i += 2 * apart)
                    nodes[i] += nodes[i + apart];
            assert_true(nodes[0] == want);
        }
    }
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

enum { WIDTH = 7, CLASSES = 4, ROWS = 700 };

typedef struct data {
    float *features;
    int32_t classes[ROWS];
    double weights[ROWS], mean[WIDTH], factor[WIDTH];
    mr_fit_rows rows;
    mr_fit_linear linear;
} data;

static void make_data(data *d, mr_fit_loss loss, bool doubles) {
    d->features = draw_many((size_t)ROWS * WIDTH);
    for (size_t i = 0; i < ROWS; i++) {
        d->classes[i] = (int32_t)(i * 7 % CLASSES);
        d->weights[i] = 1.5 + (double)draw();
        d->features[i * WIDTH + (size_t)d->classes[i]] += 0.7f; /* a pattern to learn */
    }
    for (size_t k = 0; k < WIDTH; k++) {
        d->mean[k] = (double)draw();
        d->factor[k] = 1.5 + (double)draw();
    }
    d->rows = (mr_fit_rows){.features = d->features, .stride = WIDTH, .width = WIDTH, .count = ROWS,
                            .classes = d->classes, .weights = d->weights, .mean = d->mean, .factor = d->factor};
    d->linear = (mr_fit_linear){.rows = &d->rows, .outputs = CLASSES, .loss = loss, .doubles = doubles};
}

/* A function to minimise: the mean loss of the data, with a penalty. */
typedef struct problem {
    const mr_fit_linear *linear;
    mr_fit_point point;
    mr_fit_task task;
    mr_fit_workers *workers;
    double total, c;
    double *nodes;
    int left; /* evaluations before it fails; -1: it never fails */
} problem;

static int evaluate(void *user, const double *x, double *value, double *gradient) {
    problem *p = user;
    if (p->left == 0)
        return -1;
    p->left -= p->left > 0;
    mr_fit_point_set(&p->point, x);
    mr_fit_workers_sum(p->workers, &p->task, p->nodes);
    *value = mr_fit_objective(p->linear, x, p->nodes, p->total, p->c, gradient);
    return 0;
}

static void begin(problem *p, const mr_fit_linear *linear, int threads) {
    const size_t rows = linear->rows->count;
    *p = (problem){.linear = linear, .c = 0.5, .left = -1};
    for (size_t i = 0; i < rows; i++)
        p->total += linear->rows->weights ? linear->rows->weights[i] : 1.0;
    p->point = (mr_fit_point){.linear = linear, .weights = malloc(mr_fit_parameters(linear) * sizeof(double))};
    p->task = mr_fit_linear_task(&p->point);
    p->nodes = malloc(mr_fit_block_count(p->task.chunks) * p->task.length * sizeof(double));
    assert_int_equal(mr_fit_workers_create(&p->workers, &p->task, threads), 0);
}

static void finish(problem *p) {
    mr_fit_workers_destroy(&p->workers);
    free(p->point.weights);
    free(p->nodes);
}

static double logit(const data *d, const double *x, size_t row, size_t j) {
    double sum = x[CLASSES * WIDTH + j];
    for (size_t k = 0; k < WIDTH; k++)
        sum += x[j * WIDTH + k] * ((double)d->features[row * WIDTH + k] - d->mean[k]) * d->factor[k];
    return sum;
}

/* The formulas in fit_linear.h, written a second time. */
static double loss_of_row(const data *d, const double *x, size_t row) {
    double z[CLASSES], sum = 0.0;
    const size_t own = (size_t)d->classes[row];
    for (size_t j = 0; j < CLASSES; j++) {
        z[j] = logit(d, x, row, j);
        double margin = (j == own ? 1.0 : -1.0) * z[j];
        if (d->linear.loss == MR_FIT_SOFTMAX)
            sum += exp(z[j]);
        else if (d->linear.loss == MR_FIT_LOGISTIC)
            sum += log(1.0 + exp(-margin));
        else
            sum += margin < 1.0 ? (1.0 - margin) * (1.0 - margin) : 0.0;
    }
    return d->linear.loss == MR_FIT_SOFTMAX ? log(sum) - z[own] : sum;
}

static double objective_of(const data *d, const double *x, double c) {
    double loss = 0.0, squares = 0.0, total = 0.0;
    for (size_t i = 0; i < ROWS; i++) {
        loss += d->weights[i] * loss_of_row(d, x, i);
        total += d->weights[i];
    }
    for (size_t i = 0; i < CLASSES * WIDTH; i++)
        squares += x[i] * x[i];
    return loss / total + squares / (2.0 * c * total);
}

TEST(losses_and_gradients_are_those_of_the_formulas) {
    enum { COUNT = CLASSES * (WIDTH + 1) };
    for (int loss = 0; loss < 3; loss++)
        for (int doubles = 0; doubles < 2; doubles++) {
            data d;
            problem p;
            double x[COUNT], gradient[COUNT], value;
            make_data(&d, (mr_fit_loss)loss, doubles);
            begin(&p, &d.linear, 2);
            for (size_t i = 0; i < COUNT; i++)
                x[i] = (double)draw();
            assert_int_equal(evaluate(&p, x, &value, gradient), 0);
            assert_true(fabs(value - objective_of(&d, x, p.c)) < (doubles ? 1e-12 : 1e-6));
            for (size_t i = 0; i < COUNT; i++) {
                const double at = x[i], apart = 1e-5;
                x[i] = at + apart;
                double above = objective_of(&d, x, p.c);
                x[i] = at - apart;
                double below = objective_of(&d, x, p.c);
                x[i] = at;
                assert_true(fabs(gradient[i] - (above - below) / (2.0 * apart)) < (doubles ? 1e-8 : 1e-6));
            }
            finish(&p);
            free(d.features);
        }
}

/* ---- the search -------------------------------------------------------------------------------------------------- */

/* Rosenbrock's function of ten variables, plus *user. The minimum is where all variables are one. */
static int valley(void *user, const double *x, double *value, double *gradient) {
    *value = *(const double *)user;
    memset(gradient, 0, 10 * sizeof(double));
    for (int i = 0; i < 9; i++) {
        double up = x[i + 1] - x[i] * x[i], off = 1.0 - x[i];
        *value += 100.0 * up * up + off * off;
        gradient[i] += -400.0 * up * x[i] - 2.0 * off;
        gradient[i + 1] += 200.0 * up;
    }
    return 0;
}

TEST(a_valley_is_followed_to_its_end) {
    double begin_at[10], ground = 0.0;
    ENDED_BY(mr_lbfgs_fini) mr_lbfgs search;
    const mr_lbfgs_params params = {.length = 10, .evaluate = valley, .user = &ground, .gradient = 1e-10,
                                    .steps = 1000};
    for (int i = 0; i < 10; i++)
        begin_at[i] = i % 2 ? 1.0 : -1.2;
    assert_int_equal(mr_lbfgs_init(&search, &params, begin_at), 0);
    while (!search.end)
        assert_int_equal(mr_lbfgs_step(&search), 0);
    assert_int_equal(search.end, MR_LBFGS_GRADIENT);
    for (int i = 0; i < 10; i++)
        assert_true(fabs(search.x[i] - 1.0) < 1e-9);
}

static mr_lbfgs_end end_of(double ground, double progress, int steps) {
    double zeros[10] = {0};
    mr_lbfgs search;
    const mr_lbfgs_params params = {.length = 10, .evaluate = valley, .user = &ground, .progress = progress,
                                    .steps = steps};
    assert_int_equal(mr_lbfgs_init(&search, &params, zeros), 0);
    while (!search.end)
        assert_int_equal(mr_lbfgs_step(&search), 0);
    assert_true(search.step <= steps);
    mr_lbfgs_end end = search.end;
    mr_lbfgs_fini(&search);
    return end;
}

TEST(a_search_says_why_it_ends) {
    assert_int_equal(end_of(0.0, 0.0, 3), MR_LBFGS_STEPS);
    assert_int_equal(end_of(1e3, 1e-3, 1000), MR_LBFGS_PROGRESS);
    assert_int_equal(end_of(1e9, 0.0, 1000), MR_LBFGS_PRECISION);
}

/* Runs to the end, or until the function fails. The state is saved and restored after each step. */
static void search_with(const mr_fit_linear *linear, int threads, int fails_after, double *found) {
    problem p;
    mr_lbfgs search;
    const size_t length = mr_fit_parameters(linear);
    FREED double *zeros = calloc(length, sizeof *zeros);
    FREED void *saved = malloc(mr_lbfgs_state_bytes(length));
    begin(&p, linear, threads);
    p.left = fails_after;
    const mr_lbfgs_params params = {.length = length, .evaluate = evaluate, .user = &p, .gradient = 1e-4, .steps = 200};
    bool lost = mr_lbfgs_init(&search, &params, zeros) != 0, saved_once = false;
    while (!lost && !search.end) {
        mr_lbfgs_save(&search, saved);
        saved_once = true;
        lost = mr_lbfgs_step(&search) != 0;
    }
    if (lost) {
        mr_lbfgs_fini(&search);
        p.left = -1;
        assert_int_equal(saved_once ? mr_lbfgs_load(&search, &params, saved) : mr_lbfgs_init(&search, &params, zeros),
                         0);
        while (!search.end)
            assert_int_equal(mr_lbfgs_step(&search), 0);
    }
    assert_int_equal(search.end, MR_LBFGS_GRADIENT);
    memcpy(found, search.x, length * sizeof *found);
    mr_lbfgs_fini(&search);
    finish(&p);
}

TEST(bits_are_those_of_one_thread) {
    enum { COUNT = CLASSES * (WIDTH + 1) };
    for (int loss = 0; loss < 3; loss++) {
        data d;
        double one[COUNT], other[COUNT];
        make_data(&d, (mr_fit_loss)loss, false);
        search_with(&d.linear, 1, -1, one);
        for (int threads = 2; threads <= 16; threads += threads < 4 ? 1 : 4) {
            search_with(&d.linear, threads, -1, other);
            assert_memory_equal(one, other, sizeof one);
        }
        for (int fails_after = 0; fails_after < 12; fails_after++) {
            search_with(&d.linear, 2, fails_after, other);
            assert_memory_equal(one, other, sizeof one);
        }
        free(d.features);
    }
}

/* A last chunk with one row is computed like any other chunk. */
TEST(a_row_counts_the_same_wherever_it_stands) {
    enum { COUNT = CLASSES * (WIDTH + 1) };
    data d;
    problem p;
    double x[COUNT], gradient[COUNT], value, alone, last;
    make_data(&d, MR_FIT_SOFTMAX, false);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = (double)draw();
    d.rows.weights = NULL;
    for (size_t count = MR_FIT_CHUNK; count <= MR_FIT_CHUNK + 1; count++) {
        d.rows.count = count;
        begin(&p, &d.linear, 1);
        p.total = 1.0;
        p.c = INFINITY;
        assert_int_equal(evaluate(&p, x, count == MR_FIT_CHUNK ? &value : &last, gradient), 0);
        finish(&p);
    }
    d.rows.features = d.features + (size_t)MR_FIT_CHUNK * WIDTH;
    d.rows.classes = d.classes + MR_FIT_CHUNK;
    d.rows.count = 1;
    begin(&p, &d.linear, 1);
    p.total = 1.0;
    p.c = INFINITY;
    assert_int_equal(evaluate(&p, x, &alone, gradient), 0);
    finish(&p);
    assert_true(value + alone == last);
    free(d.features);
}

/* ---- the scaler -------------------------------------------------------------------------------------------------- */

static int measure(const mr_fit_rows *rows, int threads, double *mean, double *factor) {
    mr_fit_workers *workers = NULL;
    const mr_fit_task task = mr_fit_scaler_task(rows);
    double *nodes = malloc(mr_fit_block_count(task.chunks) * task.length * sizeof *nodes);
    assert_int_equal(mr_fit_workers_create(&workers, &task, threads), 0);
    int status = mr_fit_scaler(rows, workers, nodes, mean, factor);
    mr_fit_workers_destroy(&workers);
    free(nodes);
    return status;
}

TEST(features_are_measured) {
    data d;
    double mean[WIDTH], factor[WIDTH], again[2 * WIDTH];
    make_data(&d, MR_FIT_SOFTMAX, false);
    for (size_t i = 0; i < ROWS; i++) {
        d.features[i * WIDTH] = 0.1f; /* constant */
        d.features[i * WIDTH + 1] = 1e6f + (float)(i % 2); /* far from zero */
    }
    assert_int_equal(measure(&d.rows, 1, mean, factor), 0);
    for (size_t k = 0; k < WIDTH; k++) {
        long double total = 0, sum = 0, squares = 0;
        for (size_t i = 0; i < ROWS; i++) {
            total += d.weights[i];
            sum += (long double)d.weights[i] * d.features[i * WIDTH + k];
        }
        for (size_t i = 0; i < ROWS; i++) {
            long double off = d.features[i * WIDTH + k] - sum / total;
            squares += d.weights[i] * off * off;
        }
        assert_true(fabs(mean[k] - (double)(sum / total)) <= 1e-14 * fabs(mean[k]) + 1e-14);
        if (k == 0)
            assert_true(factor[k] == 0.0);
        else
            assert_true(fabs(factor[k] * (double)sqrtl(squares / total) - 1.0) < 1e-9);
    }
    for (int threads = 2; threads <= 16; threads *= 2) {
        assert_int_equal(measure(&d.rows, threads, again, again + WIDTH), 0);
        assert_memory_equal(again, mean, sizeof mean);
        assert_memory_equal(again + WIDTH, factor, sizeof factor);
    }
    d.features[300 * WIDTH + 4] = NAN;
    assert_int_equal(measure(&d.rows, 2, again, again + WIDTH), MR_ERROR_DATA);
    expect_words(mr_message(), "feature 4 of row 300");
    free(d.features);
}

TEST(a_folded_classifier_gives_the_same_logits) {
    enum { COUNT = CLASSES * (WIDTH + 1) };
    data d;
    double x[COUNT], folded[COUNT];
    make_data(&d, MR_FIT_SOFTMAX, false);
    for (size_t i = 0; i < COUNT; i++)
        x[i] = folded[i] = (double)draw();
    mr_fit_fold(folded, CLASSES, WIDTH, d.mean, d.factor);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t j = 0; j < CLASSES; j++) {
            double sum = folded[CLASSES * WIDTH + j];
            for (size_t k = 0; k < WIDTH; k++)
                sum += folded[j * WIDTH + k] * (double)d.features[row * WIDTH + k];
            assert_true(fabs(sum - logit(&d, x, row, j)) < 1e-12);
        }
    free(d.features);
}

RUN_TESTS(NULL, NULL)
