/* Which ends of cuts say that another process makes the frames, and which cuts back heed it: all that a join gets must
 * say so, or it would wait for nothing and pass over frames. */
#include <stdio.h>
#include <string.h>

#include "engine/pipeline/pipeline.h"
#include "engine/plan/renewal.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"
#include "tests/support/flow_stages.h"
#include "tests/support/suite.h"

/* `node`: whose plan; NULL: that of all. */
static mr_plan *load(const char *text, const char *node, mr_diagnostics *wrong) {
    const mr_spec_params spec = {.types = flow_stage_types(), .path = "p.yaml", .text = text};
    const mr_plan_params params = {.node = node, .inserted = &mr_pipeline_types, .workers = 1, .cuts = true,
                                   .runtime = "/run/test"};
    mr_plan *plan = NULL;
    const int status = mr_plan_load(&plan, &spec, &params, wrong);
    if (status)
        mr_diagnostics_print(wrong, stderr);
    assert_int_equal(status, MR_OK);
    return plan;
}

static mr_plan *plan_of_b(const char *stages, const char *on_b) {
    char text[1024];
    mr_diagnostics wrong = {0};
    snprintf(text, sizeof text, "version: 1\npipeline: p\nsources: {n: {type: count}, m: {type: count}}\nstages:\n"
             "  one: {type: pass, input: n}\n  two: {type: pass, input: n}\n%s  kept: {type: collect, input: both}\n"
             "nodes: {a: {stages: [one, two, kept]}, b: {stages: [%s]}}\n", stages, on_b);
    mr_plan *plan = load(text, "b", &wrong);
    mr_diagnostics_fini(&wrong);
    return plan;
}

/* Expects `says` of all cuts from a to b, and `heeds` of the cut back. */
static void expect(const char *stages, const char *on_b, bool says, bool heeds) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = plan_of_b(stages, on_b);
    size_t back = 0;
    for (size_t i = 0; i < plan->cut_count; i++) {
        const mr_plan_vertex *in = &plan->vertices[plan->cuts[i].in], *out = &plan->vertices[plan->cuts[i].out];
        if (mr_plan_is_here(plan, in))
            assert_int_equal(mr_cut_maker(plan, in), says ? 0 : -1);
        else
            assert_int_equal(mr_cut_maker(plan, out), heeds ? 0 : -1);
        back += mr_plan_is_here(plan, out);
    }
    assert_int_equal(back, 1);
}

TEST(frames_of_one_node) {
    expect("  both: {type: pass, input: one}\n", "both", true, true);
    expect("  both: {type: meet, join: {x: one, y: two}}\n", "both", true, true);
    expect("  x: {type: pass, input: one}\n  both: {type: meet, join: {x: x, y: one}}\n", "x, both", true, true);
}

/* A live cut says nothing. */
TEST(frames_over_live_cuts) {
    expect("  both: {type: pass, input: one, cut: live}\n", "both", false, false);
    expect("  x: {type: pass, input: one, cut: live}\n  both: {type: meet, join: {x: x, y: two}}\n", "x, both", false,
           false);
}

TEST(frames_of_another_node) {
    expect("  both: {type: pass, input: [one, m]}\n", "both", true, false);
    expect("  x: {type: pass, input: [one, m]}\n  both: {type: meet, join: {x: x, y: two}}\n", "x, both", false, false);
}

/* Of each cut, in order: who makes what comes over it, as both ends know it. "-": none. */
static void expect_makers(const char *stages, const char *nodes, const char *makers) {
    char text[1024], found[64] = "";
    mr_diagnostics wrong = {0};
    snprintf(text, sizeof text, "version: 1\npipeline: p\nsources: {n: {type: count}}\nstages:\n"
             "  one: {type: pass, input: n}\n%s  both: {type: meet, join: {x: one, y: last}}\n"
             "  kept: {type: collect, input: both}\nnodes: {%s}\n", stages, nodes);
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(text, NULL, &wrong);
    const bool warned = wrong.count > 0;
    mr_diagnostics_fini(&wrong);
    for (size_t i = 0; i < plan->cut_count; i++)
        for (int end = 0; end < 2; end++) {
            const int maker = mr_cut_maker(plan, &plan->vertices[end ? plan->cuts[i].in : plan->cuts[i].out]);
            strcat(found, maker < 0 ? "-" : plan->nodes[maker].id);
        }
    assert_string_equal(found, makers);
    const size_t last = strlen(makers);
    assert_int_equal(warned, makers[last - 2] != 'a');
}

TEST(frames_that_go_on_to_a_third_node) {
    expect_makers("  two: {type: pass, input: one}\n  last: {type: pass, input: two}\n",
                  "a: {stages: [one, both, kept]}, b: {stages: two}, c: {stages: last}", "-aaaa-");
    expect_makers("  two: {type: pass, input: one}\n  far: {type: pass, input: two}\n"
                  "  last: {type: meet, join: {x: two, y: far}}\n",
                  "a: {stages: [one, both, kept]}, b: {stages: two}, c: {stages: far}, d: {stages: last}",
                  "-aaaaaaaa-");
    expect_makers("  two: {type: pass, input: one, cut: live}\n  last: {type: pass, input: two}\n",
                  "a: {stages: [one, both, kept]}, b: {stages: two}, c: {stages: last}", "------");
    expect_makers("  two: {type: pass, input: one}\n  last: {type: pass, input: two}\n",
                  "a: {stages: [one, both, kept]}, b: {stages: two, replicas: 2}, c: {stages: last}", "-aa---");
    expect_makers("  two: {type: pass, input: one}\n  last: {type: pass, input: two}\n",
                  "a: {stages: [one, both, kept]}, b: {stages: two}, c: {stages: last, replicas: 2}", "-aaaa-");
}

/* A node that frames pass twice makes some of them itself. */
TEST(frames_that_pass_a_node_twice) {
    expect_makers("  two: {type: pass, input: one}\n  far: {type: pass, input: two}\n"
                  "  last: {type: pass, input: far}\n",
                  "a: {stages: [one, both, kept]}, b: {stages: [two, last]}, c: {stages: far}", "-aabb---");
}

/* Of each collecting stage, in order: what it gets again, and who makes it. */
static void expect_again(const char *stages, const char *nodes, const char *again) {
    static const char *const words[] = {
        [MR_AGAIN_NOT] = "", [MR_AGAIN_LEFT_OUT] = "out", [MR_AGAIN_TWICE_LIVE] = "live",
        [MR_AGAIN_TWICE_WAYS] = "ways", [MR_AGAIN_TWICE_SHARED] = "shared"};
    char text[1024], found[64] = "";
    mr_diagnostics wrong = {0};
    snprintf(text, sizeof text, "version: 1\npipeline: p\nsources: {n: {type: count}}\nstages:\n"
             "  one: {type: pass, input: n}\n  two: {type: pass, input: one}\n  both: {type: pass, input: two}\n%s"
             "nodes: {%s}\n", stages, nodes);
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(text, NULL, &wrong);
    size_t twice = 0;
    for (size_t v = 0; v < plan->vertex_count; v++) {
        int maker;
        if (plan->vertices[v].output_count || plan->vertices[v].role != MR_ROLE_STAGE)
            continue;
        const mr_again one = mr_plan_again(plan, &plan->vertices[v], &maker);
        twice += one > MR_AGAIN_LEFT_OUT;
        strcat(strcat(found, words[one]), maker < 0 ? "-" : plan->nodes[maker].id);
    }
    assert_string_equal(found, again);
    assert_int_equal(wrong.count, twice);
    mr_diagnostics_fini(&wrong);
}

TEST(sinks_on_the_way) {
    expect_again("  k: {type: collect, input: both}\n", "a: {stages: [one, two]}, b: {stages: [both, k]}", "-");
    /* Also on the node itself: what came back for its former process comes between. */
    expect_again("  k: {type: collect, input: two}\n  r: {type: collect, input: both}\n",
                 "a: {stages: [one, both, r]}, b: {stages: [two, k]}", "outaouta");
    expect_again("  k: {type: collect, input: both}\n"
                 "  l: {type: pass, input: both}\n  r: {type: collect, input: l}\n",
                 "a: {stages: [one, l, r]}, b: {stages: two}, c: {stages: [both, k]}", "outaouta");
    expect_again("  k: {type: collect, input: both}\n"
                 "  l: {type: meet, join: {x: one, y: both}}\n  r: {type: collect, input: l}\n",
                 "a: {stages: [one, l, r]}, b: {stages: two}, c: {stages: [both, k]}", "outaouta");
    /* On a node aside: the cut before it leaves them out. */
    expect_again("  k: {type: collect, input: two}\n  l: {type: collect, input: both}\n",
                 "a: {stages: [one, both]}, b: {stages: two}, c: {stages: [k, l]}", "--");
}

TEST(sinks_that_cannot_tell) {
    expect_again("  k: {type: collect, input: [two, l]}\n  l: {type: pass, input: two}\n"
                 "  r: {type: collect, input: both}\n",
                 "a: {stages: [one, both, r]}, b: {stages: [two, k, l]}", "outawaysa");
    expect_again("  k: {type: collect, input: l}\n  l: {type: pass, input: [two, m]}\n"
                 "  m: {type: pass, input: two}\n"
                 "  r: {type: collect, input: both}\n",
                 "a: {stages: [one, both, r]}, b: {stages: [two, l, m]}, c: {stages: k}", "outawaysa");
    expect_again("  k: {type: collect, input: l}\n  l: {type: pass, input: two, cut: live}\n"
                 "  r: {type: collect, input: both}\n",
                 "a: {stages: [one, both, r]}, b: {stages: two}, c: {stages: [l, k]}", "outalivea");
}

/* The cut to another node leaves out what its consumer has had from one process, not what it had from another one. */
TEST(sinks_after_several_processes) {
    expect_again("  k: {type: collect, input: two}\n  r: {type: collect, input: both}\n",
                 "a: {stages: [one, both, r]}, b: {stages: two, replicas: 2}, c: {stages: k}", "sharedaouta");
}

RUN_TESTS(NULL, NULL)
