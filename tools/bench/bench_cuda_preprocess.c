/* Preprocess on a GPU: 64 pictures of 1080p NV12 to 224x224 f16 in one launch, beside what the card copies in its
 * memory and beside a chain of three kernels. Samples are random, and two sets of pictures take turns: what a launch
 * reads is not left in the L2 cache by the launch before. Prints one JSON line; exit status 69 where there is no CUDA
 * device.
 *
 *   bench_cuda_preprocess [rounds] */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/cuda/cuda.h"
#include "engine/device/open/open.h"
#include "kernels/preprocess/preprocess_enqueue.h"
#include "kernels/preprocess/preprocess_grid.h"
#include "millrace/status.h"
#include "tools/bench/unfused_cuda.h"

enum { WIDTH = 1920, HEIGHT = 1080, SIDE = 224, REGION = 945, COUNT = MR_PREPROCESS_LAUNCH, COPY_BYTES = 256 << 20 };
enum { PICTURE_BYTES = WIDTH * HEIGHT * 3 / 2, RESULT_BYTES = 3 * SIDE * SIDE * 2, SETS = 2 };
/* Of one set. Two copies of 256 MiB take turns as well. */
static const size_t pictures_bytes = (size_t)COUNT * PICTURE_BYTES, results_bytes = (size_t)COUNT * RESULT_BYTES;

typedef struct bench {
    mr_device *device;
    mr_stream *stream;
    cudaStream_t handle;
    mr_preprocess *plan;
    uint8_t *pictures, *results, *from, *to; /* each with all sets behind each other */
    mr_preprocess_work work[SETS][COUNT];
    unfused chain;
    int rounds;
    size_t set; /* whose turn it is */
} bench;

static void check(int error, const char *what) {
    if (!error)
        return;
    fprintf(stderr, "bench_cuda_preprocess: %s: %s\n", what,
            error < 0 ? mr_message() : cudaGetErrorString((cudaError_t)error));
    exit(70);
}

static void fused(bench *b) {
    void *handle;
    check(mr_preprocess_enqueue(b->stream, b->work[b->set], COUNT), "preprocess");
    check(mr_cuda_enter(b->stream, &handle), "preprocess"); /* launches what was put off */
}

static void unfused_chain(bench *b) {
    b->chain.nv12 = b->pictures + b->set * pictures_bytes;
    b->chain.dst = (uint16_t *)(void *)(b->results + b->set * results_bytes);
    check(unfused_launch(&b->chain, b->handle), "the chain");
}

static void copy(bench *b) {
    size_t at = b->set * COPY_BYTES;
    check(cudaMemcpyAsync(b->to + at, b->from + at, COPY_BYTES, cudaMemcpyDeviceToDevice, b->handle), "a copy");
}

/* One run with each set. */
static void turn(bench *b, void (*run)(bench *)) {
    for (b->set = 0; b->set < SETS; b->set++)
        run(b);
}

/* Seconds of one run, the mean of `rounds` with each set after one that is not counted. */
static double seconds(bench *b, void (*run)(bench *)) {
    cudaEvent_t begin, end;
    float milliseconds = 0.0f;
    check(cudaEventCreate(&begin), "an event");
    check(cudaEventCreate(&end), "an event");
    turn(b, run);
    check(cudaEventRecord(begin, b->handle), "an event");
    for (int i = 0; i < b->rounds; i++)
        turn(b, run);
    check(cudaEventRecord(end, b->handle), "an event");
    check(cudaEventSynchronize(end), "the work");
    check(cudaEventElapsedTime(&milliseconds, begin, end), "the time");
    check(cudaEventDestroy(begin), "an event");
    check(cudaEventDestroy(end), "an event");
    return milliseconds / 1e3 / b->rounds / SETS;
}

/* Source samples of an axis that have a weight. */
static size_t extent(const mr_filter *filter) {
    int low = filter->first[0], high = 0;
    for (int i = 0; i < filter->count; i++) {
        low = filter->first[i] < low ? filter->first[i] : low;
        high = filter->first[i] + filter->length[i] > high ? filter->first[i] + filter->length[i] : high;
    }
    return (size_t)(high - low);
}

/* Each byte once: luma, pairs of chroma, and results. */
static size_t touched_bytes(const mr_preprocess *plan) {
    size_t luma = extent(&plan->filter[0][0]) * extent(&plan->filter[0][1]);
    size_t chroma = 2 * extent(&plan->filter[1][0]) * extent(&plan->filter[1][1]);
    return COUNT * (luma + chroma + RESULT_BYTES);
}

static void *device_memory(size_t bytes) {
    void *data = NULL;
    check(cudaMalloc(&data, bytes), "memory of the device");
    return data;
}

/* Memory of the device with random bytes (xorshift; the same in each run). */
static void *random_memory(size_t bytes) {
    uint64_t state = 0x9e3779b97f4a7c15u, *noise = malloc(bytes);
    void *data = device_memory(bytes);
    if (!noise) {
        fprintf(stderr, "bench_cuda_preprocess: no %zu bytes of memory\n", bytes);
        exit(71);
    }
    for (size_t i = 0; i < bytes / sizeof *noise; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        noise[i] = state;
    }
    check(cudaMemcpy(data, noise, bytes, cudaMemcpyHostToDevice), "memory of the device");
    free(noise);
    return data;
}

static void set_up_work(bench *b) {
    for (size_t i = 0; i < (size_t)SETS * COUNT; i++) {
        const uint8_t *luma = b->pictures + i * PICTURE_BYTES;
        b->work[i / COUNT][i % COUNT] = (mr_preprocess_work){
            .plan = b->plan, .dst = b->results + i * RESULT_BYTES,
            .source = {.data = {luma, luma + WIDTH * HEIGHT}, .stride = {WIDTH, WIDTH}}};
    }
}

static void set_up(bench *b) {
    const mr_format nv12 = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_NV12, .width = WIDTH, .height = HEIGHT,
                            .matrix = MR_MATRIX_BT709, .range = MR_RANGE_LIMITED};
    const mr_preprocess_params params = {.width = SIDE, .height = SIDE, .fit = MR_FIT_CENTER_CROP,
                                         .crop_fraction = 0.875, .interpolation = MR_BILINEAR, .antialias = true,
                                         .mean = {127, 127, 127}, .std = {128, 128, 128}, .dtype = MR_DTYPE_F16,
                                         .layout = MR_LAYOUT_NCHW};
    void *handle;
    check(mr_stream_create(b->device, &b->stream), "a stream");
    check(mr_cuda_enter(b->stream, &handle), "the device");
    b->handle = handle;
    check(mr_preprocess_create(&b->plan, &params, &nv12), "the plan");
    b->pictures = random_memory(SETS * pictures_bytes);
    b->results = device_memory(SETS * results_bytes);
    b->from = random_memory((size_t)SETS * COPY_BYTES);
    b->to = device_memory((size_t)SETS * COPY_BYTES);
    set_up_work(b);
    b->chain = (unfused){.count = COUNT, .width = WIDTH, .height = HEIGHT, .side = SIDE, .left = (WIDTH - REGION) / 2,
                         .top = (HEIGHT - REGION) / 2, .region = REGION};
    b->chain.rgb = device_memory((size_t)COUNT * WIDTH * HEIGHT * 3);
    b->chain.small = device_memory((size_t)COUNT * SIDE * SIDE * 3 * sizeof(float));
}

static void tear_down(bench *b) {
    void *const memory[] = {b->pictures, b->results, b->from, b->to, b->chain.rgb, b->chain.small};
    for (size_t i = 0; i < sizeof memory / sizeof memory[0]; i++)
        check(cudaFree(memory[i]), "memory of the device");
    mr_preprocess_destroy(&b->plan);
    mr_stream_destroy(&b->stream);
    mr_device_destroy(&b->device);
}

int main(int count, char **arguments) {
    static bench b;
    b.rounds = count > 1 ? atoi(arguments[1]) : 50;
    if (mr_device_open(&b.device, "cuda:0", 0, false)) {
        fprintf(stderr, "bench_cuda_preprocess: nothing was measured: %s\n", mr_message());
        return 69;
    }
    set_up(&b);
    double copied = 2.0 * COPY_BYTES / seconds(&b, copy), once = seconds(&b, fused), chain = seconds(&b, unfused_chain);
    double achieved = (double)touched_bytes(b.plan) / once;
    printf("{\"sets\": %d, \"touched_mb\": %.1f, \"copy_gb_per_s\": %.1f, \"fused_ms\": %.4f, \"fused_gb_per_s\": "
           "%.1f, \"of_copy\": %.3f, \"unfused_ms\": %.4f, \"times_unfused\": %.2f}\n",
           SETS, (double)touched_bytes(b.plan) / 1e6, copied / 1e9, once * 1e3, achieved / 1e9, achieved / copied,
           chain * 1e3, chain / once);
    tear_down(&b);
    return 0;
}
