/* The operations in kernels/classical and kernels/detect. */
#include "kernels/classical/classical.h"
#include "kernels/detect/detect.h"
#include "stages/operations/operation.h"

/* The small pictures that preprocess makes for each. */
enum {
    SIDE = 224, BINS = 32, BOXES = 8,
    HOG_WIDTH = 64, HOG_HEIGHT = 128, HOG_BLOCK = 16, HOG_CELL = 8, HOG_BINS = 9,
    HOG_LENGTH = (HOG_WIDTH / HOG_CELL - 1) * (HOG_HEIGHT / HOG_CELL - 1) * 4 * HOG_BINS,
    HASHED = 32, WIDTH = 1920, HEIGHT = 1080, CHANGE_WIDTH = 640, CHANGE_HEIGHT = 360,
    BOXES_FOUND = 8400, CLASSES = 80, OBJECTS = 100
};

/* ---- histograms of colours -------------------------------------------------------------------------------------- */

static int enqueue_histogram(mr_operation_call *call, size_t set) {
    mr_histogram_work work = {.params = *(const mr_histogram_params *)call->type->shape, .count = MR_PIECE};
    const uint8_t *src = mr_operation_at(call, set, 0);
    float *dst = mr_operation_at(call, set, 1);
    for (int i = 0; i < MR_PIECE; i++) {
        work.src[i] = src + (size_t)i * 3 * SIDE * SIDE;
        work.dst[i] = dst + i * mr_histogram_length(&work.params);
    }
    return mr_histogram_enqueue(call->stream, &work);
}

/* ---- histograms of gradients ------------------------------------------------------------------------------------ */

static const mr_hog_params hog_params = {
    .width = HOG_WIDTH, .height = HOG_HEIGHT, .channels = 1, .block_width = HOG_BLOCK, .block_height = HOG_BLOCK,
    .stride_x = HOG_CELL, .stride_y = HOG_CELL, .cell_width = HOG_CELL, .cell_height = HOG_CELL, .bins = HOG_BINS,
    .clip = 0.2f,
};

static int open_hog(mr_operation_call *call) {
    mr_hog *hog = NULL;
    int status = mr_hog_create(&hog, &hog_params);
    call->state = hog;
    return status;
}

static int enqueue_hog(mr_operation_call *call, size_t set) {
    const mr_hog *hog = call->state;
    mr_hog_work work = {.hog = hog, .count = MR_PIECE};
    const uint8_t *src = mr_operation_at(call, set, 0);
    float *dst = mr_operation_at(call, set, 1);
    for (int i = 0; i < MR_PIECE; i++) {
        work.src[i] = src + i * HOG_WIDTH * HOG_HEIGHT;
        work.dst[i] = dst + i * mr_hog_length(mr_hog_layout_of(hog));
    }
    return mr_hog_enqueue(call->stream, &work);
}

static void close_hog(mr_operation_call *call) {
    mr_hog *hog = call->state;
    mr_hog_destroy(&hog);
    call->state = NULL;
}

/* ---- perceptual hash, sharpness, change ------------------------------------------------------------------------- */

static int enqueue_phash(mr_operation_call *call, size_t set) {
    mr_phash_work work = {.count = MR_PIECE};
    const uint8_t *src = mr_operation_at(call, set, 0);
    uint8_t *dst = mr_operation_at(call, set, 1);
    for (int i = 0; i < MR_PIECE; i++) {
        work.src[i] = src + i * HASHED * HASHED;
        work.dst[i] = dst + i * MR_HASH_BYTES;
    }
    return mr_phash_enqueue(call->stream, &work);
}

static int enqueue_sharpness(mr_operation_call *call, size_t set) {
    const mr_sharpness_work work = {
        .count = 1,
        .item[0] = {mr_operation_at(call, set, 0), WIDTH, WIDTH, HEIGHT, 1.0f, mr_operation_at(call, set, 1)},
    };
    return mr_sharpness_enqueue(call->stream, &work);
}

static int enqueue_change(mr_operation_call *call, size_t set) {
    const uint8_t *src = mr_operation_at(call, set, 0);
    const mr_change_work work = {.a = src, .b = src + CHANGE_WIDTH * CHANGE_HEIGHT,
                                 .count = (size_t)CHANGE_WIDTH * CHANGE_HEIGHT, .noise = 12,
                                 .changed = mr_operation_at(call, set, 1)};
    return mr_change_enqueue(call->stream, &work);
}

/* ---- objects ---------------------------------------------------------------------------------------------------- */

static const mr_box_head head = {
    .family = MR_BOX_HEAD_YOLOV8, .width = 640, .height = 640, .rows = BOXES_FOUND, .classes = CLASSES,
    .boxes = {0, 0, 1, BOXES_FOUND}, .objectness = {.output = -1}, .scores = {0, 4 * BOXES_FOUND, 1, BOXES_FOUND},
    .class_numbers = {.output = -1}, .order = MR_BOX_CXCYWH, .suppress = true,
};

/* With this score, one box of 25 in the noise is a candidate. */
static int enqueue_detect(mr_operation_call *call, size_t set) {
    const mr_detect_work work = {.head = &head, .data = {mr_operation_at(call, set, 0)}, .score = 0.999f,
                                 .overlap = 0.45f, .most = OBJECTS, .found = mr_operation_at(call, set, 1)};
    return mr_detect_enqueue(call->stream, &work);
}

/* The pictures are read: three samples per pixel, or one; two pictures for a change. The results are written. */
#define FEATURE(label, shape_text, shape_value, read_bytes, written_bytes, suffix, ...)                                \
    {                                                                                                                  \
        .name = label, .function = "mr_" #suffix "_enqueue", .works_on = shape_text, .group = MR_OPERATION_KERNEL,     \
        .here = MR_HERE_ALL, .shape = shape_value, .reads = read_bytes, .writes = written_bytes,                       \
        .noise = MR_NOISE_BYTES, .enqueue = enqueue_##suffix, __VA_ARGS__                                              \
    }
#define COLORS(label, shape_text, colors, bin_count, jointly, length)                                                  \
    FEATURE(label, shape_text,                                                                                         \
            (&(mr_histogram_params){                                                                                   \
                .width = SIDE, .height = SIDE, .space = colors, .bins = bin_count, .joint = jointly}),                 \
            3 * SIDE * SIDE * MR_PIECE, (length) * sizeof(float) * MR_PIECE, histogram, .open = NULL)

const mr_operation_type mr_operation_features[] = {
    COLORS("histogram-rgb", "u8 3x224x224, 32 bins a channel, 24 pictures", MR_COLORS_RGB, BINS, 0, 3 * BINS),
    COLORS("histogram-hsv", "u8 3x224x224, 32 bins a channel of HSV, 24 pictures", MR_COLORS_HSV, BINS, 0, 3 * BINS),
    COLORS("histogram-joint", "u8 3x224x224, 8x8x8 boxes, 24 pictures", MR_COLORS_RGB, BOXES, 1,
           BOXES * BOXES * BOXES),
    FEATURE("hog", "gray 64x128, blocks of 16, cells of 8, 9 bins, 24 pictures", NULL,
            HOG_WIDTH * HOG_HEIGHT * MR_PIECE, HOG_LENGTH * sizeof(float) * MR_PIECE, hog, .open = open_hog,
            .close = close_hog),
    FEATURE("phash", "gray 32x32, 24 pictures", NULL, HASHED * HASHED * MR_PIECE, MR_HASH_BYTES * MR_PIECE, phash,
            .open = NULL),
    FEATURE("sharpness", "gray 1920x1080", NULL, WIDTH * HEIGHT, sizeof(float), sharpness, .open = NULL),
    FEATURE("change", "two of gray 640x360", NULL, 2 * CHANGE_WIDTH * CHANGE_HEIGHT, sizeof(uint32_t), change,
            .open = NULL),
    /* All floats are read, and at most 100 objects written. Only processors do it. */
    {.name = "detect", .function = "mr_detect_enqueue", .works_on = "YOLOv8 of 640x640: 8400 boxes, 80 classes",
     .group = MR_OPERATION_KERNEL, .here = MR_HERE_CPU | MR_HERE_SIM, .noise = MR_NOISE_FLOATS,
     .reads = (4 + CLASSES) * BOXES_FOUND * sizeof(float), .writes = sizeof(mr_found) + OBJECTS * sizeof(mr_box),
     .enqueue = enqueue_detect},
    {0},
};
