/* The overhead of a batch. One copy and one host function must download all results in a call, however many frames it
 * has. Results must match the processors' bit for bit, and each frame in a failed batch must be accounted for. Runs on
 * simulated accelerators, whose log is counted, and on CUDA devices that the host plays. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/flow/graph.h"
#include "engine/pipeline/pipeline.h"
#include "millrace/millrace.h"
#include "stages/list.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

#ifdef MILLRACE_CUDA_HOST
#include <cuda_runtime_api.h>
#define DEVICE "cuda:0"
#else
#define DEVICE "sim:0"
#endif

enum { WIDTH = 48, HEIGHT = 32, PICTURE = WIDTH * HEIGHT * 3 / 2, NUMBERS = 6, FRAMES = 61, BATCH = 8,
       CALLS = (FRAMES + BATCH - 1) / BATCH };

/* ---- pushed pictures --------------------------------------------------------------------------------------------- */

static uint8_t pictures[FRAMES][PICTURE];
static float vectors[FRAMES][NUMBERS];

static int draw(void **state) {
    be_quiet_but_for_misuse(state);
    uint32_t random = 2463534242u;
    for (int frame = 0; frame < FRAMES; frame++) {
        for (int i = 0; i < PICTURE; i++) {
            random = random * 1664525u + 1013904223u;
            pictures[frame][i] = (uint8_t)(16 + (random >> 25));
        }
        for (int i = 0; i < NUMBERS; i++)
            vectors[frame][i] = (float)pictures[frame][i] / 16.0f;
    }
    return 0;
}

static mr_push push_of(bool picture, int frame) {
    if (picture)
        return (mr_push){.format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_NV12, .width = WIDTH,
                                    .height = HEIGHT},
                         .stride = {WIDTH, WIDTH},
                         .data = {pictures[frame], pictures[frame] + WIDTH * HEIGHT},
                         .pts_ns = frame};
    return (mr_push){.format = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &(int64_t){NUMBERS}),
                     .data = {vectors[frame]},
                     .pts_ns = frame};
}

/* ---- outcomes ---------------------------------------------------------------------------------------------------- */

typedef struct record {
    size_t bytes;
    uint8_t data[256];
} record;

typedef struct outcome {
    record of[FRAMES];
    uint64_t delivered, dropped;
} outcome;

static void add(record *to, const void *data, size_t bytes) {
    assert_true(to->bytes + bytes <= sizeof to->data);
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
}

static void collect(void *context, const char *source, const mr_frame *frame) {
    record *to = &((outcome *)context)->of[frame->identity.seq];
    if (frame->format.payload == MR_PAYLOAD_TENSOR && !frame->results)
        add(to, frame->plane[0].data, frame->plane[0].bytes);
    for (const mr_result *result = frame->results; result; result = result->next) {
        if (result->kind == mr_kind_tensor())
            add(to, result->data, mr_tensor_bytes(&result->format));
        for (size_t i = 0; result->kind == mr_kind_classes() && i < result->count; i++) {
            add(to, &result->classes[i].index, sizeof result->classes[i].index);
            add(to, &result->classes[i].score, sizeof result->classes[i].score);
        }
    }
}

/* ---- the device's work ------------------------------------------------------------------------------------------- */

/* Counts for stage `it`, and for the copies before and after it. */
static atomic_int downloads, works, brought, taken_home;

static void count_note(void *context, const mr_device *device, const mr_work_note *note) {
    if (!note->stage)
        return;
    brought += strncmp(note->stage->id, "in->", 4) == 0;
    taken_home += strcmp(note->stage->id, "it->host") == 0;
    if (strcmp(note->stage->id, "it") != 0)
        return;
    downloads += note->engine == MR_ENGINE_DOWNLOAD;
    works += note->bytes == 0;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

typedef struct job {
    const char *stage; /* options for `it`, except input and device */
    const char *device;
    bool picture;
    int workers;
} job;

static outcome run(const job *j) {
    outcome out = {0};
    char text[1024];
    snprintf(text, sizeof text,
             "version: 1\npipeline: p\nsources:\n  in: {type: push, format: %s}\nstages:\n"
             "  it: {input: in, %s, device: \"%s\", batch: {size: %d, timeout: 100s}}\n"
             "  out: {type: callback, input: it}\n",
             j->picture ? "NV12 48x32" : "f32 6", j->stage, j->device, BATCH);
    const mr_pipeline_params params = {
        .types = mr_stage_types(), .path = "p.yaml", .text = text, .workers = j->workers};
    mr_pipeline *pipeline = opened(&params);
    downloads = works = brought = taken_home = 0;
    pipeline->graph->trace = count_note;
    assert_int_equal(mr_pipeline_subscribe(pipeline, "out", collect, &out), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    for (int frame = 0; frame < FRAMES; frame++) {
        const mr_push push = push_of(j->picture, frame);
        assert_int_equal(mr_pipeline_push(pipeline, "in", &push, -1), MR_OK);
    }
    mr_pipeline_end(pipeline, "in");
    ended(pipeline);
    mr_summary *sums = summed(pipeline);
    assert_int_equal(sums->in, FRAMES);
    out.delivered = sums->delivered;
    out.dropped = sums->dropped;
    mr_summary_destroy(&sums);
    mr_pipeline_destroy(&pipeline);
    return out;
}

/* Dropped frames have no bytes. */
static void compare(const outcome *out, const outcome *wanted) {
    uint64_t came = 0;
    for (int frame = 0; frame < FRAMES; frame++) {
        assert_true(wanted->of[frame].bytes > 0);
        if (out->of[frame].bytes == 0)
            continue;
        assert_int_equal(out->of[frame].bytes, wanted->of[frame].bytes);
        assert_memory_equal(out->of[frame].data, wanted->of[frame].data, wanted->of[frame].bytes);
        came++;
    }
    assert_int_equal(came, out->delivered);
    assert_int_equal(out->delivered + out->dropped, FRAMES);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static const struct kind {
    const char *stage;
    bool picture;
    int works; /* work other than copies and host functions for results; -1: it gives no results */
} kinds[] = {
    {"type: classify, top_k: 3", false, FRAMES},
    {"type: phash", true, FRAMES + CALLS},
    {"type: phash, form: bits", true, FRAMES + CALLS},
    {"type: sharpness", true, CALLS},
    {"type: sharpness, size: 20x10", true, FRAMES + CALLS},
    {"type: histogram, size: 20x16, bins: 4", true, -1},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

TEST(results_come_home_once_a_call) {
    for (int k = 0; k < KINDS; k++) {
        job j = {.stage = kinds[k].stage, .picture = kinds[k].picture, .device = "cpu"};
        outcome wanted = run(&j);
        assert_int_equal(wanted.delivered, FRAMES);
        j.device = DEVICE;
        /* A GPU that the host plays is slow. */
        for (int round = 0; round < (strcmp(DEVICE, "sim:0") == 0 ? 5 : 1); round++) {
            j.workers = next_worker_count();
#ifdef MILLRACE_CUDA_HOST
            unsigned long long functions = mr_host_count().host_functions;
#endif
            outcome out = run(&j);
            compare(&out, &wanted);
            assert_int_equal(out.delivered, FRAMES);
            if (kinds[k].works < 0)
                continue;
            assert_int_equal(downloads, CALLS);
#ifdef MILLRACE_CUDA_HOST
            assert_int_equal(mr_host_count().host_functions - functions, CALLS);
#else
            assert_int_equal(works, kinds[k].works + CALLS);
#endif
        }
    }
}

#ifndef MILLRACE_CUDA_HOST

/* ---- copies ------------------------------------------------------------------------------------------------------ */

/* Runs in simulated time, with one thread. */
static void count_copies(const char *format, const char *stage, uint64_t seed) {
    char text[1024];
    snprintf(text, sizeof text,
             "version: 1\npipeline: p\nsources:\n  in: {type: 'null', format: %s, frames: %d}\nstages:\n"
             "  it: {input: in, %s, device: 'sim:0?copy=1MB/s', batch: {size: %d, timeout: 100s}}\n"
             "  out: {type: callback, input: it}\n",
             format, FRAMES, stage, BATCH);
    const mr_pipeline_params params = {
        .types = mr_stage_types(), .path = "p.yaml", .text = text, .seed = seed};
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = opened(&params);
    downloads = works = brought = taken_home = 0;
    pipeline->graph->trace = count_note;
    ENDED_BY(mr_summary_destroy) mr_summary *sums;
    assert_int_equal(run_opened(pipeline, &sums), MR_OK);
    assert_int_equal(sums->delivered, FRAMES);
}

/* The first calls find one frame each; the queue fills meanwhile. A batch downloads all results at once. */
TEST(small_frames_are_copied_together) {
    for (uint64_t seed = 1; seed <= 10; seed++) {
        count_copies("NV12 48x32", "type: histogram, size: 20x16, bins: 4", seed);
        assert_in_range(brought, CALLS, CALLS + 4);
        assert_int_equal(taken_home, CALLS);
    }
}

/* 88 KiB each: these are copied singly, each in one piece. */
TEST(large_ones_are_copied_one_by_one) {
    count_copies("NV12 320x192", "type: histogram, size: 20x16, bins: 4", 3);
    assert_int_equal(brought, FRAMES);
    assert_int_equal(taken_home, CALLS);
}

/* ---- failures ---------------------------------------------------------------------------------------------------- */

/* Any piece of a batch's work may fail. */
TEST(every_frame_of_a_batch_that_fails_is_accounted_for) {
    for (int k = 0; k < KINDS; k++) {
        job j = {.stage = kinds[k].stage, .picture = kinds[k].picture, .device = "cpu"};
        outcome wanted = run(&j);
        for (int every = 11; every < 60; every += 12) {
            char device[64];
            snprintf(device, sizeof device, "sim:0?fail_every=%d", every);
            j.device = device;
            j.workers = next_worker_count();
            outcome out = run(&j);
            compare(&out, &wanted);
            assert_true(out.dropped > 0);
        }
    }
}
#endif

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static const mr_view_row *row_of(const mr_plan *plan, const char *of, const char *what) {
    for (size_t i = 0; i < plan->row_count; i++)
        if (strcmp(plan->rows[i].of, of) == 0 && strcmp(plan->rows[i].what, what) == 0)
            return &plan->rows[i];
    return NULL;
}

/* Results for eight frames with three classes need a count, three scores and three indices each, then eight pointers.
 * Copies need eight vectors with six numbers, each in 64 bytes. */
TEST(the_plan_tells_of_the_memory) {
    static const char *const devices[] = {"cpu", "sim:0"};
    for (int d = 0; d < 2; d++) {
        char text[512];
        snprintf(text, sizeof text,
                 "version: 1\npipeline: p\nsources:\n  in: {type: push, format: f32 6}\nstages:\n"
                 "  it: {type: classify, input: in, top_k: 3, device: \"%s\", batch: {size: 8, timeout: 1s}}\n"
                 "  out: {type: callback, input: it}\n",
                 devices[d]);
        const mr_pipeline_params params = {.types = mr_stage_types(), .path = "p.yaml", .text = text, .workers = 2};
        ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = opened(&params);
        const mr_view_row *row = row_of(pipeline->plan, "it", "results");
        assert_int_equal(row != NULL, d);
        if (row) {
            assert_int_equal(row->kind, MR_VIEW_PINNED);
            assert_int_equal(row->each, 8 * (1 + 3 + 3) * 4 + 32 + 8 * sizeof(void *));
            assert_true(row->buffers >= 2);
            assert_int_equal(row->most.bytes, row->each * (uint64_t)row->buffers);
            const mr_view_row *brought_in = row_of(pipeline->plan, "in->sim:0", "batches");
            const mr_view_row *block = row_of(pipeline->plan, "in->sim:0", "block");
            const mr_view_row *home = row_of(pipeline->plan, "it->host", "batches");
            assert_non_null(brought_in);
            assert_non_null(block);
            assert_non_null(home);
            assert_int_equal(brought_in->kind, MR_VIEW_DEVICE);
            assert_int_equal(brought_in->each, 8 * 64);
            assert_int_equal(block->kind, MR_VIEW_PINNED);
            assert_int_equal(block->most.bytes, 2 * 8 * 64);
            assert_int_equal(home->kind, MR_VIEW_PINNED);
        }
    }
}

RUN_TESTS(draw, expect_no_misuse)
