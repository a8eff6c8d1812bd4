/* classify takes up to four waiting frames in one call. Each must get the bits that it gets alone. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/pipeline/pipeline.h"
#include "millrace/millrace.h"
#include "tests/support/draw.h"
#include "tests/support/fakes.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { FRAMES = 60, CLASSES = 100, LENGTH = 64, TOP = 7, TOGETHER = 4 };

static const char WEIGHTS[] = "classify-gathers-test.npy";
static float vectors[FRAMES][LENGTH];

/* ---- a run ------------------------------------------------------------------------------------------------------- */

typedef struct outcome {
    mr_class of[FRAMES][TOP];
    uint64_t came, calls;
    int most; /* most frames in one call */
} outcome;

/* The first result waits until enough frames have been pushed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int pushed;

static void collect(void *context, const char *source, const mr_frame *frame) {
    outcome *out = context;
    const mr_result *result = mr_frame_result(frame, mr_kind_classes(), NULL);
    assert_non_null(result);
    assert_int_equal(result->count, TOP);
    assert_int_equal(frame->identity.seq, out->came);
    memcpy(out->of[out->came++], result->classes, sizeof out->of[0]);
    pthread_mutex_lock(&lock);
    while (pushed < TOGETHER)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void push_all(mr_pipeline *pipeline) {
    const int64_t length = LENGTH;
    pushed = 0;
    for (int i = 0; i < FRAMES; i++) {
        const mr_push push = {.format = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &length),
                              .data = {vectors[i]},
                              .pts_ns = i};
        assert_int_equal(mr_pipeline_push(pipeline, "in", &push, -1), MR_OK);
        pthread_mutex_lock(&lock);
        pushed++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&lock);
    }
    mr_pipeline_end(pipeline, "in");
}

static void count_calls(const mr_summary *sums, outcome *out) {
    for (size_t i = 0; i < sums->stage_count; i++)
        if (strcmp(sums->stages[i].id, "it") == 0) {
            out->calls = sums->stages[i].calls;
            out->most = sums->stages[i].batch_peak;
        }
}

static outcome run(const char *options, int workers) {
    outcome out = {0};
    char text[512];
    snprintf(text, sizeof text,
             "version: 1\npipeline: p\nsources:\n  in: {type: push, format: f32 %d}\nstages:\n"
             "  it: {type: classify, input: in, weights: %s, top_k: %d%s}\n  out: {type: callback, input: it}\n",
             LENGTH, WEIGHTS, TOP, options);
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = "p.yaml", .text = text, .workers = workers};
    mr_pipeline *pipeline = opened(&params);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "out", collect, &out), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    push_all(pipeline);
    assert_int_equal(ended(pipeline), MR_OK);
    mr_summary *sums = summed(pipeline);
    assert_int_equal(sums->delivered, FRAMES);
    assert_int_equal(out.came, FRAMES);
    count_calls(sums, &out);
    mr_summary_destroy(&sums);
    mr_pipeline_destroy(&pipeline);
    return out;
}

static void compare(const outcome *out, const outcome *wanted) {
    for (int frame = 0; frame < FRAMES; frame++)
        for (int rank = 0; rank < TOP; rank++) {
            const mr_class *got = &out->of[frame][rank], *alone = &wanted->of[frame][rank];
            assert_int_equal(got->index, alone->index);
            assert_memory_equal(&got->score, &alone->score, sizeof got->score);
        }
}

TEST(gathered_frames_have_the_bits_of_those_alone) {
    outcome alone = run(", batch: 1", 1);
    assert_int_equal(alone.most, 1);
    EACH_WORKER_COUNT(workers) {
        outcome out = run("", workers);
        compare(&out, &alone);
        assert_in_range(out.most, 1, TOGETHER);
        /* With one worker, frames must have queued while it waited. */
        if (workers > 1)
            continue;
        assert_true(out.most > 1);
        assert_true(out.calls < FRAMES);
    }
}

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* Returns the `gathers` of stage `it`. */
static int gathers(const char *format, const char *options) {
    char text[512];
    snprintf(text, sizeof text,
             "version: 1\npipeline: p\nsources:\n  in: {type: push, format: %s}\nstages:\n"
             "  it: {type: classify, input: in%s}\n  out: {type: callback, input: it}\n",
             format, options);
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = "p.yaml", .text = text, .workers = 2};
    mr_pipeline *pipeline = opened(&params);
    const mr_plan_vertex *it = vertex(pipeline->plan, "it");
    const int found = it->calls.gathers;
    assert_int_equal(it->calls.batch, strstr(options, "size: 8") ? 8 : 1);
    mr_pipeline_destroy(&pipeline);
    return found;
}

TEST(only_frames_that_share_the_weights_are_gathered) {
    assert_int_equal(gathers("f32 64", ", weights: classify-gathers-test.npy"), TOGETHER);
    assert_int_equal(gathers("f32 64", ", weights: classify-gathers-test.npy, device: cpu"), TOGETHER);
    assert_int_equal(gathers("f32 64", ", weights: classify-gathers-test.npy, batch: 1"), 1);
    assert_int_equal(gathers("f32 64", ", weights: classify-gathers-test.npy, batch: {size: 8, timeout: 1ms}"), 1);
    assert_int_equal(gathers("f32 64", ", weights: classify-gathers-test.npy, window: 3"), 1);
    assert_int_equal(gathers("f32 64", ""), 1);
    assert_int_equal(gathers("f32 64", ", weights: classify-gathers-test.npy, device: 'sim:0'"), 1);
    assert_int_equal(gathers("f32 64", ", weights: classify-gathers-test.npy, device: ['sim:0', 'sim:1']"), 1);
}

static int make(void **state) {
    be_quiet(state);
    for (int i = 0; i < FRAMES; i++)
        for (int k = 0; k < LENGTH; k++)
            vectors[i][k] = draw();
    float *weights = draw_many(CLASSES * (LENGTH + 1));
    char header[119];
    snprintf(header, sizeof header, "%-117s\n",
             "{'descr': '<f4', 'fortran_order': False, 'shape': (100, 65), }");
    FILE *file = fopen(WEIGHTS, "wb");
    const size_t numbers = CLASSES * (LENGTH + 1);
    const int failed = !file || fwrite("\x93NUMPY\1\0\x76\0", 1, 10, file) != 10 ||
                       fwrite(header, 1, 118, file) != 118 ||
                       fwrite(weights, sizeof *weights, numbers, file) != numbers;
    free(weights);
    return failed || fclose(file);
}

static int unmake(void **state) {
    return unlink(WEIGHTS);
}

RUN_TESTS(make, unmake)
