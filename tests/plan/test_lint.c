/* What planning warns about, and what it accepts. tests/wrong has the refusals' texts; here are the cases around them.
 * Pipelines use the real stage types and are planned without opening anything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/pipeline/pipeline.h"
#include "engine/planner/lint_timing.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"
#include "tests/support/fakes.h"
#include "tests/support/flow_stages.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

#define HEAD "version: 1\npipeline: p\n"

static mr_plan *load_types(const mr_stage_type *const *types, const char *text, mr_diagnostics *diagnostics) {
    mr_plan *plan = NULL;
    const mr_spec_params spec = {.types = types, .path = "p.yaml", .text = text};
    const mr_plan_params params = {.inserted = &mr_pipeline_types, .workers = 2, .offline = true, .cuts = true};
    mr_plan_load(&plan, &spec, &params, diagnostics);
    return plan;
}

static mr_plan *load(const char *text, mr_diagnostics *diagnostics) {
    return load_types(mr_stage_types(), text, diagnostics);
}

/* The messages from planning a text; the caller must free them. */
static char *messages_of(const mr_stage_type *const *types, const char *text) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan = load_types(types, text, &diagnostics);
    char *messages = printed(&diagnostics);
    mr_plan_destroy(&plan);
    mr_diagnostics_fini(&diagnostics);
    return messages;
}

static char *messages_for(const char *text) {
    return messages_of(mr_stage_types(), text);
}

static void expect(const char *text, const char *expected) {
    FREED char *said = messages_for(text);
    assert_string_equal(said, expected);
}

/* `count` times a line with the number in it. */
static void repeat(FILE *out, int count, const char *format) {
    for (int i = 0; i < count; i++) {
        char line[256];
        snprintf(line, sizeof line, format, i);
        fputs(line, out);
    }
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

TEST(files_that_do_not_meet_are_fine) {
    expect(HEAD "sources: {a: {uri: a.mp4}, b: {uri: b.mp4}, pictures: {uri: 'shots/*.jpg'}}\n"
                "stages:\n"
                "  a1: {type: decode, input: a}\n"
                "  b1: {type: decode, input: [b, pictures]}\n"
                "  all: {type: images, input: a1, path: shots}\n"
                "  all-b: {type: images, input: b1, path: ./shots}\n"
                "  more: {type: images, input: a1, path: shots, name: 'more-{seq}.png'}\n"
                "  one: {type: jsonl, input: a1, path: /dev/null}\n"
                "  two: {type: jsonl, input: b1, path: /dev/null}\n"
                "  three: {type: jsonl, input: b1, path: one/x.jsonl}\n"
                "  four: {type: jsonl, input: b1, path: two/x.jsonl}\n",
           "");
}

TEST(names_without_their_source_meet) {
    expect(
        HEAD "sources: {a: {uri: a.mp4}, b: {uri: b.mp4}}\n"
             "stages:\n"
             "  a1: {type: decode, input: a}\n"
             "  b1: {type: decode, input: b}\n"
             "  one: {type: images, input: a1, path: shots, name: '{seq}.png'}\n"
             "  two: {type: images, input: b1, path: shots, name: '{seq}.png'}\n",
        "p.yaml:8:40: error: stages.two.path: the folder \"shots\" is already written by \"one\" (p.yaml:7:40), with "
        "files of the same names\n"
        "    hint: give one of them another folder, or its files other names\n");
}

/* Links are followed: where both names lead to the file that is there. */
TEST_WITH(links_are_followed, make_temporary_folder, remove_temporary_folder) {
    const char *folder = temporary_folder;
    char file[64], link_to[64], deep[64], text[512];
    snprintf(file, sizeof file, "%s/out.csv", folder);
    snprintf(link_to, sizeof link_to, "%s/link.csv", folder);
    snprintf(deep, sizeof deep, "%s/here", folder);
    fclose(fopen(file, "w"));
    assert_int_equal(symlink("out.csv", link_to), 0);
    assert_int_equal(symlink(".", deep), 0);
    snprintf(text, sizeof text,
             HEAD "sources: {a: {type: 'null', frames: 1}}\n"
                  "stages:\n"
                  "  one: {type: csv, input: a, path: %s}\n"
                  "  two: {type: csv, input: a, path: %s}\n"
                  "  three: {type: csv, input: a, path: %s/new.csv}\n"
                  "  four: {type: csv, input: a, path: %s/here/new.csv}\n",
             file, link_to, folder, folder);
    FREED char *said = messages_for(text);
    assert_non_null(strstr(said, "p.yaml:6:36: error: stages.two.path: "));
    assert_non_null(strstr(said, "p.yaml:8:37: error: stages.four.path: "));
    assert_null(strstr(said, "p.yaml:7:37: error"));
}

/* ---- joins ----------------------------------------------------------------------------------------------------- */

TEST(joins_that_complete_are_fine) {
    expect(HEAD "sources: {a: {uri: a.mp4}, b: {uri: b.mp4}}\n"
                "stages:\n"
                "  decode: {input: sources.*}\n"
                "  again: {type: decode, input: [b, a]}\n"
                "  small: {type: preprocess, input: again, size: 8}\n"
                "  both: {type: join, join: {picture: decode, tensor: small}}\n"
                "  packets: {type: join, join: {one: a, other: copy}}\n"
                "  copy: {type: 'null', input: a}\n"
                "  out: {type: 'null', input: [both, packets]}\n",
           "");
}

/* One frame on two paths into a sink is what the author wrote; the same after a join. */
TEST(merges_before_a_sink_are_fine) {
    expect(HEAD "sources: {a: {uri: a.mp4}, b: {uri: b.mp4}}\n"
                "stages:\n"
                "  decode: {input: sources.*}\n"
                "  small: {type: preprocess, input: decode, size: 8}\n"
                "  large: {type: preprocess, input: decode, size: 16}\n"
                "  either: {type: 'null', input: [small, large]}\n"
                "  out: {type: jsonl, input: either}\n",
           "");
}

/* A merge matters only if the merged source is also joined. */
TEST(merges_of_other_sources_are_fine) {
    expect(
        HEAD "sources: {a: {uri: a.mp4}, b: {uri: b.mp4}}\n"
             "stages:\n"
             "  one: {type: decode, input: a}\n"
             "  two: {type: decode, input: b}\n"
             "  twice: {type: 'null', input: [one, again, two]}\n"
             "  again: {type: 'null', input: one}\n"
             "  both: {type: join, join: {x: twice, y: two}}\n"
             "  out: {type: 'null', input: both}\n",
        "p.yaml:9:42: warning: stages.both.join: frames of a reach some of its inputs, but not all: \"two\" has none "
        "of them, so that none is joined\n"
        "    hint: connect a to every input of the join, or to none\n");
}

/* ---- batches --------------------------------------------------------------------------------------------------- */

#define TENSORS "format: 'f32 3x8x8'"

TEST(batches_that_fill_are_fine) {
    expect(HEAD "sources:\n"
                "  a: {type: 'null', frames: 3, " TENSORS "}\n"
                "  b: {type: 'null', frames: 5, " TENSORS "}\n"
                "  c: {type: 'null', rate: 25, deadline: 300ms, " TENSORS "}\n"
                "stages:\n"
                "  exact: {type: features, input: [a, b], model: net.onnx, batch: 8}\n"
                "  twice: {type: features, input: [a, again], model: net.onnx, batch: 6}\n"
                "  again: {type: 'null', input: a}\n"
                "  timed: {type: features, input: c, model: net.onnx, batch: {size: 64, timeout: 40ms}}\n"
                "  mixed: {type: features, input: [a, c], model: net.onnx, batch: {size: 2, timeout: 40ms}}\n"
                "  out: {type: jsonl, input: [exact, twice, timed, mixed]}\n",
           "");
}

/* Batches before the fork delay both paths equally; so do batches after a join. */
TEST(queues_of_joins_may_be_short_where_nothing_gathers) {
    expect(HEAD "sources: {a: {type: 'null', " TENSORS "}}\n"
                "stages:\n"
                "  learn: {type: features, input: a, model: net.onnx, batch: 8}\n"
                "  x: {type: 'null', input: learn}\n"
                "  y: {type: 'null', input: learn}\n"
                "  both: {type: join, join: {x: x, y: y}, queue: 1}\n"
                "  more: {type: infer, input: both, model: net.onnx, batch: 8}\n"
                "  out: {type: jsonl, input: more}\n",
           "");
}

/* ---- pools ----------------------------------------------------------------------------------------------------- */

static mr_plan *planned(const char *text) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan = load(text, &diagnostics);
    mr_diagnostics_print(&diagnostics, stderr);
    mr_diagnostics_fini(&diagnostics);
    assert_non_null(plan);
    return plan;
}

/* ---- measured costs -------------------------------------------------------------------------------------------- */

static const char costly[] = HEAD
    "sources:\n"
    "  cam: {uri: cam.mp4, realtime: true, deadline: 20ms}\n"
    "  calm: {uri: calm.mp4, realtime: true, deadline: 40ms}\n"
    "stages:\n"
    "  decode: {input: [cam, calm]}\n"
    "  small: {type: preprocess, input: decode, size: 8}\n"
    "  learn: {type: features, input: small, model: net.onnx, batch: {size: 4, timeout: 5ms}}\n"
    "  both: {type: join, join: {a: small, b: learn}}\n"
    "  out: {type: jsonl, input: both}\n";

/* decode 2 ms, small 0.5, learn 4 x 3 and a wait for 5, both 0.001, out 1: 20.501 ms. The path around learn is
 * shorter. */
TEST(measured_costs_are_held_against_deadlines) {
    mr_diagnostics diagnostics = {0};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = planned(costly);
    const char *const order[] = {"cam", "calm", "decode", "small", "learn", "both", "out"};
    int64_t cost_ns[] = {0, 0, 2000000, 500000, 3000000, 1000, 1000000};
    assert_int_equal(plan->vertex_count, 7);
    for (size_t v = 0; v < 7; v++)
        assert_string_equal(plan->vertices[v].id, order[v]);
    assert_int_equal(mr_lint_costs(plan, cost_ns, &diagnostics), MR_OK);
    expect_printed(
        &diagnostics,
        "p.yaml:4:49: warning: sources.cam.deadline: 20ms is less than the 20.5ms that its frames took on their "
        "longest path when measured: decode 2ms, small 500us, learn 17ms, both 1us, out 1ms\n"
        "    hint: write a deadline of more than 20.5ms, or make these stages faster\n");
    cost_ns[4] = 2000000;
    assert_int_equal(mr_lint_costs(plan, cost_ns, &diagnostics), MR_OK);
    assert_int_equal(diagnostics.count, 0);
}

TEST(times_have_their_units) {
    char text[32];
    assert_string_equal(mr_lint_print_time(33333333, text, sizeof text), "33.33ms");
    assert_string_equal(mr_lint_print_time(2500, text, sizeof text), "2.5us");
    assert_string_equal(mr_lint_print_time(7, text, sizeof text), "7ns");
    assert_string_equal(mr_lint_print_time(90000000000, text, sizeof text), "90s");
}

/* ---- batches of stages that work on every Nth frame -------------------------------------------------------------- */

static void expect_of_sampler(const char *source, const char *sampler, const char *expected) {
    char text[512];
    snprintf(text, sizeof text,
             HEAD "sources: {a: {type: count, %s}, b: {type: count, %s}}\n"
                  "stages:\n"
                  "  one: {type: sampler, input: [a, b], %s}\n"
                  "  out: {type: collect, input: one}\n",
             source, source, sampler);
    FREED char *said = messages_of(flow_stage_types(), text);
    assert_string_equal(said, expected);
}

/* Each source has 2 of 8 that count: 0 and 5. Of 4 in a batch the first waits for 20 frames. */
TEST(batches_count_what_is_worked_on) {
    expect_of_sampler("frames: 8", "every: 5, batch: {size: 4, timeout: 20ms}", "");
    expect_of_sampler("frames: 8", "every: 5, batch: {size: 5, timeout: 20ms}",
                      "p.yaml:5:63: warning: stages.one.batch: a batch of 5 can never fill: its sources give only 16 "
                      "frames, and it works on 4 of them\n"
                      "    hint: write a size of at most 4\n");
    expect_of_sampler("frames: 1", "every: 5, batch: {size: 2, timeout: 20ms}", "");
    expect_of_sampler("frames: 100, period: 100ms", "every: 5, batch: 4",
                      "p.yaml:5:56: warning: stages.one.batch: frames come in real time, and without a timeout the "
                      "first waits until 20 have come, which takes 950ms at 20 a second\n"
                      "    hint: limit how long the first frame may wait: batch: {size: 4, timeout: 50ms}\n");
    expect_of_sampler("frames: 100", "every: 5, queue: 10, batch: {size: 4, timeout: 20ms}", "");
    expect_of_sampler("frames: 100", "every: 5, queue: 9, batch: {size: 4, timeout: 20ms}",
                      "p.yaml:5:56: warning: stages.one.queue: only 18 frames gather for the next batch of 20 while "
                      "one is in flight; then the stages before it stall\n"
                      "    hint: write queue: 10 or more, or remove `queue`\n");
}

/* Sums of frames that batches hold stop at the bound. */
TEST(windows_are_bounded) {
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load_types(flow_stage_types(),
            HEAD "sources: {a: {type: count}}\n"
                 "stages:\n"
                 "  first: {type: pass, input: a}\n"
                 "  one: {type: sampler, input: first, every: 2000000, batch: 1000}\n"
                 "  two: {type: sampler, input: one, every: 2000000, batch: 1000}\n"
                 "  out: {type: collect, input: two}\n"
                 "nodes: {near: {stages: [first]}, far: {stages: [one, two, out]}}\n",
            &diagnostics);
    assert_non_null(plan);
    assert_int_equal(plan->cuts[0].cut->window, MR_PLAN_MOST_BUFFERS);
    assert_int_equal(plan->vertices[plan->cuts[0].in].handling.queue, MR_PLAN_MOST_BUFFERS);
}

/* ---- size ----------------------------------------------------------------------------------------------------- */

/* 1,000 sources, 100 joins with two inputs, and 100 sinks with separate files. */
TEST(large_pipelines_are_fine) {
    FREED char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fputs(HEAD "sources:\n", out);
    repeat(out, 1000, "  camera-%1$d: {uri: videos/%1$d.mp4}\n");
    fputs("stages:\n  decode: {input: sources.*}\n  small: {type: preprocess, input: decode, size: 8}\n", out);
    repeat(out, 99, "  join-%1$d: {type: join, join: {a: decode, b: small}}\n");
    repeat(out, 99, "  out-%1$d: {type: jsonl, input: join-%1$d, path: out/%1$d.jsonl}\n");
    fclose(out);
    expect(text, "");
}

RUN_TESTS(NULL, NULL)
