#include "kernels/fit/fit_scaler.h"

#include <math.h>
#include <string.h>

#include "millrace/status.h"

/* The summands: v x, or v (x - mean)^2 if there is a mean; then V, and how many values are not finite. */
typedef struct pass {
    const mr_fit_rows *rows;
    const double *mean;
} pass;

static void make_chunk(void *context, size_t chunk, void *scratch, double *sum) {
    const pass *p = context;
    const mr_fit_rows *rows = p->rows;
    const size_t width = rows->width, count = mr_fit_rows_of(rows, chunk);
    memset(sum, 0, (width + 2) * sizeof *sum);
    for (size_t i = 0; i < count; i++) {
        const size_t row = mr_fit_row(rows, chunk * MR_FIT_CHUNK + i);
        const double weight = mr_fit_row_weight(rows, row);
        const float *x = rows->features + row * rows->stride;
        for (size_t k = 0; k < width; k++) {
            double off = p->mean ? (double)x[k] - p->mean[k] : 0.0;
            sum[k] += weight * (p->mean ? off * off : (double)x[k]);
            sum[width + 1] += isfinite(x[k]) ? 0.0 : 1.0;
        }
        sum[width] += weight;
    }
}

static mr_fit_task task_of(pass *p) {
    return (mr_fit_task){.chunks = mr_fit_chunks(p->rows->count), .length = p->rows->width + 2, .make = make_chunk,
                         .context = p};
}

mr_fit_task mr_fit_scaler_task(const mr_fit_rows *rows) {
    pass p = {.rows = rows};
    mr_fit_task task = task_of(&p);
    task.context = NULL;
    return task;
}

static int fail_at_first(const mr_fit_rows *rows) {
    for (size_t at = 0; at < rows->count; at++) {
        const size_t row = mr_fit_row(rows, at);
        for (size_t k = 0; k < rows->width; k++)
            if (!isfinite(rows->features[row * rows->stride + k]))
                return mr_fail(MR_ERROR_DATA, "feature %zu of row %zu is not a finite number", k, row);
    }
    return MR_OK;
}

int mr_fit_scaler(const mr_fit_rows *rows, mr_fit_workers *workers, double *nodes, double *mean, double *factor) {
    const size_t width = rows->width;
    pass p = {.rows = rows};
    mr_fit_task task = task_of(&p);
    mr_fit_workers_sum(workers, &task, nodes);
    if (nodes[width + 1] > 0.0)
        return fail_at_first(rows);
    for (size_t k = 0; k < width; k++)
        mean[k] = nodes[k] / nodes[width];
    p.mean = mean;
    mr_fit_workers_sum(workers, &task, nodes);
    for (size_t k = 0; k < width; k++) {
        /* Rounding the mean alone makes a constant feature vary by some 2^-52 of it. */
        double spread = sqrt(nodes[k] / nodes[width]);
        factor[k] = spread > 1e-12 * fabs(mean[k]) && spread > 0.0 ? 1.0 / spread : 0.0;
    }
    return MR_OK;
}

void mr_fit_fold(double *parameters, size_t outputs, size_t width, const double *mean, const double *factor) {
    double *biases = parameters + outputs * width;
    for (size_t j = 0; j < outputs; j++) {
        double moved = 0.0;
        for (size_t k = 0; k < width; k++) {
            parameters[j * width + k] *= factor[k];
            moved += parameters[j * width + k] * mean[k];
        }
        biases[j] -= moved;
    }
}
