#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "millrace/status.h"
#include "tests/support/fakes.h"

static mr_plan *load(const char *text) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    int status = fake_load(&plan, text, &diagnostics);
    mr_diagnostics_print(&diagnostics, stderr);
    assert_int_equal(status, MR_OK);
    assert_int_equal(diagnostics.count, 0);
    mr_diagnostics_fini(&diagnostics);
    return plan;
}

static const mr_plan_vertex *vertex(const mr_plan *plan, const char *id) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        if (strcmp(plan->vertices[v].id, id) == 0)
            return &plan->vertices[v];
    fail_msg("no vertex %s", id);
    return NULL;
}

#define HEAD "version: 1\npipeline: p\n"

static const char chain[] = HEAD "sources:\n"
                                 "  lobby: {uri: a.mp4}\n"
                                 "  hall: {uri: b.mp4}\n"
                                 "stages:\n"
                                 "  out: {type: write, input: learn}\n"
                                 "  learn: {input: small, batch: 8, queue: 2}\n"
                                 "  small: {type: shrink, input: open, size: 64x32}\n"
                                 "  open: {input: sources.*, queue: {size: 6, when_full: drop-oldest}}\n";

static void stages_stand_in_topological_order(void **state) {
    (void)state;
    mr_plan *plan = load(chain);
    const char *const order[] = {"lobby", "hall", "open", "small", "learn", "out"};
    assert_int_equal(plan->vertex_count, 6);
    assert_int_equal(plan->source_count, 2);
    for (size_t v = 0; v < 6; v++)
        assert_string_equal(plan->vertices[v].id, order[v]);
    const int edges[][2] = {{0, 2}, {1, 2}, {2, 3}, {3, 4}, {4, 5}};
    assert_int_equal(plan->edge_count, 5);
    for (size_t e = 0; e < 5; e++) {
        assert_int_equal(plan->edges[e].from, edges[e][0]);
        assert_int_equal(plan->edges[e].to, edges[e][1]);
    }
    assert_string_equal(vertex(plan, "small")->place, "dir/p.yaml:9:3");
    assert_int_equal(vertex(plan, "hall")->source, 1);
    mr_plan_destroy(&plan);
}

static void formats_are_what_stages_answer(void **state) {
    (void)state;
    mr_plan *plan = load(chain);
    char text[MR_FORMAT_TEXT];
    assert_int_equal(plan->edges[0].format.payload, MR_PAYLOAD_PACKET);
    assert_int_equal(plan->edges[2].format.payload, MR_PAYLOAD_PICTURE);
    assert_string_equal(mr_format_print(&plan->edges[3].format, text, sizeof text), "tensor f32 3x32x64");
    assert_string_equal(mr_format_print(&vertex(plan, "learn")->inputs[0].format, text, sizeof text), "tensor f32 3x32x64");
    assert_string_equal(vertex(plan, "learn")->inputs[0].from, "small");
    assert_string_equal(vertex(plan, "learn")->inputs[0].port, "tensors");
    assert_int_equal(vertex(plan, "out")->inputs[0].format.payload, MR_PAYLOAD_RESULTS);
    mr_plan_destroy(&plan);
}

/* The formula of plan.h, worked out by hand: three workers, two sources.
 * learn: shared, so 2 calls * 8 in the making, and behind it out: queue 4 for each of 2 sources + 2 calls.
 * small: stateless, 3 calls, and behind it learn: queue 8 for each of 2 sources + 2 calls * 8.
 * open: per source, 3 retained + 2 calls, and behind it small: queue 4 + 3 calls.
 * lobby: 2 calls, and behind it one open: queue 6 + 2 calls. */
static void numbers_are_decided(void **state) {
    (void)state;
    mr_plan *plan = load(chain);
    const mr_plan_vertex *open = vertex(plan, "open"), *small = vertex(plan, "small"), *learn = vertex(plan, "learn");
    assert_int_equal(plan->workers, 3);
    assert_int_equal(small->entries, 3);
    assert_int_equal(small->in_flight, 3);
    assert_int_equal(open->entries, 1);
    assert_int_equal(open->in_flight, 2);
    assert_int_equal(open->threads, 2);
    assert_true(open->blocking);
    assert_int_equal(open->queue, 6);
    assert_int_equal(open->policy, MR_POLICY_DROP_OLDEST);
    assert_int_equal(small->queue, 4);
    assert_int_equal(learn->batch, 8);
    assert_int_equal(learn->queue, 8);
    assert_int_equal(learn->source_count, 2);
    assert_int_equal(learn->output_buffers, 2 * 8 + 2 * 4 + 2);
    assert_int_equal(small->output_buffers, 3 + 2 * 8 + 2 * 8);
    assert_int_equal(open->output_buffers, 3 + 2 + 4 + 3);
    assert_int_equal(vertex(plan, "lobby")->output_buffers, 2 + 6 + 2);
    mr_plan_destroy(&plan);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_stand_in_topological_order),
        cmocka_unit_test(formats_are_what_stages_answer),
        cmocka_unit_test(numbers_are_decided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
