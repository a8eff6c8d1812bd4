/* The operations in kernels/vector. `count` pieces of work are contiguous in a region. */
#include "kernels/vector/vector.h"
#include "stages/operations/operation.h"

enum { FEATURES = 1280, CLASSES = 1000, BEST = 5, PIECES = 32, POOLED = 8, POSITIONS = 7 * 7,
       UNITS = 128, VECTORS = 10000, NEAREST = 8 };

static void region(mr_operation_call *call, double floats, mr_noise noise) {
    mr_operation_region(call, MR_MEMORY_DEVICE, (size_t)floats * sizeof(float), noise);
}

/* ---- linear ----------------------------------------------------------------------------------------------------- */

typedef struct linear_shape {
    int batch, alone;
} linear_shape;

/* Weights (classes x features), one bias per class, the items and their results, each once. A result sums `features`
 * products and adds the bias: 2 features. */
static int open_linear(mr_operation_call *call) {
    const linear_shape *shape = call->type->shape;
    const double batch = shape->batch;
    region(call, FEATURES * CLASSES, MR_NOISE_FLOATS);
    region(call, CLASSES, MR_NOISE_FLOATS);
    region(call, FEATURES * batch, MR_NOISE_FLOATS);
    region(call, CLASSES * batch, MR_NOISE_NONE);
    call->bytes = sizeof(float) * (FEATURES * CLASSES + CLASSES + (FEATURES + CLASSES) * batch);
    call->flops = 2.0 * FEATURES * CLASSES * batch;
    return MR_OK;
}

static int enqueue_linear(mr_operation_call *call, size_t set) {
    const linear_shape *shape = call->type->shape;
    const mr_linear_work work = {
        .weights = mr_operation_at(call, set, 0), .weight_stride = FEATURES, .bias = mr_operation_at(call, set, 1),
        .bias_stride = 1, .outputs = CLASSES, .inputs = FEATURES, .batch = shape->batch, .alone = shape->alone,
        .src = mr_operation_at(call, set, 2), .src_stride = FEATURES, .dst = mr_operation_at(call, set, 3),
        .dst_stride = CLASSES,
    };
    return mr_linear_enqueue(call->stream, &work);
}

/* ---- best classes ----------------------------------------------------------------------------------------------- */

static int enqueue_top_k(mr_operation_call *call, size_t set) {
    mr_top_k_work works[PIECES];
    const float *logits = mr_operation_at(call, set, 0);
    int32_t *index = mr_operation_at(call, set, 1), *found = index + BEST * PIECES;
    float *score = mr_operation_at(call, set, 1);
    for (int i = 0; i < PIECES; i++)
        works[i] = (mr_top_k_work){.logits = logits + i * CLASSES, .count = CLASSES, .most = BEST,
                                   .activation = MR_ACTIVATION_SOFTMAX, .index = index + i * BEST,
                                   .score = score + (BEST + 1) * PIECES + i * BEST, .found = found + i};
    return mr_top_k_enqueue(call->stream, works, PIECES);
}

/* ---- rectified units and votes of neighbors --------------------------------------------------------------------- */

static int enqueue_rectify(mr_operation_call *call, size_t set) {
    const float *src = mr_operation_at(call, set, 0);
    const mr_rectify_work work = {.gate = src, .src = src, .dst = mr_operation_at(call, set, 1),
                                  .count = UNITS * PIECES};
    return mr_rectify_enqueue(call->stream, &work, 1);
}

/* The vectors' classes have no noise: all are class 0. All values and the nearest vectors' classes are read, and one
 * share per class is written. */
static int open_nearest(mr_operation_call *call) {
    const double scratch = (double)mr_nearest_scratch(VECTORS, BEST);
    region(call, (double)VECTORS * NEAREST, MR_NOISE_FLOATS);
    region(call, VECTORS, MR_NOISE_NONE);
    region(call, scratch * NEAREST, MR_NOISE_NONE);
    region(call, CLASSES * NEAREST, MR_NOISE_NONE);
    call->bytes = sizeof(float) * NEAREST * ((double)VECTORS + BEST + CLASSES);
    return MR_OK;
}

static int enqueue_nearest(mr_operation_call *call, size_t set) {
    const size_t scratch = mr_nearest_scratch(VECTORS, BEST);
    mr_nearest_work works[NEAREST];
    const float *near = mr_operation_at(call, set, 0);
    float *work = mr_operation_at(call, set, 2), *shares = mr_operation_at(call, set, 3);
    for (size_t i = 0; i < NEAREST; i++)
        works[i] = (mr_nearest_work){.near = near + i * VECTORS, .classes = mr_operation_at(call, set, 1),
                                     .scratch = work + i * scratch, .shares = shares + i * CLASSES, .count = VECTORS,
                                     .most = BEST, .class_count = CLASSES};
    return mr_nearest_enqueue(call->stream, works, NEAREST);
}

/* ---- normalising and pooling ------------------------------------------------------------------------------------ */

static int enqueue_normalize(mr_operation_call *call, size_t set) {
    mr_normalize_work works[PIECES];
    const float *src = mr_operation_at(call, set, 0);
    float *dst = mr_operation_at(call, set, 1);
    for (int i = 0; i < PIECES; i++)
        works[i] = (mr_normalize_work){.src = src + i * FEATURES, .dst = dst + i * FEATURES, .count = FEATURES};
    return mr_normalize_enqueue(call->stream, works, PIECES);
}

static int enqueue_pool(mr_operation_call *call, size_t set) {
    mr_pool_work works[POOLED];
    const float *src = mr_operation_at(call, set, 0);
    float *dst = mr_operation_at(call, set, 1);
    const int *channels_last = call->type->shape;
    for (int i = 0; i < POOLED; i++)
        works[i] = (mr_pool_work){.src = src + i * FEATURES * POSITIONS, .dst = dst + i * FEATURES,
                                  .channels = FEATURES, .positions = POSITIONS, .channels_last = *channels_last};
    return mr_pool_mean_enqueue(call->stream, works, POOLED);
}

#define VECTOR(label, to_do, shape_text, shape_value, suffix, ...)                                                     \
    {                                                                                                                  \
        .name = label, .function = "mr_" to_do "_enqueue", .works_on = shape_text, .group = MR_OPERATION_KERNEL,       \
        .here = MR_HERE_ALL, .shape = shape_value, .enqueue = enqueue_##suffix, __VA_ARGS__                            \
    }
#define LINEAR(label, shape_text, items, single)                                                                       \
    VECTOR(label, "linear", shape_text, (&(linear_shape){items, single}), linear, .open = open_linear)
/* Floats are read, and results written: index, score and number found; as many floats; one mean a channel. */
#define FLOATS(read_floats, written_floats)                                                                            \
    .reads = (read_floats) * sizeof(float), .writes = (written_floats) * sizeof(float), .noise = MR_NOISE_FLOATS
#define POOL(label, shape_text, shape_value)                                                                           \
    VECTOR(label, "pool_mean", shape_text, shape_value, pool,                                                          \
           FLOATS(FEATURES * POSITIONS * POOLED, FEATURES * POOLED))

static const int planar = 0, interleaved = 1;

const mr_operation_type mr_operation_vectors[] = {
    LINEAR("linear-1", "1280 features to 1000 classes, one item", 1, 0),
    LINEAR("linear-8", "1280 features to 1000 classes, 8 items as alone", 8, 1),
    LINEAR("linear-64", "1280 features to 1000 classes, 64 items", 64, 0),
    VECTOR("top-k", "top_k", "softmax and 5 best of 1000 classes, 32 items", NULL, top_k,
           FLOATS(CLASSES * PIECES, (2 * BEST + 1) * PIECES)),
    VECTOR("rectify", "rectify", "128 units of 32 items", NULL, rectify, FLOATS(UNITS * PIECES, UNITS * PIECES)),
    VECTOR("nearest", "nearest", "votes of the 5 nearest of 10000 vectors, 8 items", NULL, nearest,
           .open = open_nearest),
    VECTOR("normalize", "normalize", "1280 floats, 32 items", NULL, normalize,
           FLOATS(FEATURES * PIECES, FEATURES * PIECES)),
    POOL("pool", "1280 channels of 7x7, planar, 8 items", &planar),
    POOL("pool-nhwc", "1280 channels of 7x7, interleaved, 8 items", &interleaved),
    {0},
};
