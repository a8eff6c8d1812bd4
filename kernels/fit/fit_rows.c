#include "kernels/fit/fit_rows.h"

#include <math.h>
#include <string.h>

size_t mr_fit_rows_of(const mr_fit_rows *rows, size_t chunk) {
    const size_t left = rows->count - chunk * MR_FIT_CHUNK;
    return left < MR_FIT_CHUNK ? left : MR_FIT_CHUNK;
}

static const float *row_at(const mr_fit_rows *rows, size_t at) {
    return rows->features + mr_fit_row(rows, at) * rows->stride;
}

/* Rows come from memory: fetches what is this many numbers ahead, mostly in the next row. */
enum { AHEAD = 512, LINE = 16 };

static void standardise_floats(const mr_fit_rows *rows, const float *restrict from, float *restrict to) {
    const double *restrict mean = rows->mean, *restrict factor = rows->factor;
    const size_t lines = rows->width / LINE * LINE;
    for (size_t k = 0; k < lines; k += LINE) {
        __builtin_prefetch(from + k + AHEAD);
        for (size_t j = k; j < k + LINE; j++)
            to[j] = (float)(((double)from[j] - mean[j]) * factor[j]);
    }
    for (size_t k = lines; k < rows->width; k++)
        to[k] = (float)(((double)from[k] - mean[k]) * factor[k]);
}

static void standardise_doubles(const mr_fit_rows *rows, const float *restrict from, double *restrict to) {
    const double *restrict mean = rows->mean, *restrict factor = rows->factor;
    for (size_t k = 0; k < rows->width; k++)
        to[k] = ((double)from[k] - mean[k]) * factor[k];
}

void mr_fit_take_floats(const mr_fit_rows *rows, size_t chunk, float *to) {
    const size_t count = mr_fit_rows_of(rows, chunk), width = rows->width;
    for (size_t i = 0; i < count; i++, to += width) {
        const float *from = row_at(rows, chunk * MR_FIT_CHUNK + i);
        if (rows->mean)
            standardise_floats(rows, from, to);
        else
            memcpy(to, from, width * sizeof *to);
    }
    memset(to, 0, (MR_FIT_CHUNK - count) * width * sizeof *to);
}

void mr_fit_take_doubles(const mr_fit_rows *rows, size_t chunk, double *to) {
    const size_t count = mr_fit_rows_of(rows, chunk), width = rows->width;
    for (size_t i = 0; i < count; i++, to += width) {
        const float *from = row_at(rows, chunk * MR_FIT_CHUNK + i);
        if (rows->mean)
            standardise_doubles(rows, from, to);
        for (size_t k = 0; !rows->mean && k < width; k++)
            to[k] = (double)from[k];
    }
    memset(to, 0, (MR_FIT_CHUNK - count) * width * sizeof *to);
}

double mr_fit_softmax(double *logit, size_t outputs, size_t own) {
    double most = logit[0], sum = 0.0, chosen = logit[own];
    for (size_t j = 1; j < outputs; j++)
        most = logit[j] > most ? logit[j] : most;
    for (size_t j = 0; j < outputs; j++)
        sum += logit[j] = exp(logit[j] - most);
    for (size_t j = 0; j < outputs; j++)
        logit[j] /= sum;
    logit[own] -= 1.0;
    return log(sum) + most - chosen;
}

double mr_fit_logistic(double *logit, size_t outputs, size_t own) {
    double loss = 0.0;
    for (size_t j = 0; j < outputs; j++) {
        double sign = j == own ? 1.0 : -1.0, margin = sign * logit[j], small = exp(-fabs(margin));
        loss += log1p(small) + (margin < 0.0 ? -margin : 0.0);
        logit[j] = -sign * (margin < 0.0 ? 1.0 : small) / (1.0 + small);
    }
    return loss;
}

double mr_fit_squared_hinge(double *logit, size_t outputs, size_t own) {
    double loss = 0.0;
    for (size_t j = 0; j < outputs; j++) {
        double sign = j == own ? 1.0 : -1.0, inside = fmax(0.0, 1.0 - sign * logit[j]);
        loss += inside * inside;
        logit[j] = -2.0 * sign * inside;
    }
    return loss;
}
