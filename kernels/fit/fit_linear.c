#include "kernels/fit/fit_linear.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"

static size_t number_bytes(const mr_fit_linear *linear) {
    return linear->doubles ? sizeof(double) : sizeof(float);
}

/* A thread's memory: floats or doubles. */
typedef struct scratch {
    void *features, *logits, *gradient; /* MR_FIT_CHUNK x width, MR_FIT_CHUNK x outputs, outputs x width */
    size_t bytes;
} scratch;

static scratch split(const mr_fit_linear *linear, void *memory) {
    const size_t width = linear->rows->width, number = number_bytes(linear);
    const size_t features = mr_aligned_bytes(MR_FIT_CHUNK * width * number);
    const size_t logits = mr_aligned_bytes(MR_FIT_CHUNK * linear->outputs * number);
    const size_t gradient = mr_aligned_bytes(linear->outputs * width * number);
    char *at = memory;
    return (scratch){at, at ? at + features : NULL, at ? at + features + logits : NULL, features + logits + gradient};
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

void mr_fit_point_set(mr_fit_point *point, const double *parameters) {
    const size_t count = point->linear->outputs * point->linear->rows->width;
    float *narrow = point->weights;
    point->parameters = parameters;
    if (point->linear->doubles)
        memcpy(point->weights, parameters, count * sizeof(double));
    for (size_t i = 0; !point->linear->doubles && i < count; i++)
        narrow[i] = (float)parameters[i];
}

/* logits = features times W, transposed: MR_FIT_CHUNK x outputs. */
static void multiply(const mr_fit_linear *linear, const void *weights, const scratch *s) {
    const f77_int width = (f77_int)linear->rows->width, outputs = (f77_int)linear->outputs;
    if (linear->doubles)
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, MR_FIT_CHUNK, outputs, width, 1.0, s->features, width,
                    weights, width, 0.0, s->logits, outputs);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, MR_FIT_CHUNK, outputs, width, 1.0f, s->features, width,
                    weights, width, 0.0f, s->logits, outputs);
}

/* W's gradient = residuals, transposed, times features: outputs x width. */
static void multiply_back(const mr_fit_linear *linear, const scratch *s) {
    const f77_int width = (f77_int)linear->rows->width, outputs = (f77_int)linear->outputs;
    if (linear->doubles)
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, width, MR_FIT_CHUNK, 1.0, s->logits, outputs,
                    s->features, width, 0.0, s->gradient, width);
    else
        cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, outputs, width, MR_FIT_CHUNK, 1.0f, s->logits, outputs,
                    s->features, width, 0.0f, s->gradient, width);
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

static mr_fit_loss_function *const losses[] = {mr_fit_softmax, mr_fit_logistic, mr_fit_squared_hinge};

/* Turns a row's logits into residuals, and adds to the biases' gradient and the loss. `row` must have room for one row,
 * in doubles. */
static double finish_row(const mr_fit_linear *linear, const double *biases, size_t row_number, size_t i, void *logits,
                         double *row, double *bias_gradient) {
    const size_t outputs = linear->outputs;
    double *wide = (double *)logits + i * outputs, weight = mr_fit_row_weight(linear->rows, row_number);
    float *narrow = (float *)logits + i * outputs;
    for (size_t j = 0; j < outputs; j++)
        row[j] = (linear->doubles ? wide[j] : (double)narrow[j]) + biases[j];
    double loss = losses[linear->loss](row, outputs, (size_t)linear->rows->classes[row_number]);
    for (size_t j = 0; j < outputs; j++) {
        bias_gradient[j] += weight * row[j];
        if (linear->doubles)
            wide[j] = weight * row[j];
        else
            narrow[j] = (float)(weight * row[j]);
    }
    return weight * loss;
}

/* Turns a chunk's logits into residuals, or zeros in rows after the last; adds the biases' gradient and the loss to the
 * sum. */
static void finish_rows(const mr_fit_point *point, size_t chunk, void *logits, double *sum) {
    const mr_fit_linear *linear = point->linear;
    const size_t outputs = linear->outputs, products = outputs * linear->rows->width, first = chunk * MR_FIT_CHUNK;
    const size_t count = mr_fit_rows_of(linear->rows, chunk), row_bytes = outputs * number_bytes(linear);
    double *bias_gradient = sum + products, loss = 0.0;
    memset(bias_gradient, 0, outputs * sizeof(double));
    /* The sum's first numbers are not used yet: a row can go there, since there is at least one feature. */
    for (size_t i = 0; i < count; i++)
        loss += finish_row(linear, point->parameters + products, mr_fit_row(linear->rows, first + i), i, logits, sum,
                           bias_gradient);
    memset((char *)logits + count * row_bytes, 0, (MR_FIT_CHUNK - count) * row_bytes);
    sum[products + outputs] = loss;
}

/* From floats or doubles. */
static void widen(const mr_fit_linear *linear, double *to, const void *from, size_t count) {
    const float *narrow = from;
    if (linear->doubles)
        memcpy(to, from, count * sizeof *to);
    for (size_t i = 0; !linear->doubles && i < count; i++)
        to[i] = (double)narrow[i];
}

static void make_chunk(void *context, size_t chunk, void *memory, double *sum) {
    const mr_fit_point *point = context;
    const mr_fit_linear *linear = point->linear;
    const scratch s = split(linear, memory);
    const size_t products = linear->outputs * linear->rows->width;
    if (linear->doubles)
        mr_fit_take_doubles(linear->rows, chunk, s.features);
    else
        mr_fit_take_floats(linear->rows, chunk, s.features);
    multiply(linear, point->weights, &s);
    finish_rows(point, chunk, s.logits, sum);
    multiply_back(linear, &s);
    widen(linear, sum, s.gradient, products);
}

mr_fit_task mr_fit_linear_task(mr_fit_point *point) {
    return (mr_fit_task){.chunks = mr_fit_chunks(point->linear->rows->count),
                         .length = mr_fit_parameters(point->linear) + 1,
                         .scratch_bytes = split(point->linear, NULL).bytes,
                         .make = make_chunk,
                         .context = point};
}

double mr_fit_objective(const mr_fit_linear *linear, const double *parameters, const double *sum, double total,
                        double c, double *gradient) {
    const size_t count = mr_fit_parameters(linear), products = count - linear->outputs;
    double lane[8] = {0}, loss = sum[count];
    for (size_t i = 0; i < products; i++) {
        lane[i % 8] += parameters[i] * parameters[i];
        gradient[i] = sum[i] / total + parameters[i] / (c * total);
    }
    for (size_t i = products; i < count; i++)
        gradient[i] = sum[i] / total;
    double squares = ((lane[0] + lane[4]) + (lane[1] + lane[5])) + ((lane[2] + lane[6]) + (lane[3] + lane[7]));
    return loss / total + squares / (2.0 * c * total);
}
