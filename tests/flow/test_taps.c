/* Looks at frames that pass (mr_pipeline_tap): several threads look at every stage while the run goes on, with 1 to 16
 * workers. What they see has passed there, and the ledger is as without them. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/support/flow_run.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { FRAMES = 4000, LOOKERS = 4, SECOND = 1000000000 };
static const char *const places[LOOKERS] = {"a", "two", "gate", "out"};

/* By place, in all runs: a short run may be over before a thread has looked. */
static int seen[LOOKERS];

typedef struct looker {
    pthread_t thread;
    mr_pipeline *pipeline;
    const char *stage;
    const char *wrong; /* NULL: nothing */
    int seen, last;
} looker;

static const char *check(const looker *one, const mr_frame *frame, const char *source) {
    const uint64_t seq = frame->identity.seq;
    const bool tensor = frame->format.payload == MR_PAYLOAD_TENSOR;
    if (strcmp(source, "a") != 0 || seq >= FRAMES)
        return "another source, or no frame of it";
    if (strcmp(one->stage, "a") != 0 && !tensor)
        return "a frame from before the stage";
    if (strcmp(one->stage, "gate") == 0 && seq % 3)
        return "a frame that the gate absorbs";
    /* The first stage gives the number, the second adds one. The memory of simulated devices is not read here. */
    if (tensor && frame->plane[0].buffer->memory == MR_MEMORY_HOST &&
        *(uint64_t *)(void *)frame->plane[0].data != seq + 1)
        return "another frame's values";
    return NULL;
}

static void *look(void *context) {
    looker *one = context;
    const char *source;
    mr_frame *frame;
    while ((one->last = mr_pipeline_tap(one->pipeline, one->stage, SECOND, &frame, &source)) != MR_ERROR_CLOSED) {
        if (one->last == MR_ERROR_AGAIN)
            continue;
        if (one->last) {
            one->wrong = mr_message();
            break;
        }
        one->seen++;
        if (!one->wrong)
            one->wrong = check(one, frame, source);
        mr_frame_unref(&frame);
    }
    return NULL;
}

static void run_looked_at(const char *text, uint64_t seed, int workers, void *context) {
    mr_pipeline *pipeline = flow_open(text, seed, workers);
    looker lookers[LOOKERS] = {0};
    for (int i = 0; i < LOOKERS; i++) {
        lookers[i] = (looker){.pipeline = pipeline, .stage = places[i]};
        assert_int_equal(pthread_create(&lookers[i].thread, NULL, look, &lookers[i]), 0);
    }
    mr_summary *summary = flow_run(pipeline);
    for (int i = 0; i < LOOKERS; i++) {
        pthread_join(lookers[i].thread, NULL);
        if (lookers[i].wrong)
            fail_msg("%s: %s", lookers[i].stage, lookers[i].wrong);
        seen[i] += lookers[i].seen;
    }
    assert_int_equal(summary->in, FRAMES);
    assert_int_equal(summary->delivered, (FRAMES + 2) / 3);
    assert_int_equal(summary->dropped, 0);
    flow_close(&pipeline, &summary);
}

TEST(test_what_is_seen_has_passed) {
    flow_everywhere(FLOW_A(4000) "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                                 "  two: {type: scale, input: one, device: \"%1$s\", queue: 1}\n"
                                 "  gate: {type: gate, input: two, every: 3}\n"
                                 "  out: {type: collect, input: gate}\n", 0, run_looked_at, NULL);
    for (int i = 0; i < LOOKERS; i++)
        assert_true(seen[i] > 0);
}

TEST(test_nothing_passes) {
    mr_pipeline *pipeline = flow_open(FLOW_A(10) "  gate: {type: gate, input: a, every: 1000}\n"
                                                 "  none: {type: gate, input: gate}\n"
                                                 "  out: {type: collect, input: none}\n", 0, 2);
    const char *source;
    mr_frame *frame;
    assert_int_equal(mr_pipeline_tap(pipeline, "nobody", 0, &frame, &source), MR_ERROR_USAGE);
    assert_string_equal(mr_message(), "pipeline p has no stage or source \"nobody\"");
    assert_int_equal(mr_pipeline_subscribe(pipeline, "gat", NULL, NULL), MR_ERROR_USAGE);
    assert_string_equal(mr_message(), "pipeline p has no stage \"gat\": did you mean \"gate\"?");
    assert_int_equal(mr_pipeline_end(pipeline, "gate"), MR_ERROR_USAGE);
    assert_string_equal(mr_message(), "pipeline p has no source \"gate\"");
    assert_int_equal(mr_pipeline_tap(pipeline, "gate", 1000000, &frame, &source), MR_ERROR_AGAIN);
    assert_null(frame);
    mr_summary *summary = flow_run(pipeline);
    assert_int_equal(mr_pipeline_tap(pipeline, "gate", SECOND, &frame, &source), MR_ERROR_CLOSED);
    flow_close(&pipeline, &summary);
}

RUN_TESTS(NULL, NULL)
