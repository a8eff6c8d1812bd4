/* Everything that waits for device work is woken, however many wait: all entries in all consumers, the stage that
 * submitted the work, and joins, which wait for one frame from every source. */
#include <stdatomic.h>
#include <stdio.h>

#include "stages/list.h"
#include "tests/support/flow_run.h"
#include "tests/support/opened.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/worker_counts.h"

enum { SEEDS = FLOW_SEEDS(5), FRAMES = 60, CONSUMERS = 12, SOURCES = 10, TEXT = 4096 };
#define SLOW "\"sim:0?min_delay=200us&max_delay=1ms\""

/* All frames arrive; joined ones have no value. */
static void check_values(const mr_summary *sums) {
    for (size_t i = 0; i < collection_count; i++)
        if (collection[i].value)
            assert_int_equal(collection[i].value, collection[i].identity.seq);
}

static void run_everywhere(const char *text, uint64_t frames) {
    flow_check_all(text, SEEDS, &(flow_outcome){.delivered = FLOW_SOME, .collected = frames, .absorbed = FLOW_ANY,
                                                .unordered = true, .check = check_values});
}

__attribute__((format(printf, 3, 4))) static int append(char text[TEXT], int length, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(text + length, (size_t)(TEXT - length), format, arguments);
    va_end(arguments);
    assert_in_range(added, 1, TEXT - length - 1);
    return length + added;
}

/* One entry in each stage waits for the same event, and so does the stage that recorded it. */
TEST(many_stages_wait_for_one_event) {
    char text[TEXT];
    int length = append(text, 0,
                        FLOW "sources: {a: {type: count, frames: %d}}\n"
                             "stages:\n  one: {type: scale, input: a, device: " SLOW "}\n", FRAMES);
    for (int i = 0; i < CONSUMERS; i++)
        length = append(text, length, "  out_%d: {type: collect, input: one}\n", i);
    run_everywhere(text, FRAMES * CONSUMERS);
}

/* All entries in one stage wait for the same event. */
TEST(many_entries_wait_for_one_event) {
    run_everywhere(FLOW_A(60) "  one: {type: scale, input: a, device: " SLOW "}\n"
                              "  two: {type: pass, input: one}\n"
                              "  out: {type: collect, input: two}\n", FRAMES);
}

/* Eight at four workers. */
TEST(entries_of_two_stages_wait_for_one_event) {
    run_everywhere(FLOW_A(60) "  one: {type: scale, input: a, device: " SLOW "}\n"
                              "  two: {type: pass, input: one}\n"
                              "  three: {type: pass, input: one}\n"
                              "  left: {type: collect, input: two}\n"
                              "  right: {type: collect, input: three}\n",
                   (size_t)2 * FRAMES);
}

/* Work that is over about when somebody begins to wait for it. */
TEST(entries_wait_for_events_that_are_almost_done) {
    for (int i = 0; i < 10; i++)
        run_everywhere(FLOW_A(60) "  one: {type: scale, input: a, device: \"sim:0\"}\n"
                                  "  two: {type: pass, input: one}\n"
                                  "  out: {type: collect, input: two}\n", FRAMES);
}

/* A stage on several devices releases what each has done, and waits for all of them. */
TEST(entries_wait_for_events_of_several_devices) {
    run_everywhere(FLOW_A(60) "  one: {type: scale, input: a,\n"
                               "        device: [" SLOW ", \"sim:1?max_delay=100us\", \"sim:2\"]}\n"
                              "  two: {type: pass, input: one}\n"
                              "  out: {type: collect, input: two}\n", FRAMES);
}

/* The same entry waits for an event from each source. */
TEST(a_join_waits_for_every_source) {
    char text[TEXT];
    int length = append(text, 0, FLOW "sources:\n");
    for (int i = 0; i < SOURCES; i++)
        length = append(text, length, "  s%d: {type: count, frames: 20}\n", i);
    append(text, length,
           "stages:\n"
           "  left: {type: scale, input: sources.*, device: " SLOW "}\n"
           "  right: {type: scale, input: sources.*, device: \"sim:1?max_delay=2ms\"}\n"
           "  both: {type: meet, join: {left: left, right: right}}\n"
           "  out: {type: collect, input: both}\n");
    run_everywhere(text, (size_t)SOURCES * 20);
}

/* ---- buffers ---- */

static mr_frame *kept[FRAMES];
static atomic_int kept_count;

static void keep(void *context, const char *source, const mr_frame *frame) {
    kept[atomic_fetch_add(&kept_count, 1)] = mr_frame_ref((mr_frame *)(uintptr_t)frame);
}

static void keep_all(const char *text, uint64_t seed, int workers, void *context) {
    const mr_stage_type *types[32] = {&mr_callback_stage};
    for (size_t i = 0; flow_stage_types()[i] && i < 30; i++)
        types[i + 1] = flow_stage_types()[i];
    mr_pipeline *pipeline = opened(&(mr_pipeline_params){
        .types = types, .path = "p.yaml", .text = text, .seed = seed, .workers = workers});
    atomic_store(&kept_count, 0);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "out", keep, NULL), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, 10000000), MR_ERROR_AGAIN);
    mr_pipeline_destroy(&pipeline);
    while (kept_count)
        mr_frame_unref(&kept[--kept_count]);
}

/* The program keeps all buffers there are, so that calls wait for one, and gives them back only when the pipeline, and
 * what waited there, is no more. */
TEST(a_run_that_waits_for_buffers_can_be_stopped) {
    flow_everywhere(FLOW "sources: {a: {type: count, frames: 60}}\n"
                         "stages:\n"
                         "  one: {type: scale, input: a, device: \"%1$s\"}\n"
                         "  two: {type: scale, input: one, queue: 1}\n"
                         "  out: {type: callback, input: two, queue: 1}\n",
                    SEEDS, keep_all, NULL);
}

RUN_TESTS(be_quiet, expect_no_misuse)
