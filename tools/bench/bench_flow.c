/* Measures a device pipeline and the two parts alone. The pipeline uploads 1080p NV12 from pinned host memory,
 * preprocesses it to 224x224 f16 in batches and downloads the result. The parts are the upload, and preprocessing
 * pictures in device memory.
 *
 *     bench_flow [--device cuda:0] [--frames 4000]
 *
 * Prints one JSON object: the rates in pictures per second, and the pipeline's rate as a fraction of the slower part's.
 * Builds with CUDA also count calls that allocate, free or wait during the last nine tenths of the frames. Exit status
 * 69 if the device does not exist. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/open/open.h"
#include "kernels/preprocess/preprocess.h"
#include "kernels/preprocess/preprocess_enqueue.h"
#include "millrace/millrace.h"
#include "stages/list.h"
#ifdef MILLRACE_HAS_CUDA
#include "tools/bench/cuda_calls.h"
#endif

enum { WIDTH = 1920, HEIGHT = 1080, SIDE = 224, BYTES = WIDTH * HEIGHT * 3 / 2, SLOTS = 32, BATCH = 8, IN_FLIGHT = 4 };

static const char pipeline_text[] =
    "version: 1\npipeline: flow\nsources:\n  camera: {type: push, format: NV12 %dx%d}\nstages:\n"
    "  small: {type: preprocess, input: camera, size: %dx%d, fit: center-crop, crop_fraction: 0.875, mean: 127, std: "
    "128,\n"
    "          dtype: f16, device: '%s', batch: {size: %d, timeout: 20ms}, in_flight: %d}\n"
    "  sink: {type: callback, input: small}\n";

typedef struct bench {
    const char *name;
    int frames;
    mr_device *device;
    uint8_t *pinned, *there;
    sem_t free_slots;
    atomic_int arrived;
    int64_t warm_ns;
#ifdef MILLRACE_HAS_CUDA
    cuda_calls before;
#endif
} bench;

static void check(int status, const char *what) {
    if (!status)
        return;
    fprintf(stderr, "bench_flow: %s: %s\n", what, mr_message());
    exit(status == MR_ERROR_UNAVAILABLE ? 69 : 70);
}

static void finish(mr_event **event) {
    while (*event && !mr_event_done(*event))
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    check(*event ? mr_event_status(*event) : MR_OK, "work");
    mr_event_unref(event);
}

/* ---- the parts alone -------------------------------------------------------------------------------------------- */

static int upload(const bench *b, mr_stream *stream, int turn) {
    size_t at = (size_t)(turn % (SLOTS / BATCH)) * BATCH * BYTES;
    int status = MR_OK;
    for (size_t i = 0; i < BATCH && !status; i++)
        status = mr_stream_copy(stream, b->there + at + i * BYTES, b->pinned + at + i * BYTES, BYTES);
    return status;
}

static mr_preprocess *plan;
static uint8_t *results;

static int compute(const bench *b, mr_stream *stream, int turn) {
    mr_preprocess_work works[BATCH];
    const size_t result_bytes = 3 * SIDE * SIDE * sizeof(uint16_t);
    for (size_t i = 0; i < BATCH; i++) {
        size_t slot = (size_t)(turn % (SLOTS / BATCH)) * BATCH + i;
        const uint8_t *luma = b->there + slot * BYTES;
        works[i] = (mr_preprocess_work){.plan = plan, .dst = results + slot * result_bytes,
                                        .source = {.data = {luma, luma + WIDTH * HEIGHT}, .stride = {WIDTH, WIDTH}}};
    }
    return mr_preprocess_enqueue(stream, works, BATCH);
}

/* Pictures per second, with the pipeline's number of batches in flight. */
static double rate(const bench *b, int (*enqueue)(const bench *, mr_stream *, int)) {
    mr_stream *stream = NULL;
    mr_event *event[IN_FLIGHT] = {NULL};
    int turns = b->frames / BATCH, warm = turns / 10;
    int64_t begun_ns = 0;
    check(mr_stream_create(b->device, &stream), "a stream");
    for (int turn = 0; turn < turns; turn++) {
        finish(&event[turn % IN_FLIGHT]);
        begun_ns = turn == warm ? mr_now_ns() : begun_ns;
        check(enqueue(b, stream, turn), "work");
        check(mr_event_create(&event[turn % IN_FLIGHT], b->device, NULL), "an event");
        check(mr_stream_record(stream, event[turn % IN_FLIGHT]), "an event");
    }
    for (int i = 0; i < IN_FLIGHT; i++)
        finish(&event[i]);
    double seconds = (double)(mr_now_ns() - begun_ns) / 1e9;
    mr_stream_destroy(&stream);
    return (double)(turns - warm) * BATCH / seconds;
}

static double compute_rate(const bench *b) {
    const mr_format nv12 = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_NV12, .width = WIDTH, .height = HEIGHT};
    const mr_preprocess_params params = {.width = SIDE, .height = SIDE, .fit = MR_FIT_CENTER_CROP,
                                         .crop_fraction = 0.875, .interpolation = MR_BILINEAR, .antialias = true,
                                         .mean = {127, 127, 127}, .std = {128, 128, 128}, .dtype = MR_DTYPE_F16,
                                         .layout = MR_LAYOUT_NCHW};
    void *memory = NULL;
    check(mr_preprocess_create(&plan, &params, &nv12), "a plan");
    check(mr_device_allocate(b->device, MR_MEMORY_DEVICE, SLOTS * 3 * SIDE * SIDE * sizeof(uint16_t), &memory),
          "memory");
    results = memory;
    double reached = rate(b, compute);
    mr_device_free(b->device, MR_MEMORY_DEVICE, memory);
    mr_preprocess_destroy(&plan);
    return reached;
}

/* ---- the pipeline ----------------------------------------------------------------------------------------------- */

static void give_back(void *context) {
    sem_post(context);
}

static void arrive(void *context, const char *source, const mr_frame *frame) {
    bench *b = context;
    if (atomic_fetch_add(&b->arrived, 1) + 1 != b->frames / 10)
        return;
#ifdef MILLRACE_HAS_CUDA
    cuda_calls_so_far(&b->before);
#endif
    b->warm_ns = mr_now_ns();
}

static mr_pipeline *open_pipeline(bench *b) {
    char text[2048];
    mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    snprintf(text, sizeof text, pipeline_text, WIDTH, HEIGHT, SIDE, SIDE, b->name, BATCH, IN_FLIGHT);
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = "bench_flow.yaml", .text = text};
    int status = mr_pipeline_open(&pipeline, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    check(status, "the pipeline");
    check(mr_pipeline_subscribe(pipeline, "sink", arrive, b), "the pipeline");
    return pipeline;
}

static void push(bench *b, mr_pipeline *pipeline) {
    mr_push push = {.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_NV12, .width = WIDTH, .height = HEIGHT},
                    .stride = {WIDTH, WIDTH}, .release = give_back, .context = &b->free_slots};
    for (int i = 0; i < b->frames; i++) {
        uint8_t *luma = b->pinned + (size_t)(i % SLOTS) * BYTES;
        while (sem_wait(&b->free_slots))
            ;
        push.data[0] = luma;
        push.data[1] = luma + WIDTH * HEIGHT;
        push.pts_ns = i * INT64_C(40000000);
        check(mr_pipeline_push(pipeline, "camera", &push, -1), "a picture");
    }
    check(mr_pipeline_end(pipeline, "camera"), "the end");
}

static double flow_rate(bench *b, mr_pipeline *pipeline) {
    sem_init(&b->free_slots, 0, SLOTS);
    check(mr_pipeline_start(pipeline), "the pipeline");
    push(b, pipeline);
    check(mr_pipeline_wait(pipeline, -1), "the pipeline");
    double seconds = (double)(mr_now_ns() - b->warm_ns) / 1e9;
    if (b->arrived != b->frames)
        check(mr_fail(MR_ERROR_INTERNAL, "%d of %d pictures arrived", (int)b->arrived, b->frames), "the pipeline");
    return (double)(b->frames - b->frames / 10) / seconds;
}

/* Must come before the pipeline is destroyed, because that frees memory. */
static void print_calls(const bench *b) {
#ifdef MILLRACE_HAS_CUDA
    cuda_calls after;
    cuda_calls_so_far(&after);
    printf(", \"calls\": {");
    for (int i = 0; i < after.count; i++)
        printf("%s\"%s\": %llu", i ? ", " : "", after.name[i],
               (unsigned long long)(after.calls[i] - b->before.calls[i]));
    printf("}");
#else
#endif
}

int main(int count, char **words) {
    static bench b = {.name = "cuda:0", .frames = 4000};
    bool usage = count % 2 == 0;
    for (int i = 1; i + 1 < count && !usage; i += 2) {
        if (strcmp(words[i], "--device") == 0)
            b.name = words[i + 1];
        else if (strcmp(words[i], "--frames") == 0)
            b.frames = atoi(words[i + 1]);
        else
            usage = true;
    }
    if (usage || b.frames < 10 * BATCH) {
        fprintf(stderr, "usage: bench_flow [--device cuda:0] [--frames 4000], at least %d\n", 10 * BATCH);
        return 64;
    }
    void *pinned = NULL, *there = NULL;
    check(mr_device_open(&b.device, b.name, 0, false), "nothing was measured");
    check(mr_device_allocate(b.device, MR_MEMORY_PINNED, (size_t)SLOTS * BYTES, &pinned), "pinned memory");
    check(mr_device_allocate(b.device, MR_MEMORY_DEVICE, (size_t)SLOTS * BYTES, &there), "memory");
    b.pinned = pinned;
    b.there = there;
    memset(b.pinned, 0x5a, (size_t)SLOTS * BYTES);
    double uploads = rate(&b, upload), computes = compute_rate(&b);
    mr_pipeline *pipeline = open_pipeline(&b);
    double flows = flow_rate(&b, pipeline);
    double slower = uploads < computes ? uploads : computes;
    printf("{\"device\": \"%s\", \"frames\": %d, \"upload_per_s\": %.1f, \"compute_per_s\": %.1f, \"flow_per_s\": "
           "%.1f, \"of_slower\": %.3f", b.name, b.frames, uploads, computes, flows, flows / slower);
    print_calls(&b);
    printf("}\n");
    mr_pipeline_destroy(&pipeline);
    mr_device_free(b.device, MR_MEMORY_PINNED, pinned);
    mr_device_free(b.device, MR_MEMORY_DEVICE, there);
    mr_device_destroy(&b.device);
    return 0;
}
