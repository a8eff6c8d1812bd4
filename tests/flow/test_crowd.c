/* Overlapping calls in one instance: a call that waits for a turn takes no inputs, so new ones must wake another
 * entry. */
#include <stdatomic.h>
#include <stdio.h>

#include "tests/support/flow_run.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

/* ---- crowd: the first call ends when all others have begun and wait for their turn ------------------------------- */

enum { MOST_CALLS = 16 };
static atomic_int begun;
static atomic_bool begins[MOST_CALLS]; /* by frame number */
static int calls;

static int crowd_negotiate(mr_negotiation *negotiation) {
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    negotiation->overlap = negotiation->workers;
    return MR_OK;
}

static int crowd_process(mr_stage *self, mr_io *io) {
    const uint64_t number = mr_io_input(io)->identity.seq;
    if (!atomic_exchange(&begins[number], true))
        atomic_fetch_add(&begun, 1);
    if (number == 0)
        await_count(&begun, calls);
    int status = mr_io_await_turn(io);
    return status ? status : mr_io_forward(io, 0);
}

static const mr_format_set any[] = {{.payload = MR_PAYLOAD_RESULTS}, {0}};
static const mr_port inputs[] = {{.name = "in", .accepts = any}, {0}};
static const mr_port outputs[] = {{.name = "out", .accepts = any}, {0}};
static const mr_stage_type crowd = {.name = "crowd",
                                    .summary = "for tests",
                                    .inputs = inputs,
                                    .outputs = outputs,
                                    .entry = MR_ENTRY_PER_SOURCE,
                                    .negotiate = crowd_negotiate,
                                    .process = crowd_process};

/* Frames come one at a time, when the earlier calls have gone to sleep. */
TEST(frames_wake_those_who_do_not_wait) {
    static const mr_stage_type *const types[] = {&crowd, NULL};
    EACH_WORKER_COUNT(workers) {
        char text[512];
        calls = workers;
        atomic_store(&begun, 0);
        for (int i = 0; i < MOST_CALLS; i++)
            atomic_store(&begins[i], false);
        snprintf(text, sizeof text,
                 FLOW "sources: {a: {type: count, frames: %d, period: 10ms}}\n"
                      "stages: {crowd: {input: a}, out: {type: collect, input: crowd}}\n", workers);
        mr_pipeline *pipeline = flow_open_with(types, text, 0, workers);
        mr_summary *summary = flow_run(pipeline);
        assert_int_equal(summary->delivered, workers);
        for (size_t i = 0; i < collection_count; i++)
            assert_int_equal(collection[i].identity.seq, i);
        flow_close(&pipeline, &summary);
    }
}

RUN_TESTS(NULL, NULL)
