/* How long one frame takes on a device, from the call that gives the work to the event that tells its end, with and
 * without CUDA graphs. Two kinds of work: `kernels`, of a 1080p NV12 picture preprocess to 224x224, a histogram,
 * sharpness, a linear layer and its best classes; and `network`, a model with a batch of one, where one is named.
 *
 *     bench_latency [--device cuda:0] [--model FILE.onnx] [--rounds 1000]
 *
 * Prints one JSON object with microseconds: medians and 99th percentiles of `rounds` frames after a tenth as many that
 * are not counted. Where graphs are meant but none was made, as on sim and cpu, it says so: "graphs": false. Exit
 * status 69 where there is no such device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/open/open.h"
#include "kernels/classical/classical.h"
#include "kernels/preprocess/preprocess.h"
#include "kernels/preprocess/preprocess_enqueue.h"
#include "kernels/vector/vector.h"
#include "millrace/status.h"
#include "stages/model/runtime.h"

enum { WIDTH = 1920, HEIGHT = 1080, SIDE = 224, INPUTS = 1280, CLASSES = 1000, BEST = 5, BINS = 32,
       MOST_NUMBERS = 1 << 24 };

typedef struct bench {
    const char *name, *model_path;
    int rounds;
    mr_device *device;
    mr_stream *stream;
    mr_preprocess *plan;
    uint8_t *picture, *small;
    float *weights, *logits, *numbers;
    mr_model *model;
    mr_binding binding;
    void *inputs[1], *outputs[1];
} bench;

static void check(int status, const char *what) {
    if (!status)
        return;
    fprintf(stderr, "bench_latency: %s: %s\n", what, mr_message());
    exit(status == MR_ERROR_UNAVAILABLE ? 69 : 70);
}

static void *zeros(bench *b, size_t bytes) {
    void *data = NULL;
    check(mr_device_allocate(b->device, MR_MEMORY_DEVICE, bytes, &data), "memory");
    check(mr_stream_copy(b->stream, data, NULL, bytes), "memory");
    return data;
}

/* ---- what is measured ------------------------------------------------------------------------------------------- */

static int enqueue_kernels(bench *b) {
    const mr_preprocess_work look = {.plan = b->plan, .dst = b->small,
                                     .source = {.data = {b->picture, b->picture + WIDTH * HEIGHT},
                                                .stride = {WIDTH, WIDTH}}};
    const mr_histogram_work colors = {.params = {.width = SIDE, .height = SIDE, .bins = BINS}, .count = 1,
                                      .src = {b->small}, .dst = {b->numbers}};
    const mr_sharpness_work sharp = {.count = 1, .item = {{b->picture, WIDTH, WIDTH, HEIGHT, 1.0f,
                                                           b->numbers + 3 * BINS}}};
    const mr_linear_work head = {.weights = b->weights, .bias = b->weights + INPUTS, .weight_stride = INPUTS + 1,
                                 .bias_stride = INPUTS + 1, .outputs = CLASSES, .inputs = INPUTS, .batch = 1,
                                 .src = b->numbers, .src_stride = INPUTS, .dst = b->logits, .dst_stride = CLASSES};
    int32_t *best = (int32_t *)(void *)(b->logits + CLASSES);
    const mr_top_k_work rank = {.logits = b->logits, .count = CLASSES, .most = BEST,
                                .activation = MR_ACTIVATION_SOFTMAX,
                                .index = best, .score = b->logits + CLASSES + BEST, .found = best + 2 * BEST};
    int status = mr_preprocess_enqueue(b->stream, &look, 1);
    status = status ? status : mr_histogram_enqueue(b->stream, &colors);
    status = status ? status : mr_sharpness_enqueue(b->stream, &sharp);
    status = status ? status : mr_linear_enqueue(b->stream, &head);
    return status ? status : mr_top_k_enqueue(b->stream, &rank, 1);
}

static int enqueue_network(bench *b) {
    return mr_model_enqueue(&b->binding, b->stream, b->inputs, b->outputs);
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

static int64_t one(bench *b, int (*enqueue)(bench *)) {
    mr_event *event = NULL;
    int64_t begin = mr_clock_now_ns(mr_clock_real());
    check(enqueue(b), "a frame");
    check(mr_event_create(&event, b->device, NULL), "an event");
    check(mr_stream_record(b->stream, event), "an event");
    while (!mr_event_done(event))
        ;
    int64_t took = mr_clock_now_ns(mr_clock_real()) - begin;
    check(mr_event_status(event), "a frame");
    mr_event_unref(&event);
    return took;
}

static int compare(const void *a, const void *b) {
    int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

static void measure(bench *b, int (*enqueue)(bench *), double *median_us, double *late_us) {
    int64_t *took = mr_alloc((size_t)b->rounds * sizeof *took);
    check(took ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory"), "times");
    for (int i = 0; i < b->rounds / 10 + 3; i++)
        one(b, enqueue);
    for (int i = 0; i < b->rounds; i++)
        took[i] = one(b, enqueue);
    qsort(took, (size_t)b->rounds, sizeof *took, compare);
    *median_us = (double)took[b->rounds / 2] / 1e3;
    *late_us = (double)took[b->rounds * 99 / 100] / 1e3;
    mr_free(took);
}

static void open_device(bench *b, bool graphs) {
    setenv("MILLRACE_CUDA_GRAPHS", graphs ? "1" : "0", 1);
    check(mr_device_open(&b->device, b->name, 0, false), "nothing was measured");
    check(mr_stream_create(b->device, &b->stream), "a stream");
}

static void close_device(bench *b) {
    mr_stream_destroy(&b->stream);
    mr_device_destroy(&b->device);
}

static void measure_kernels(bench *b, bool graphs) {
    const mr_format nv12 = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_NV12, .width = WIDTH, .height = HEIGHT,
                            .matrix = MR_MATRIX_BT709, .range = MR_RANGE_LIMITED};
    const mr_preprocess_params params = {.width = SIDE, .height = SIDE, .crop_fraction = 1, .interpolation = MR_AREA,
                                         .std = {1, 1, 1}, .dtype = MR_DTYPE_U8, .layout = MR_LAYOUT_NCHW};
    double median_us, late_us;
    open_device(b, graphs);
    check(mr_preprocess_create(&b->plan, &params, &nv12), "a plan");
    b->picture = zeros(b, WIDTH * HEIGHT * 3 / 2);
    b->small = zeros(b, 3 * SIDE * SIDE);
    b->weights = zeros(b, CLASSES * (INPUTS + 1) * sizeof(float));
    b->logits = zeros(b, (CLASSES + 3 * BEST) * sizeof(float));
    b->numbers = zeros(b, INPUTS * sizeof(float));
    measure(b, enqueue_kernels, &median_us, &late_us);
    bool made = mr_stream_is_cuda(b->stream) && mr_cuda_graph_count(b->stream).launched > 0;
    printf("{\"work\": \"kernels\", \"graphs\": %s, \"median_us\": %.1f, \"p99_us\": %.1f}", made ? "true" : "false",
           median_us, late_us);
    void *const memory[] = {b->picture, b->small, b->weights, b->logits, b->numbers};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        mr_device_free(b->device, MR_MEMORY_DEVICE, memory[i]);
    mr_preprocess_destroy(&b->plan);
    close_device(b);
}

/* ---- networks --------------------------------------------------------------------------------------------------- */

static void *tensor_of(bench *b, const mr_model_tensor *tensor, const mr_shape *shape) {
    size_t count = mr_shape_count(shape);
    check(count && count <= MOST_NUMBERS ? MR_OK : mr_fail(MR_ERROR_CONFIG, "a tensor of no known size"),
          b->model->file);
    return zeros(b, count * mr_dtype_bytes(tensor->dtype));
}

static void measure_network(bench *b, bool graphs) {
    double median_us, late_us;
    open_device(b, graphs);
    bool on_device = mr_stream_is_cuda(b->stream);
    const mr_model_params params = {.path = b->model_path, .device = on_device ? b->device : NULL,
                                    .cuda_graph = graphs && on_device};
    check(mr_model_open(&b->model, &params), "the model");
    mr_shape shape = b->model->inputs[0].shape;
    if (shape.rank && shape.dims[0] < 0)
        shape.dims[0] = 1;
    check(b->model->input_count == 1 ? MR_OK : mr_fail(MR_ERROR_CONFIG, "it has several inputs"), b->model->file);
    check(mr_model_bind(b->model, &b->binding, &shape, 1, (const size_t[]){0}, 1), "the model");
    b->inputs[0] = tensor_of(b, &b->model->inputs[0], &b->binding.input_shape[0]);
    b->outputs[0] = tensor_of(b, &b->model->outputs[0], &b->binding.output_shape[0]);
    measure(b, enqueue_network, &median_us, &late_us);
    printf(", {\"work\": \"network\", \"model\": \"%s\", \"graphs\": %s, \"median_us\": %.1f, \"p99_us\": %.1f}",
           b->model->file, params.cuda_graph ? "true" : "false", median_us, late_us);
    mr_device_free(b->device, MR_MEMORY_DEVICE, b->inputs[0]);
    mr_device_free(b->device, MR_MEMORY_DEVICE, b->outputs[0]);
    mr_model_close(&b->model);
    close_device(b);
}

int main(int count, char **words) {
    bench b = {.name = "cuda:0", .rounds = 1000};
    bool usage = count % 2 == 0;
    for (int i = 1; i + 1 < count && !usage; i += 2) {
        if (strcmp(words[i], "--device") == 0)
            b.name = words[i + 1];
        else if (strcmp(words[i], "--model") == 0)
            b.model_path = words[i + 1];
        else if (strcmp(words[i], "--rounds") == 0)
            b.rounds = atoi(words[i + 1]);
        else
            usage = true;
    }
    if (usage || b.rounds < 1) {
        fprintf(stderr, "usage: bench_latency [--device cuda:0] [--model FILE.onnx] [--rounds 1000]\n");
        return 64;
    }
    mr_device *there = NULL;
    check(mr_device_open(&there, b.name, 0, false), "nothing was measured");
    mr_device_destroy(&there);
    printf("{\"device\": \"%s\", \"rounds\": %d, \"latency\": [", b.name, b.rounds);
    for (int graphs = 0; graphs < 2; graphs++) {
        if (graphs)
            printf(", ");
        measure_kernels(&b, graphs);
        if (b.model_path)
            measure_network(&b, graphs);
    }
    printf("]}\n");
    return 0;
}
