#include "stages/train/train_loss.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/figures.h"
#include "millrace/status.h"

/* Limits for fitting a temperature: rows, and logits. */
enum { TEMPERATURE_ROWS = 20000, TEMPERATURE_NUMBERS = 16 << 20, TOGETHER = 32 };

int mr_train_layer(mr_matrix_f32 *layer, const double *parameters, size_t units, size_t inputs, double divisor) {
    const double *biases = parameters + units * inputs;
    float *to = mr_alloc_aligned(64, mr_aligned_bytes(units * (inputs + 1) * sizeof *to));
    if (!to)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu x %zu weights", units, inputs + 1);
    *layer = (mr_matrix_f32){units, inputs + 1, to};
    for (size_t u = 0; u < units; u++) {
        for (size_t k = 0; k < inputs; k++)
            *to++ = (float)(parameters[u * inputs + k] / divisor);
        *to++ = (float)(biases[u] / divisor);
    }
    for (size_t i = 0; i < units * (inputs + 1); i++)
        if (!isfinite(layer->data[i]))
            return mr_fail(MR_ERROR_DATA, "the fit led to weights that are not finite: are features of very different "
                                          "size not standardised?");
    return MR_OK;
}

/* Logits for validation rows from place `first`, `step` places apart; `room`: one vector each, and scratch. */
static void classify(const mr_fitting *t, const mr_trained *trained, size_t first, size_t step, size_t count,
                     float *room, float *logits) {
    const size_t width = t->given.width;
    for (size_t i = 0; i < count; i++)
        memcpy(room + i * width, t->given.features + t->validation[first + i * step] * t->given.stride,
               width * sizeof *room);
    mr_trained_logits(&(mr_trained_work){.trained = trained, .vectors = room, .stride = width, .batch = (int)count,
                                         .scratch = room + TOGETHER * width, .logits = logits});
}

static size_t room_numbers(const mr_fitting *t, const mr_trained *trained) {
    return TOGETHER * t->given.width + mr_trained_scratch(trained, TOGETHER);
}

/* ---- temperature ------------------------------------------------------------------------------------------------- */

static double measure_temperature(const mr_fitting *t, const mr_trained *trained, size_t rows, float *room,
                                  double *logits, int32_t *truth) {
    const size_t classes = trained->classes, step = t->validation_count / rows;
    float *narrow = room + room_numbers(t, trained);
    for (size_t first = 0, some; first < rows; first += some) {
        some = rows - first < TOGETHER ? rows - first : TOGETHER;
        classify(t, trained, first * step, step, some, room, narrow);
        for (size_t i = 0; i < some * classes; i++)
            logits[first * classes + i] = (double)narrow[i];
        for (size_t i = first; i < first + some; i++)
            truth[i] = t->given.classes[t->validation[i * step]];
    }
    return mr_temperature(&(mr_scored){.rows = rows, .classes = classes, .scores = logits, .truth = truth});
}

int mr_train_temperature(const mr_fitting *t, const mr_trained *trained, double *temperature) {
    const size_t classes = trained->classes, most = TEMPERATURE_NUMBERS / classes + 1;
    size_t rows = t->validation_count < TEMPERATURE_ROWS ? t->validation_count : TEMPERATURE_ROWS;
    rows = rows < most ? rows : most;
    *temperature = 1.0;
    if (!rows)
        return MR_OK;
    float *room = mr_alloc((room_numbers(t, trained) + TOGETHER * classes) * sizeof *room);
    double *logits = mr_alloc(rows * classes * sizeof *logits);
    int32_t *truth = mr_alloc(rows * sizeof *truth);
    int status = room && logits && truth ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for %zu rows of logits", rows);
    if (!status)
        *temperature = measure_temperature(t, trained, rows, room, logits, truth);
    mr_free(room);
    mr_free(logits);
    mr_free(truth);
    return status;
}

/* ---- log loss ---------------------------------------------------------------------------------------------------- */

typedef struct losing {
    const mr_fitting *training;
    const mr_trained *trained;
} losing;

/* -log of the score for the row's class. If scores do not add up to 1, its share counts. */
static double lose(const mr_trained *trained, const float *logits, double *row, size_t own) {
    double all = 0.0;
    for (size_t j = 0; j < trained->classes; j++)
        row[j] = (double)logits[j];
    if (trained->activation == MR_ACTIVATION_SOFTMAX)
        return mr_fit_softmax(row, trained->classes, own);
    for (size_t j = 0; j < trained->classes; j++) {
        row[j] = trained->activation == MR_ACTIVATION_SIGMOID ? 1.0 / (1.0 + exp(-row[j])) : row[j];
        all += row[j];
    }
    double share = all > 0.0 ? row[own] / all : 1.0 / (double)trained->classes;
    return -log(fmin(fmax(share, DBL_EPSILON), 1.0 - DBL_EPSILON));
}

static void make_chunk(void *context, size_t chunk, void *scratch, double *sum) {
    const losing *l = context;
    const mr_fitting *t = l->training;
    const size_t classes = l->trained->classes;
    const mr_fit_rows rows = mr_training_rows(t, true);
    const size_t end = chunk * MR_FIT_CHUNK + mr_fit_rows_of(&rows, chunk);
    double *row = scratch;
    float *room = (float *)(void *)(row + classes), *logits = room + room_numbers(t, l->trained);
    *sum = 0.0;
    for (size_t first = chunk * MR_FIT_CHUNK, some; first < end; first += some) {
        some = end - first < TOGETHER ? end - first : TOGETHER;
        classify(t, l->trained, first, 1, some, room, logits);
        for (size_t i = 0; i < some; i++)
            *sum += lose(l->trained, logits + i * classes, row,
                         (size_t)t->given.classes[t->validation[first + i]]);
    }
}

mr_fit_task mr_train_loss_task(const mr_fitting *t, const mr_trained *trained) {
    const size_t floats = room_numbers(t, trained) + TOGETHER * trained->classes;
    return (mr_fit_task){.chunks = mr_fit_chunks(t->validation_count), .length = 1, .make = make_chunk,
                         .scratch_bytes = trained->classes * sizeof(double) + floats * sizeof(float)};
}

double mr_train_log_loss(const mr_fitting *t, const mr_trained *trained, mr_fit_workers *workers) {
    losing l = {t, trained};
    double nodes[MR_FIT_BLOCKS];
    mr_fit_task task = mr_train_loss_task(t, trained);
    task.context = &l;
    if (!t->validation_count)
        return (double)NAN;
    mr_fit_workers_sum(workers, &task, nodes);
    return nodes[0] / (double)t->validation_count;
}

mr_fit_task mr_train_larger(const mr_fit_task *a, const mr_fit_task *b) {
    return (mr_fit_task){.chunks = a->chunks > b->chunks ? a->chunks : b->chunks,
                         .length = a->length > b->length ? a->length : b->length,
                         .scratch_bytes = a->scratch_bytes > b->scratch_bytes ? a->scratch_bytes : b->scratch_bytes};
}

void mr_train_tried(mr_fitting *t, mr_fit_tried tried, bool *better) {
    mr_classifier_card *card = &t->made->card;
    mr_fit_tried *list = (mr_fit_tried *)(uintptr_t)card->tried;
    *better = !card->tried_count || tried.validation < list[card->chosen].validation ||
              (isnan(list[card->chosen].validation) && !isnan(tried.validation));
    if (*better)
        card->chosen = card->tried_count;
    list[card->tried_count++] = tried;
}
