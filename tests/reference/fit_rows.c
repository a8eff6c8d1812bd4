/* Fits a linear classifier for fit.py. Reads raw rows from standard input and writes the parameters as raw doubles.
 *
 *   fit_rows ROWS WIDTH CLASSES LOSS C DOUBLES THREADS TOLERANCE     LOSS: 0 softmax, 1 logistic, 2 squared hinge
 *
 * Standard input: ROWS x WIDTH floats, then ROWS int32 classes, then ROWS doubles, the row weights. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/fit/fit_linear.h"
#include "kernels/fit/lbfgs.h"
#include "millrace/status.h"
#include "tests/reference/raw.h"

typedef struct problem {
    mr_fit_rows rows;
    mr_fit_linear linear;
    mr_fit_point point;
    mr_fit_task task;
    mr_fit_workers *workers;
    double total, c, *nodes;
} problem;

static int evaluate(void *user, const double *x, double *value, double *gradient) {
    problem *p = user;
    mr_fit_point_set(&p->point, x);
    mr_fit_workers_sum(p->workers, &p->task, p->nodes);
    *value = mr_fit_objective(&p->linear, x, p->nodes, p->total, p->c, gradient);
    return MR_OK;
}

static int solve(problem *p, int threads, double tolerance) {
    size_t length = mr_fit_parameters(&p->linear);
    double *zeros = calloc(length, sizeof *zeros);
    mr_lbfgs search = {0};
    const mr_lbfgs_params params = {.length = length, .evaluate = evaluate, .user = p, .gradient = tolerance,
                                    .steps = 2000};
    p->point = (mr_fit_point){.linear = &p->linear, .weights = malloc(length * sizeof(double))};
    p->task = mr_fit_linear_task(&p->point);
    p->nodes = malloc(mr_fit_block_count(p->task.chunks) * p->task.length * sizeof(double));
    int status = zeros && p->nodes && p->point.weights ? mr_fit_workers_create(&p->workers, &p->task, threads)
                                                       : mr_fail(MR_ERROR_MEMORY, "no memory");
    if (!status)
        status = mr_lbfgs_init(&search, &params, zeros);
    while (!status && !search.end)
        status = mr_lbfgs_step(&search);
    if (!status && fwrite(search.x, sizeof(double), length, stdout) != length)
        status = mr_fail(MR_ERROR_IO, "standard output");
    mr_lbfgs_fini(&search);
    mr_fit_workers_destroy(&p->workers);
    free(zeros);
    free(p->point.weights);
    free(p->nodes);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 9)
        return 64;
    size_t count = (size_t)atol(argv[1]), width = (size_t)atol(argv[2]);
    float *features = read_many(stdin, count * width, sizeof(float));
    int32_t *classes = read_many(stdin, count, sizeof(int32_t));
    double *weights = read_many(stdin, count, sizeof(double));
    problem p = {.rows = {.features = features, .stride = width, .width = width, .count = count, .classes = classes,
                          .weights = weights},
                 .linear = {.outputs = (size_t)atol(argv[3]), .loss = (mr_fit_loss)atoi(argv[4]),
                            .doubles = atoi(argv[6]) != 0},
                 .c = atof(argv[5])};
    p.linear.rows = &p.rows;
    for (size_t i = 0; i < count; i++)
        p.total += weights[i];
    int status = solve(&p, atoi(argv[7]), atof(argv[8]));
    if (status)
        fprintf(stderr, "%s\n", mr_message());
    free(features);
    free(classes);
    free(weights);
    return mr_status_exit_code(status);
}
