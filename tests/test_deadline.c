/* Deadlines and batches in the running graph, mostly with a simulated clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "tests/support/flow_stages.h"

enum { SEEDS = 25 };

typedef void check_function(const mr_summary *sums);

static void run_once(const char *text, uint64_t seed, check_function *check) {
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = NULL;
    mr_summary *sums;
    const mr_pipeline_params params = {
        .types = flow_stage_types(), .path = "test.yaml", .text = text, .seed = seed, .workers = 2};
    flow_stages_reset();
    if (mr_pipeline_open(&pipeline, &params, &wrong))
        mr_diagnostics_print(&wrong, stderr);
    assert_non_null(pipeline);
    mr_diagnostics_fini(&wrong);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, seed ? -1 : 20000000000), MR_OK);
    assert_int_equal(mr_pipeline_summarize(pipeline, &sums), MR_OK);
    assert_true(sums->balanced);
    assert_int_equal(sums->in_flight, 0);
    check(sums);
    mr_summary_destroy(&sums);
    mr_pipeline_destroy(&pipeline);
}

static void run_with_all_seeds(const char *text, check_function *check) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_once(text, seed, check);
}

/* ---- batches before a join -------------------------------------------------------------------------------------- */

static void check_gated_batch(const mr_summary *sums) {
    assert_int_equal(sums->delivered, 100);
    assert_int_equal(collection_count, 100);
}

/* The gate lets one of ten through: while eight of those gather, eighty must not have to wait on the other way. */
static void a_gate_before_a_batch_does_not_stop_a_join(void **state) {
    (void)state;
    const char *text = "version: 1\npipeline: gate\n"
                       "sources: {a: {type: count, frames: 1000}}\n"
                       "stages:\n"
                       "  one: {type: scale, input: a}\n"
                       "  some: {type: gate, input: one, every: 10}\n"
                       "  many: {type: batcher, input: some, batch: 8}\n"
                       "  both: {type: meet, join: {left: many, right: one}}\n"
                       "  out: {type: collect, input: both}\n";
    run_with_all_seeds(text, check_gated_batch);
    run_once(text, 0, check_gated_batch);
}

static void check_full_batches(const mr_summary *sums) {
    assert_int_equal(sums->delivered, 64);
    assert_int_equal(largest_batch, 8);
    assert_int_equal(smallest_batch, 8);
}

/* Frames leave the queue as they come and gather in the call: a batch may be larger than the queue before it. */
static void a_batch_fills_from_a_short_queue(void **state) {
    (void)state;
    const char *text = "version: 1\npipeline: short\n"
                       "sources: {a: {type: count, frames: 64}}\n"
                       "stages:\n"
                       "  one: {type: scale, input: a, in_flight: 1}\n"
                       "  many: {type: batcher, input: one, batch: 8, queue: 1}\n"
                       "  out: {type: collect, input: many}\n";
    run_with_all_seeds(text, check_full_batches);
    run_once(text, 0, check_full_batches);
}

static void check_wide_merge(const mr_summary *sums) {
    assert_int_equal(sums->delivered, 200);
    assert_int_equal(collection_count, 7 * 200);
}

/* More stages than a lane has room for wait for it at once. */
static void many_ways_into_a_slow_sink_go_on(void **state) {
    (void)state;
    const char *text = "version: 1\npipeline: wide\n"
                       "sources: {a: {type: count, frames: 200}}\n"
                       "stages:\n"
                       "  p1: {type: pass, input: a, queue: 1}\n"
                       "  p2: {type: pass, input: a, queue: 1}\n"
                       "  p3: {type: pass, input: a, queue: 1}\n"
                       "  p4: {type: pass, input: a, queue: 1}\n"
                       "  p5: {type: pass, input: a, queue: 1}\n"
                       "  p6: {type: pass, input: a, queue: 1}\n"
                       "  p7: {type: pass, input: a, queue: 1}\n"
                       "  late: {type: slow, input: [p1, p2, p3, p4, p5, p6, p7], queue: 1, period: 10us}\n"
                       "  out: {type: collect, input: late}\n";
    run_with_all_seeds(text, check_wide_merge);
    run_once(text, 0, check_wide_merge);
}

static void ignore(void *context, mr_log_level level, const char *line) {
    (void)context;
    (void)level;
    (void)line;
}

static int be_quiet(void **state) {
    (void)state;
    mr_log_to(ignore, NULL);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gate_before_a_batch_does_not_stop_a_join),
        cmocka_unit_test(a_batch_fills_from_a_short_queue),
        cmocka_unit_test(many_ways_into_a_slow_sink_go_on),
    };
    return cmocka_run_group_tests(tests, be_quiet, NULL);
}
