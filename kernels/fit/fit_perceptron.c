#include "kernels/fit/fit_perceptron.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/draw.h"

static size_t inputs_of(const mr_perceptron *p, size_t layer) {
    return layer ? p->units[layer - 1] : p->rows->width;
}

size_t mr_perceptron_parameters(const mr_perceptron *perceptron) {
    size_t count = 0;
    for (size_t l = 0; l < perceptron->layers; l++)
        count += perceptron->units[l] * (inputs_of(perceptron, l) + 1);
    return count;
}

void mr_perceptron_draw(const mr_perceptron *perceptron, uint64_t seed, double *parameters) {
    for (size_t l = 0; l < perceptron->layers; l++) {
        const size_t inputs = inputs_of(perceptron, l), weights = perceptron->units[l] * inputs;
        for (size_t i = 0; i < weights; i++)
            parameters[i] = sqrt(2.0 / (double)inputs) * mr_draw_normal(&seed);
        memset(parameters + weights, 0, perceptron->units[l] * sizeof *parameters);
        parameters += weights + perceptron->units[l];
    }
}

/* ---- numbers of products: floats or doubles ---------------------------------------------------------------------- */

static size_t number_bytes(const mr_perceptron *p) {
    return p->doubles ? sizeof(double) : sizeof(float);
}

static double number_at(const mr_perceptron *p, const void *numbers, size_t i) {
    return p->doubles ? ((const double *)numbers)[i] : (double)((const float *)numbers)[i];
}

static void put_number(const mr_perceptron *p, void *numbers, size_t i, double value) {
    if (p->doubles)
        ((double *)numbers)[i] = value;
    else
        ((float *)numbers)[i] = (float)value;
}

/* A matrix for a product, row by row; `turned`: transpose it. */
typedef struct matrix {
    const void *numbers;
    size_t columns;
    bool turned;
} matrix;

/* to = a b: rows x columns, with `inner` products for each. */
static void multiply(const mr_perceptron *p, size_t rows, size_t columns, size_t inner, matrix a, matrix b, void *to) {
    const enum CBLAS_TRANSPOSE turn_a = a.turned ? CblasTrans : CblasNoTrans;
    const enum CBLAS_TRANSPOSE turn_b = b.turned ? CblasTrans : CblasNoTrans;
    const f77_int m = (f77_int)rows, n = (f77_int)columns, k = (f77_int)inner;
    if (p->doubles)
        cblas_dgemm(CblasRowMajor, turn_a, turn_b, m, n, k, 1.0, a.numbers, (f77_int)a.columns, b.numbers,
                    (f77_int)b.columns, 0.0, to, n);
    else
        cblas_sgemm(CblasRowMajor, turn_a, turn_b, m, n, k, 1.0f, a.numbers, (f77_int)a.columns, b.numbers,
                    (f77_int)b.columns, 0.0f, to, n);
}

void mr_perceptron_point_set(mr_perceptron_point *point, const double *parameters) {
    const mr_perceptron *p = point->perceptron;
    size_t at = 0;
    point->parameters = parameters;
    for (size_t l = 0; l < p->layers; l++) {
        const size_t weights = p->units[l] * inputs_of(p, l);
        for (size_t i = 0; i < weights; i++)
            put_number(p, point->weights, at++, parameters[i]);
        parameters += weights + p->units[l];
    }
}

/* ---- a chunk ----------------------------------------------------------------------------------------------------- */

/* A thread's memory: each layer's output, the rows before them, one layer's weight gradient. */
typedef struct scratch {
    void *out[MR_PERCEPTRON_LAYERS + 1], *gradient;
    size_t bytes;
} scratch;

static void *take(const mr_perceptron *p, scratch *s, void *memory, size_t numbers) {
    void *taken = memory ? (char *)memory + s->bytes : NULL;
    s->bytes += mr_aligned_bytes(numbers * number_bytes(p));
    return taken;
}

static scratch split(const mr_perceptron *p, void *memory) {
    scratch s = {.bytes = 0};
    size_t most = 0;
    s.out[0] = take(p, &s, memory, MR_FIT_CHUNK * p->rows->width);
    for (size_t l = 0; l < p->layers; l++) {
        s.out[l + 1] = take(p, &s, memory, MR_FIT_CHUNK * p->units[l]);
        most = p->units[l] * inputs_of(p, l) > most ? p->units[l] * inputs_of(p, l) : most;
    }
    s.gradient = take(p, &s, memory, most);
    return s;
}

/* Adds the biases, and cuts negative values except in the last layer. */
static void finish_layer(const mr_perceptron *p, void *out, const double *biases, size_t units, bool last) {
    for (size_t i = 0; i < MR_FIT_CHUNK; i++)
        for (size_t u = 0; u < units; u++) {
            const double value = number_at(p, out, i * units + u) + biases[u];
            put_number(p, out, i * units + u, last || value > 0.0 ? value : 0.0);
        }
}

static void take_rows(const mr_perceptron *p, size_t chunk, const scratch *s) {
    if (p->doubles)
        mr_fit_take_doubles(p->rows, chunk, s->out[0]);
    else
        mr_fit_take_floats(p->rows, chunk, s->out[0]);
}

static void run_forward(const mr_perceptron_point *point, const scratch *s) {
    const mr_perceptron *p = point->perceptron;
    const char *weights = point->weights;
    const double *parameters = point->parameters;
    for (size_t l = 0; l < p->layers; l++) {
        const size_t inputs = inputs_of(p, l), units = p->units[l];
        multiply(p, MR_FIT_CHUNK, units, inputs, (matrix){s->out[l], inputs, false}, (matrix){weights, inputs, true},
                 s->out[l + 1]);
        weights += units * inputs * number_bytes(p);
        parameters += units * inputs;
        finish_layer(p, s->out[l + 1], parameters, units, l + 1 == p->layers);
        parameters += units;
    }
}

/* The loss for the chunk's rows; logits become residuals. `row` must have room for one row's logits. */
static double lose(const mr_perceptron *p, size_t chunk, const scratch *s, double *row) {
    const size_t outputs = p->units[p->layers - 1], count = mr_fit_rows_of(p->rows, chunk);
    void *logits = s->out[p->layers];
    double loss = 0.0;
    for (size_t i = 0; i < count; i++) {
        const size_t at = mr_fit_row(p->rows, chunk * MR_FIT_CHUNK + i);
        const double weight = mr_fit_row_weight(p->rows, at);
        for (size_t j = 0; j < outputs; j++)
            row[j] = number_at(p, logits, i * outputs + j);
        loss += weight * mr_fit_softmax(row, outputs, (size_t)p->rows->classes[at]);
        for (size_t j = 0; j < outputs; j++)
            put_number(p, logits, i * outputs + j, weight * row[j]);
    }
    memset((char *)logits + count * outputs * number_bytes(p), 0, (MR_FIT_CHUNK - count) * outputs * number_bytes(p));
    return loss;
}

/* The gradient for layer l's weights and biases from its residuals. */
static void sum_layer(const mr_perceptron *p, size_t l, const scratch *s, double *sum) {
    const size_t inputs = inputs_of(p, l), units = p->units[l], weights = units * inputs;
    multiply(p, units, inputs, MR_FIT_CHUNK, (matrix){s->out[l + 1], units, true}, (matrix){s->out[l], inputs, false},
             s->gradient);
    for (size_t i = 0; i < weights; i++)
        sum[i] = number_at(p, s->gradient, i);
    memset(sum + weights, 0, units * sizeof *sum);
    for (size_t i = 0; i < MR_FIT_CHUNK; i++)
        for (size_t u = 0; u < units; u++)
            sum[weights + u] += number_at(p, s->out[l + 1], i * units + u);
}

/* Replaces the previous layer's output with the residuals before layer l: zero for units that gave nothing. `work` must
 * have room for MR_FIT_CHUNK x inputs. */
static void pass_back(const mr_perceptron *p, size_t l, const scratch *s, const void *weights, void *work) {
    const size_t inputs = inputs_of(p, l), units = p->units[l];
    multiply(p, MR_FIT_CHUNK, inputs, units, (matrix){s->out[l + 1], units, false}, (matrix){weights, inputs, false},
             work);
    for (size_t i = 0; i < MR_FIT_CHUNK * inputs; i++)
        put_number(p, s->out[l], i, number_at(p, s->out[l], i) > 0.0 ? number_at(p, work, i) : 0.0);
}

static void run_backward(const mr_perceptron_point *point, const scratch *s, void *work, double *sum) {
    const mr_perceptron *p = point->perceptron;
    size_t weights = 0, parameters = 0;
    for (size_t l = 0; l < p->layers; l++) {
        weights += p->units[l] * inputs_of(p, l);
        parameters += p->units[l] * (inputs_of(p, l) + 1);
    }
    for (size_t l = p->layers; l-- > 0;) {
        weights -= p->units[l] * inputs_of(p, l);
        parameters -= p->units[l] * (inputs_of(p, l) + 1);
        sum_layer(p, l, s, sum + parameters);
        if (l > 0)
            pass_back(p, l, s, (const char *)point->weights + weights * number_bytes(p), work);
    }
}

/* Room for the widest hidden layer's residuals. */
static size_t work_bytes(const mr_perceptron *p) {
    size_t most = 0;
    for (size_t l = 0; l + 1 < p->layers; l++)
        most = p->units[l] > most ? p->units[l] : most;
    return MR_FIT_CHUNK * most * number_bytes(p);
}

static void make_chunk(void *context, size_t chunk, void *memory, double *sum) {
    const mr_perceptron_point *point = context;
    const mr_perceptron *p = point->perceptron;
    const scratch s = split(p, memory);
    const size_t at = point->first + chunk;
    take_rows(p, at, &s);
    run_forward(point, &s);
    /* The sum has more numbers than the last layer has units, and none is used yet, so a row can go there. */
    double loss = lose(p, at, &s, sum);
    run_backward(point, &s, (char *)memory + s.bytes, sum);
    sum[mr_perceptron_parameters(p)] = loss;
}

mr_fit_task mr_perceptron_task(mr_perceptron_point *point, size_t chunks) {
    const mr_perceptron *p = point->perceptron;
    return (mr_fit_task){.chunks = chunks, .length = mr_perceptron_parameters(p) + 1,
                         .scratch_bytes = split(p, NULL).bytes + work_bytes(p), .make = make_chunk,
                         .context = point};
}

void mr_perceptron_logits(const mr_perceptron_point *point, size_t chunk, void *scratch_memory, double *logits) {
    const mr_perceptron *p = point->perceptron;
    const scratch s = split(p, scratch_memory);
    take_rows(p, chunk, &s);
    run_forward(point, &s);
    for (size_t i = 0; i < MR_FIT_CHUNK * p->units[p->layers - 1]; i++)
        logits[i] = number_at(p, s.out[p->layers], i);
}

void mr_adam_step(mr_adam *adam, double rate, const double *gradient, double *parameters) {
    const double keep_mean = 0.9, keep_square = 0.999, small = 1e-8;
    adam->step++;
    const double mean_part = 1.0 - pow(keep_mean, (double)adam->step);
    const double square_part = 1.0 - pow(keep_square, (double)adam->step);
    for (size_t i = 0; i < adam->length; i++) {
        adam->mean[i] = keep_mean * adam->mean[i] + (1.0 - keep_mean) * gradient[i];
        adam->square[i] = keep_square * adam->square[i] + (1.0 - keep_square) * gradient[i] * gradient[i];
        parameters[i] -= rate * (adam->mean[i] / mean_part) / (sqrt(adam->square[i] / square_part) + small);
    }
}
