#include "stages/model/trained.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"

void mr_trained_fini(mr_trained *trained) {
    for (size_t l = 0; l < MR_TRAINED_LAYERS; l++)
        mr_npy_free(&trained->layer[l]);
    mr_free(trained->vector_classes);
    *trained = (mr_trained){0};
}

/* The widest layer but the last one of perceptrons; of neighbors a number for each vector, and the best of them. */
static size_t widest(const mr_trained *trained) {
    size_t most = 0;
    if (trained->kind == MR_CLASSIFIER_NEIGHBORS)
        return trained->layer[0].rows;
    for (size_t l = 0; l + 1 < trained->layers; l++)
        most = trained->layer[l].rows > most ? trained->layer[l].rows : most;
    return most;
}

size_t mr_trained_scratch(const mr_trained *trained, size_t batch) {
    if (trained->kind == MR_CLASSIFIER_NEIGHBORS)
        return batch * widest(trained) + 2 * trained->k;
    return 2 * batch * widest(trained);
}

static void multiply(const mr_matrix_f32 *matrix, const float *from, size_t stride, int batch, float *to) {
    mr_linear(&(mr_linear_work){.weights = matrix->data, .bias = matrix->data + matrix->columns - 1,
                                .weight_stride = matrix->columns, .bias_stride = matrix->columns,
                                .outputs = (int)matrix->rows, .inputs = (int)matrix->columns - 1, .batch = batch,
                                .alone = 1, .src = from, .src_stride = stride, .dst = to, .dst_stride = matrix->rows});
}

static void run_layers(const mr_trained_work *work) {
    const mr_trained *t = work->trained;
    const size_t half = (size_t)work->batch * widest(t);
    const float *from = work->vectors;
    size_t stride = work->stride;
    for (size_t l = 0; l < t->layers; l++) {
        const bool last = l + 1 == t->layers;
        float *to = last ? work->logits : work->scratch + l % 2 * half;
        multiply(&t->layer[l], from, stride, work->batch, to);
        for (size_t i = 0; !last && i < (size_t)work->batch * t->layer[l].rows; i++)
            to[i] = to[i] > 0.0f ? to[i] : 0.0f;
        from = to;
        stride = t->layer[l].rows;
    }
}

static void vote(const mr_trained_work *work, const float *near, float *shares) {
    const mr_trained *t = work->trained;
    float *best = work->scratch + (size_t)work->batch * t->layer[0].rows;
    int32_t *index = (int32_t *)(void *)(best + t->k), found = 0;
    mr_top_k(&(mr_top_k_work){.logits = near, .count = (int)t->layer[0].rows, .most = (int)t->k,
                              .activation = MR_ACTIVATION_NONE, .threshold = -__builtin_inff(), .index = index,
                              .score = best, .found = &found});
    memset(shares, 0, t->classes * sizeof *shares);
    for (int32_t i = 0; i < found; i++)
        shares[t->vector_classes[index[i]]] += 1.0f;
    for (size_t j = 0; j < t->classes && found; j++)
        shares[j] /= (float)found;
}

void mr_trained_logits(const mr_trained_work *work) {
    const mr_trained *t = work->trained;
    if (t->kind != MR_CLASSIFIER_NEIGHBORS) {
        run_layers(work);
        return;
    }
    multiply(&t->layer[0], work->vectors, work->stride, work->batch, work->scratch);
    for (size_t n = 0; n < (size_t)work->batch; n++)
        vote(work, work->scratch + n * t->layer[0].rows, work->logits + n * t->classes);
}

static int run(void *arguments) {
    mr_trained_logits(arguments);
    return MR_OK;
}

int mr_trained_enqueue(mr_stream *stream, const mr_trained_work *work) {
    return mr_stream_submit(stream, run, work, sizeof *work);
}
