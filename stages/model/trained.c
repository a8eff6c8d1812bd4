#include "stages/model/trained.h"

#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/cuda/cuda.h"

void mr_trained_fini(mr_trained *trained) {
    for (size_t l = 0; l < MR_TRAINED_LAYERS; l++)
        mr_npy_free(&trained->layer[l]);
    mr_free(trained->vector_classes);
    *trained = (mr_trained){0};
}

/* The widest perceptron layer except the last; for neighbors, one number per vector. */
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
        return batch * (widest(trained) + mr_nearest_scratch(widest(trained), trained->k));
    return 2 * batch * widest(trained);
}

/* ---- products and votes of a batch ------------------------------------------------------------------------------ */

static mr_linear_work product(const mr_matrix_f32 *matrix, const float *numbers, const float *from, size_t stride,
                              int batch, float *to) {
    return (mr_linear_work){.weights = numbers, .bias = numbers + matrix->columns - 1,
                            .weight_stride = matrix->columns, .bias_stride = matrix->columns,
                            .outputs = (int)matrix->rows, .inputs = (int)matrix->columns - 1, .batch = batch,
                            .alone = 1, .src = from, .src_stride = stride, .dst = to, .dst_stride = matrix->rows};
}

static float *output_of(const mr_trained_work *work, size_t layer) {
    const mr_trained *t = work->trained;
    return layer + 1 == t->layers ? work->logits
                                  : work->scratch + layer % 2 * (size_t)work->batch * widest(t);
}

/* Layer `layer` as a product on `numbers`, without the activation that follows. */
static mr_linear_work product_of(const mr_trained_work *work, size_t layer, const float *numbers) {
    const mr_trained *t = work->trained;
    const float *from = layer ? output_of(work, layer - 1) : work->vectors;
    const size_t stride = layer ? t->layer[layer - 1].rows : work->stride;
    return product(&t->layer[layer], numbers, from, stride, work->batch, output_of(work, layer));
}

static mr_rectify_work units_of(const mr_trained_work *work, size_t layer) {
    float *out = output_of(work, layer);
    return (mr_rectify_work){.gate = out, .src = out, .dst = out,
                             .count = (size_t)work->batch * work->trained->layer[layer].rows};
}

/* The vote on vector `at` in the batch; the scratch memory holds its products with all kept vectors. */
static mr_nearest_work votes_of(const mr_trained_work *work, size_t at, const int32_t *classes) {
    const mr_trained *t = work->trained;
    const size_t vectors = t->layer[0].rows;
    return (mr_nearest_work){.near = work->scratch + at * vectors, .classes = classes,
                             .shares = work->logits + at * t->classes,
                             .scratch = work->scratch + (size_t)work->batch * vectors +
                                        at * mr_nearest_scratch(vectors, t->k),
                             .count = (int)vectors, .most = (int)t->k, .class_count = (int)t->classes};
}

static mr_linear_work distances_of(const mr_trained_work *work, const float *numbers) {
    return product(&work->trained->layer[0], numbers, work->vectors, work->stride, work->batch, work->scratch);
}

/* ---- on processors ----------------------------------------------------------------------------------------------- */

static void run_layers(const mr_trained_work *work) {
    const mr_trained *t = work->trained;
    for (size_t l = 0; l < t->layers; l++) {
        const mr_linear_work layer = product_of(work, l, t->layer[l].data);
        mr_linear(&layer);
        const mr_rectify_work units = units_of(work, l);
        if (l + 1 < t->layers)
            mr_rectify(&units);
    }
}

void mr_trained_logits(const mr_trained_work *work) {
    const mr_trained *t = work->trained;
    if (t->kind != MR_CLASSIFIER_NEIGHBORS) {
        run_layers(work);
        return;
    }
    const mr_linear_work distances = distances_of(work, t->layer[0].data);
    mr_linear(&distances);
    for (size_t n = 0; n < (size_t)work->batch; n++) {
        const mr_nearest_work votes = votes_of(work, n, t->vector_classes);
        mr_nearest(&votes);
    }
}

static int run(void *arguments) {
    mr_trained_logits(arguments);
    return MR_OK;
}

/* ---- on CUDA devices --------------------------------------------------------------------------------------------- */

int mr_trained_copies_init(mr_trained_copies *copies, const mr_trained *trained) {
    int status = MR_OK;
    *copies = (mr_trained_copies){.vector_classes = NULL};
    for (size_t l = 0; l < trained->layers && !status; l++) {
        const mr_matrix_f32 *matrix = &trained->layer[l];
        status = mr_resident_create(&copies->layer[l], matrix->data,
                                    matrix->rows * matrix->columns * sizeof *matrix->data);
    }
    if (!status && trained->kind == MR_CLASSIFIER_NEIGHBORS)
        status = mr_resident_create(&copies->vector_classes, trained->vector_classes,
                                    trained->layer[0].rows * sizeof *trained->vector_classes);
    return status;
}

void mr_trained_copies_fini(mr_trained_copies *copies) {
    for (size_t l = 0; l < MR_TRAINED_LAYERS; l++)
        mr_resident_destroy(&copies->layer[l]);
    mr_resident_destroy(&copies->vector_classes);
}

size_t mr_trained_numbers(const mr_trained *trained) {
    size_t numbers = 0;
    for (size_t l = 0; l < trained->layers; l++)
        numbers += trained->layer[l].rows * trained->layer[l].columns;
    return numbers;
}

size_t mr_trained_bytes(const mr_trained *trained) {
    const size_t vectors = trained->kind == MR_CLASSIFIER_NEIGHBORS ? trained->layer[0].rows : 0;
    return mr_trained_numbers(trained) * sizeof(float) + vectors * sizeof *trained->vector_classes;
}

/* A product with its bias takes two launches. */
int mr_trained_launches(const mr_trained *trained, int batch) {
    enum { TOGETHER = 32 };
    if (trained->kind == MR_CLASSIFIER_NEIGHBORS)
        return 2 + 2 * ((batch + TOGETHER - 1) / TOGETHER);
    return 3 * (int)trained->layers - 1;
}

static int enqueue_layers(mr_stream *stream, const mr_trained_work *work, mr_trained_copies *copies) {
    const mr_trained *t = work->trained;
    int status = MR_OK;
    for (size_t l = 0; l < t->layers && !status; l++) {
        const void *numbers = NULL;
        status = mr_resident_get(copies->layer[l], stream, &numbers);
        if (status)
            break;
        const mr_linear_work layer = product_of(work, l, numbers);
        const mr_rectify_work units = units_of(work, l);
        status = mr_linear_enqueue(stream, &layer);
        if (!status && l + 1 < t->layers)
            status = mr_rectify_enqueue(stream, &units, 1);
    }
    return status;
}

static int enqueue_votes(mr_stream *stream, const mr_trained_work *work, const int32_t *classes) {
    enum { TOGETHER = 32 };
    mr_nearest_work votes[TOGETHER];
    int status = MR_OK;
    for (int first = 0, some; first < work->batch && !status; first += some) {
        some = work->batch - first < TOGETHER ? work->batch - first : TOGETHER;
        for (int i = 0; i < some; i++)
            votes[i] = votes_of(work, (size_t)(first + i), classes);
        status = mr_nearest_enqueue(stream, votes, some);
    }
    return status;
}

static int enqueue_neighbors(mr_stream *stream, const mr_trained_work *work, mr_trained_copies *copies) {
    const void *numbers = NULL, *classes = NULL;
    int status = mr_resident_get(copies->layer[0], stream, &numbers);
    if (!status)
        status = mr_resident_get(copies->vector_classes, stream, &classes);
    if (status)
        return status;
    const mr_linear_work distances = distances_of(work, numbers);
    status = mr_linear_enqueue(stream, &distances);
    return status ? status : enqueue_votes(stream, work, classes);
}

int mr_trained_enqueue(mr_stream *stream, const mr_trained_work *work, mr_trained_copies *copies) {
    if (!mr_stream_is_cuda(stream))
        return mr_stream_submit(stream, run, work, sizeof *work);
    return work->trained->kind == MR_CLASSIFIER_NEIGHBORS ? enqueue_neighbors(stream, work, copies)
                                                          : enqueue_layers(stream, work, copies);
}
