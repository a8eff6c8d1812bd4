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

void mr_perceptron_point_set(mr_perceptron_point *point, const double *parameters) {
    const mr_perceptron *p = point->perceptron;
    float *to = point->weights;
    point->parameters = parameters;
    for (size_t l = 0; l < p->layers; l++) {
        const size_t weights = p->units[l] * inputs_of(p, l);
        for (size_t i = 0; i < weights; i++)
            to[i] = (float)parameters[i];
        to += weights;
        parameters += weights + p->units[l];
    }
}

/* A thread's memory: the output of each layer, the rows before them, the gradient of one layer's weights. */
typedef struct scratch {
    float *out[MR_PERCEPTRON_LAYERS + 1], *gradient;
    size_t bytes;
} scratch;

static float *take(scratch *s, void *memory, size_t floats) {
    float *taken = memory ? (float *)(void *)((char *)memory + s->bytes) : NULL;
    s->bytes += mr_aligned_bytes(floats * sizeof(float));
    return taken;
}

static scratch split(const mr_perceptron *p, void *memory) {
    scratch s = {.bytes = 0};
    size_t most = 0;
    s.out[0] = take(&s, memory, MR_FIT_CHUNK * p->rows->width);
    for (size_t l = 0; l < p->layers; l++) {
        s.out[l + 1] = take(&s, memory, MR_FIT_CHUNK * p->units[l]);
        most = p->units[l] * inputs_of(p, l) > most ? p->units[l] * inputs_of(p, l) : most;
    }
    s.gradient = take(&s, memory, most);
    return s;
}

/* Adds the biases, and cuts negative values but for the last layer. */
static void finish_layer(float *out, const double *biases, size_t units, bool last) {
    for (size_t i = 0; i < MR_FIT_CHUNK; i++)
        for (size_t u = 0; u < units; u++) {
            float value = (float)((double)out[i * units + u] + biases[u]);
            out[i * units + u] = last || value > 0.0f ? value : 0.0f;
        }
}

static void run_forward(const mr_perceptron_point *point, const scratch *s) {
    const mr_perceptron *p = point->perceptron;
    const float *weights = point->weights;
    const double *parameters = point->parameters;
    for (size_t l = 0; l < p->layers; l++) {
        const f77_int inputs = (f77_int)inputs_of(p, l), units = (f77_int)p->units[l];
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, MR_FIT_CHUNK, units, inputs, 1.0f, s->out[l], inputs,
                    weights, inputs, 0.0f, s->out[l + 1], units);
        weights += p->units[l] * inputs_of(p, l);
        parameters += p->units[l] * inputs_of(p, l);
        finish_layer(s->out[l + 1], parameters, p->units[l], l + 1 == p->layers);
        parameters += p->units[l];
    }
}

/* The loss of the chunk's rows; their logits become residuals. `row`: room for the logits of a row. */
static double lose(const mr_perceptron *p, size_t chunk, const scratch *s, double *row) {
    const size_t outputs = p->units[p->layers - 1], count = mr_fit_rows_of(p->rows, chunk);
    float *logits = s->out[p->layers];
    double loss = 0.0;
    for (size_t i = 0; i < count; i++, logits += outputs) {
        const size_t at = mr_fit_row(p->rows, chunk * MR_FIT_CHUNK + i);
        const double weight = mr_fit_row_weight(p->rows, at);
        for (size_t j = 0; j < outputs; j++)
            row[j] = (double)logits[j];
        loss += weight * mr_fit_softmax(row, outputs, (size_t)p->rows->classes[at]);
        for (size_t j = 0; j < outputs; j++)
            logits[j] = (float)(weight * row[j]);
    }
    memset(logits, 0, (MR_FIT_CHUNK - count) * outputs * sizeof *logits);
    return loss;
}

/* The gradient of layer l's weights and biases from its residuals. */
static void sum_layer(const mr_perceptron *p, size_t l, const scratch *s, double *sum) {
    const size_t inputs = inputs_of(p, l), units = p->units[l], weights = units * inputs;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (f77_int)units, (f77_int)inputs, MR_FIT_CHUNK, 1.0f,
                s->out[l + 1], (f77_int)units, s->out[l], (f77_int)inputs, 0.0f, s->gradient, (f77_int)inputs);
    for (size_t i = 0; i < weights; i++)
        sum[i] = (double)s->gradient[i];
    memset(sum + weights, 0, units * sizeof *sum);
    for (size_t i = 0; i < MR_FIT_CHUNK; i++)
        for (size_t u = 0; u < units; u++)
            sum[weights + u] += (double)s->out[l + 1][i * units + u];
}

/* The residuals before layer l, in place of that layer's output: those of units that gave nothing are zero.
 * `work`: room for MR_FIT_CHUNK x inputs. */
static void pass_back(const mr_perceptron *p, size_t l, const scratch *s, const float *weights, float *work) {
    const size_t inputs = inputs_of(p, l), units = p->units[l];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, MR_FIT_CHUNK, (f77_int)inputs, (f77_int)units, 1.0f,
                s->out[l + 1], (f77_int)units, weights, (f77_int)inputs, 0.0f, work, (f77_int)inputs);
    for (size_t i = 0; i < MR_FIT_CHUNK * inputs; i++)
        s->out[l][i] = s->out[l][i] > 0.0f ? work[i] : 0.0f;
}

static void run_backward(const mr_perceptron_point *point, const scratch *s, float *work, double *sum) {
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
            pass_back(p, l, s, point->weights + weights, work);
    }
}

/* Room for the residuals of the widest hidden layer. */
static size_t work_floats(const mr_perceptron *p) {
    size_t most = 0;
    for (size_t l = 0; l + 1 < p->layers; l++)
        most = p->units[l] > most ? p->units[l] : most;
    return MR_FIT_CHUNK * most;
}

static void make_chunk(void *context, size_t chunk, void *memory, double *sum) {
    const mr_perceptron_point *point = context;
    const mr_perceptron *p = point->perceptron;
    const scratch s = split(p, memory);
    const size_t at = point->first + chunk;
    mr_fit_take_floats(p->rows, at, s.out[0]);
    run_forward(point, &s);
    /* The sum has more numbers than the last layer has units, and none of them is in use yet. */
    double loss = lose(p, at, &s, sum);
    run_backward(point, &s, (float *)(void *)((char *)memory + s.bytes), sum);
    sum[mr_perceptron_parameters(p)] = loss;
}

mr_fit_task mr_perceptron_task(mr_perceptron_point *point, size_t chunks) {
    const mr_perceptron *p = point->perceptron;
    return (mr_fit_task){.chunks = chunks, .length = mr_perceptron_parameters(p) + 1,
                         .scratch_bytes = split(p, NULL).bytes + work_floats(p) * sizeof(float), .make = make_chunk,
                         .context = point};
}

void mr_perceptron_logits(const mr_perceptron_point *point, size_t chunk, void *scratch_memory, float *logits) {
    const mr_perceptron *p = point->perceptron;
    const scratch s = split(p, scratch_memory);
    mr_fit_take_floats(p->rows, chunk, s.out[0]);
    run_forward(point, &s);
    memcpy(logits, s.out[p->layers], MR_FIT_CHUNK * p->units[p->layers - 1] * sizeof *logits);
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
