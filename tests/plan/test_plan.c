#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/status.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"

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

#define HEAD "version: 1\npipeline: p\n"

static const char chain[] = HEAD "sources:\n"
                                 "  lobby: {uri: a.mp4}\n"
                                 "  hall: {uri: b.mp4}\n"
                                 "stages:\n"
                                 "  out: {type: write, input: learn}\n"
                                 "  learn: {input: small, batch: 8, queue: 4}\n"
                                 "  small: {type: shrink, input: open, size: 64x32}\n"
                                 "  open: {input: sources.*, queue: {size: 6, when_full: drop-oldest}}\n";

TEST(stages_stand_in_topological_order) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(chain);
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
}

TEST(formats_are_what_stages_answer) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(chain);
    char text[MR_FORMAT_TEXT];
    assert_int_equal(vertex(plan, "lobby")->outputs[0].set.payload, MR_PAYLOAD_PACKET);
    assert_int_equal(vertex(plan, "open")->outputs[0].set.payload, MR_PAYLOAD_PICTURE);
    assert_string_equal(mr_format_print(&vertex(plan, "small")->formats[0], text, sizeof text), "tensor f32 3x32x64");
    assert_string_equal(mr_format_print(&vertex(plan, "learn")->inputs[0].format, text, sizeof text),
                        "tensor f32 3x32x64");
    assert_string_equal(vertex(plan, "learn")->inputs[0].from, "small");
    assert_string_equal(vertex(plan, "learn")->inputs[0].port, "tensors");
    assert_int_equal(vertex(plan, "out")->inputs[0].format.payload, MR_PAYLOAD_RESULTS);
}

/* plan.h's formula, calculated by hand: three workers, two sources.
 * learn: shared, so 2 calls * 8 in progress; then out: queue 4 for each of 2 sources + 2 calls.
 * small: stateless, 2 calls for each worker; then learn: queue 4 for each of 2 sources + 2 calls * 8.
 * open: per source, 3 retained + 2 calls; then small: queue 4 + 6 calls.
 * lobby: 2 calls; then one open: queue 6 + 2 calls. */
TEST(numbers_are_decided) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(chain);
    const mr_plan_vertex *open = vertex(plan, "open"), *small = vertex(plan, "small"), *learn = vertex(plan, "learn");
    assert_int_equal(plan->workers, 3);
    assert_int_equal(small->calls.entries, 3);
    assert_int_equal(small->calls.in_flight, 6);
    assert_int_equal(open->calls.entries, 1);
    assert_int_equal(open->calls.in_flight, 2);
    assert_int_equal(open->calls.threads, 2);
    assert_true(open->calls.blocking);
    assert_int_equal(open->handling.queue, 6);
    assert_int_equal(open->handling.policy, MR_POLICY_DROP_OLDEST);
    assert_int_equal(small->handling.queue, 4);
    assert_int_equal(learn->calls.batch, 8);
    assert_int_equal(learn->handling.queue, 4);
    assert_int_equal(learn->source_count, 2);
    assert_int_equal(learn->needs.output_buffers, 2 * 8 + 2 * 32 + 2);
    assert_int_equal(small->needs.output_buffers, 6 + 2 * 4 + 2 * 8);
    assert_int_equal(open->needs.output_buffers, 3 + 2 + 4 + 6);
    assert_int_equal(vertex(plan, "lobby")->needs.output_buffers, 2 + 6 + 2);
    /* To make progress: one call in each stage, and in the queue what the next call takes, a batch with 8 or what
     * fits. */
    assert_int_equal(learn->needs.least_buffers, 8 + 2 * 1 + 1);
    assert_int_equal(small->needs.least_buffers, 1 + 2 * 4 + 8);
    assert_int_equal(open->needs.least_buffers, 3 + 1 + 1 + 1);
}

#define SOURCES "sources: {a: {uri: a.mp4}, b: {uri: b.mp4}, still: {type: pattern, format: RGB24 640x480}}\n"

TEST(joins_have_ports_and_pictures_pass_through) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD "sources: {a: {uri: a.mp4}}\n"
                                                        "stages:\n"
                                                        "  open: {input: a}\n"
                                                        "  keep: {type: same, input: open}\n"
                                                        "  shrink: {input: open, size: 4x4}\n"
                                                        "  pair: {join: {other: shrink, one: keep}}\n"
                                                        "  all: {type: gather, join: {x: pair, y: open, z: shrink}}\n"
                                                        "  out: {type: trash, input: all}\n");
    const mr_plan_vertex *pair = vertex(plan, "pair"), *all = vertex(plan, "all");
    assert_int_equal(pair->input_count, 2);
    assert_string_equal(pair->inputs[0].port, "one");
    assert_string_equal(pair->inputs[0].from, "keep");
    assert_string_equal(pair->inputs[1].port, "other");
    assert_int_equal(pair->inputs[1].format.payload, MR_PAYLOAD_TENSOR);
    assert_int_equal(all->input_count, 3);
    assert_string_equal(all->inputs[2].port, "z");
    assert_int_equal(all->inputs[1].format.payload, MR_PAYLOAD_PICTURE);
    /* After open: keep (4 + 6) and, since it passes pictures on, then pair (4 + 2); shrink (4 + 6); all (4 + 2). */
    assert_int_equal(vertex(plan, "open")->needs.output_buffers, 3 + 2 + (4 + 6) + (4 + 2) + (4 + 6) + (4 + 2));
    /* At joins frames wait for each other: all those places count. */
    assert_int_equal(vertex(plan, "open")->needs.least_buffers, 3 + 1 + (1 + 1) + (4 + 2) + (1 + 1) + (4 + 2));
}

TEST(outputs_have_names) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD SOURCES "stages:\n"
                                                        "  open: {input: [a, b]}\n"
                                                        "  split: {input: [still, open]}\n"
                                                        "  one: {type: trash, input: split.right}\n"
                                                        "  two: {type: trash, input: split}\n");
    const mr_plan_vertex *split = vertex(plan, "split");
    assert_int_equal(split->output_count, 3);
    assert_int_equal(split->source_count, 3);
    assert_int_equal(split->sources[0], 0);
    assert_int_equal(split->sources[2], 2);
    /* Pictures with unknown and with known size are merged: only what they share is known. */
    assert_int_equal(split->inputs[0].format.payload, MR_PAYLOAD_PICTURE);
    assert_int_equal(split->inputs[0].format.pixel, MR_PIXEL_ANY);
    assert_int_equal(split->inputs[0].format.width, 0);
    for (size_t e = 0; e < plan->edge_count; e++) {
        const mr_view_link *edge = &plan->edges[e];
        if (&plan->vertices[edge->to] == vertex(plan, "one"))
            assert_int_equal(edge->from_port, 1);
        if (&plan->vertices[edge->to] == vertex(plan, "two"))
            assert_int_equal(edge->from_port, 0);
    }
}

TEST(merged_formats_keep_what_they_share) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD "sources:\n"
                                                        "  x: {type: pattern, format: RGB24 640x480}\n"
                                                        "  y: {type: pattern, format: RGB24 320x240}\n"
                                                        "  f: {type: pattern, format: f32 3x8x8}\n"
                                                        "  g: {type: pattern, format: f32 3x9x8}\n"
                                                        "stages:\n"
                                                        "  pictures: {type: same, input: [x, y]}\n"
                                                        "  tensors: {type: learn, input: [f, g]}\n"
                                                        "  out: {type: trash, input: [pictures, tensors]}\n");
    const mr_format *pictures = &vertex(plan, "pictures")->inputs[0].format;
    const mr_format *tensors = &vertex(plan, "tensors")->inputs[0].format;
    assert_int_equal(pictures->pixel, MR_PIXEL_RGB24);
    assert_int_equal(pictures->width, 0);
    assert_int_equal(tensors->rank, 3);
    assert_int_equal(tensors->dims[0], 3);
    assert_int_equal(tensors->dims[1], 0);
    assert_int_equal(tensors->dims[2], 8);
}

/* A stage takes the frames that wait only if it needs no buffers for them: neither for payloads, also changed ones,
 * nor for results. */
TEST(frames_are_taken_together_without_buffers) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD SOURCES "stages:\n"
                                                        "  open: {input: [a, b]}\n"
                                                        "  shrink: {input: [open, still], size: 4}\n"
                                                        "  enlarge: {input: shrink}\n"
                                                        "  change: {input: enlarge}\n"
                                                        "  note: {input: change}\n"
                                                        "  name: {input: note}\n"
                                                        "  out: {type: trash, input: name}\n");
    assert_int_equal(vertex(plan, "enlarge")->calls.gathers, 1);
    assert_int_equal(vertex(plan, "change")->calls.gathers, 1);
    assert_int_equal(vertex(plan, "note")->calls.gathers, 1);
    assert_int_equal(vertex(plan, "name")->calls.gathers, 16);
}

/* One way to the join gathers eight frames: the other way must hold as many. */
TEST(joins_wait_for_batches) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD SOURCES "stages:\n"
                                                        "  open: {input: [a, b]}\n"
                                                        "  shrink: {input: [open, still], size: 4}\n"
                                                        "  learn: {input: shrink, batch: 8}\n"
                                                        "  again: {type: same, input: learn}\n"
                                                        "  all: {type: gather, join: {x: shrink, y: again}}\n"
                                                        "  out: {type: trash, input: all}\n");
    assert_int_equal(vertex(plan, "all")->handling.queue, 8);
    assert_int_equal(vertex(plan, "out")->handling.queue, 4);
}

static const char *said_of_missing_file(void) {
    static char text[PATH_MAX + 256];
    char here[PATH_MAX];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(text, sizeof text,
             "dir/p.yaml:3:20: error: sources.a: cannot open dir/missing.mp4\n"
             "    hint: relative paths in a pipeline start in its folder, %s/dir\n",
             here);
    return text;
}

/* An error in a source does not hide errors in later stages. */
TEST(errors_behind_a_missing_file_are_found) {
    char expected[PATH_MAX + 512];
    snprintf(expected, sizeof expected, "%s%s", said_of_missing_file(),
             "dir/p.yaml:6:31: error: stages.shrink: the width 5 is odd\n"
             "dir/p.yaml:7:18: error: learn takes tensor f32, but open gives pictures\n"
             "    hint: put a stage of type shrink between them\n");
    fake_expect(HEAD "sources: {a: {uri: missing.mp4}}\n"
                     "stages:\n"
                     "  open: {input: a}\n"
                     "  shrink: {input: open, size: 5x4}\n"
                     "  learn: {input: open}\n"
                     "  out: {type: trash, input: [shrink, learn]}\n",
                expected);
}

TEST(devices_are_resolved) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(HEAD SOURCES "stages:\n"
                                                        "  open: {input: [a, b]}\n"
                                                        "  shrink: {input: [open, still], size: 4, device: auto}\n"
                                                        "  learn: {input: shrink, device: \"sim:12\"}\n"
                                                        "  out: {type: trash, input: learn}\n");
    assert_string_equal(vertex(plan, "open")->devices.first, "cpu");
    assert_null(vertex(plan, "open")->devices.reason);
    assert_string_equal(vertex(plan, "shrink")->devices.first, "sim:12");
    assert_string_equal(vertex(plan, "shrink")->devices.reason,
                        "the same as learn, so that nothing is copied between them");
    assert_string_equal(vertex(plan, "learn")->devices.first, "sim:12");
}

TEST(deterministic_plans_have_no_threads) {
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
    ENDED_BY(mr_plan_destroy) mr_plan *plan;
    const mr_spec_params spec = {.types = fake_types, .default_source_type = "camera", .text = chain};
    assert_int_equal(
        mr_plan_load(&plan, &spec,
                     &(mr_plan_params){.inserted = &mr_pipeline_types, .workers = 8, .deterministic = true},
                     &diagnostics),
        MR_OK);
    assert_int_equal(plan->workers, 1);
    for (size_t v = 0; v < plan->vertex_count; v++) {
        assert_false(plan->vertices[v].calls.blocking);
        assert_int_equal(plan->vertices[v].calls.entries, 1);
    }
}

TEST(refusals_have_the_place_of_their_option) {
    fake_expect(HEAD "sources: {a: {uri: missing.mp4}}\n"
                     "stages:\n"
                     "  open: {input: a}\n"
                     "  shrink: {input: open, size: 4}\n"
                     "  out: {type: trash, input: shrink}\n",
                said_of_missing_file());
    fake_expect(HEAD SOURCES "stages:\n"
                     "  shrink: {input: still, size: 5x4}\n"
                     "  out: {type: trash, input: [shrink, a, b]}\n",
                "dir/p.yaml:5:32: error: stages.shrink: the width 5 is odd\n");
}

TEST(misfits_name_both_ends_and_what_converts) {
    fake_expect(HEAD "sources: {a: {uri: a.mp4}, u: {type: pattern, format: u8 3x4x4}}\n"
                     "stages:\n"
                     "  small: {type: shrink, input: a, size: 4}\n"
                     "  out: {type: write, input: small}\n"
                     "  far: {type: learn, input: a}\n"
                     "  bytes: {type: learn, input: u}\n"
                     "  two: {type: trash, input: [far, bytes]}\n",
                "dir/p.yaml:5:32: error: small takes pictures, but a gives packets\n"
                "    hint: put a stage of type open between them\n"
                "dir/p.yaml:7:29: error: far takes tensor f32, but a gives packets\n"
                "    hint: put a stage of type open, then shrink between them\n"
                "dir/p.yaml:8:31: error: bytes takes tensor f32, but u gives tensor u8 3x4x4\n");
}

/* A stage with a missing input is not asked for formats: it would read an input that does not exist. */
TEST(stages_without_their_inputs_are_not_asked) {
    fake_expect(HEAD "sources: {still: {type: pattern}}\n"
                     "stages:\n"
                     "  shrink: {input: stil, size: 5x4}\n"
                     "  pair: {join: {one: still}}\n"
                     "  all: {type: gather, input: [still, shrink]}\n"
                     "  out: {type: trash, input: [pair, all]}\n",
                "dir/p.yaml:5:19: error: stages.shrink: there is no source or stage \"stil\" to take as input\n"
                "    hint: did you mean \"still\"?\n"
                "dir/p.yaml:6:3: error: stages.pair: the input port \"other\" of pair is not connected\n"
                "    hint: name each input under `join`\n"
                "dir/p.yaml:7:31: error: stages.all: gather takes its inputs by name, under `join`\n"
                "    hint: name each input: join: {still: still, shrink: shrink}\n");
}

/* With very many ids, only the first unknown names get a guess, but all are reported. */
TEST(guesses_are_bounded) {
    enum { MANY_SOURCES = 10000, UNKNOWN_INPUTS = 20, GUESSED = 10 };
    FREED char *text = NULL;
    size_t length = 0;
    FILE *yaml = open_memstream(&text, &length);
    assert_non_null(yaml);
    fprintf(yaml, HEAD "sources:\n");
    for (int i = 0; i < MANY_SOURCES; i++)
        fprintf(yaml, "  a%05d: {uri: a.mp4}\n", i);
    fprintf(yaml, "stages:\n");
    for (int i = 0; i < UNKNOWN_INPUTS; i++)
        fprintf(yaml, "  s%d: {type: trash, input: b%05d}\n", i, i);
    fclose(yaml);
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    assert_int_equal(fake_load(&plan, text, &diagnostics), MR_ERROR_CONFIG);
    assert_true(diagnostics.count >= UNKNOWN_INPUTS);
    for (int i = 0; i < UNKNOWN_INPUTS; i++) {
        char guess[64];
        snprintf(guess, sizeof guess, "did you mean \"a%05d\"?", i);
        assert_non_null(strstr(diagnostics.item[i].message, "there is no source or stage"));
        assert_string_equal(diagnostics.item[i].hint,
                            i < GUESSED ? guess : "inputs are ids of sources and stages of this file");
    }
}

TEST(unused_outputs_are_warned_of) {
    mr_diagnostics diagnostics = {0};
    ENDED_BY(mr_plan_destroy) mr_plan *plan;
    int status = fake_load(&plan,
                           HEAD SOURCES "stages:\n"
                                        "  open: {input: a}\n"
                                        "  split: {input: still}\n"
                                        "  out: {type: trash, input: split.left}\n",
                           &diagnostics);
    assert_int_equal(status, MR_OK);
    expect_printed(&diagnostics, "dir/p.yaml:3:28: warning: nothing reads the source \"b\"\n"
                                 "    hint: name it in a stage's `input`, or remove it\n"
                                 "dir/p.yaml:5:3: warning: nothing reads the output \"pictures\" of \"open\"\n"
                                 "    hint: add a stage with `input: open`, or remove this one\n"
                                 "dir/p.yaml:6:3: warning: nothing reads the output \"right\" of \"split\"\n"
                                 "    hint: add a stage with `input: split.right`, or remove this one\n");
}

TEST(text_and_graph_are_checked_at_once) {
    fake_expect(HEAD "sources: {a: {uri: a.mp4, rate: 0}}\n"
                     "stages:\n"
                     "  x: {type: same, input: y}\n"
                     "  y: {type: same, input: x}\n"
                     "  z: {type: sam, input: aa.b}\n",
                "dir/p.yaml:3:33: error: sources.a.rate: 0 is out of range; expected 1 to 240\n"
                "dir/p.yaml:5:3: error: stages form a cycle: x -> y -> x\n"
                "    hint: remove one of these inputs\n"
                "dir/p.yaml:7:13: error: stages.z: unknown type \"sam\"\n"
                "    hint: did you mean \"same\"?\n"
                "dir/p.yaml:7:25: error: stages.z: there is no source or stage \"aa\" to take as input\n"
                "    hint: did you mean \"a\"?\n");
}

TEST(cycles_behind_cycles_are_all_named) {
    fake_expect(HEAD "sources: {a: {uri: a.mp4}}\n"
                     "stages:\n"
                     "  end: {type: trash, input: d}\n"
                     "  c: {type: same, input: b}\n"
                     "  b: {type: same, input: [a, c]}\n"
                     "  d: {type: same, input: [c, e]}\n"
                     "  e: {type: same, input: d}\n",
                "dir/p.yaml:6:3: error: stages form a cycle: c -> b -> c\n"
                "    hint: remove one of these inputs\n"
                "dir/p.yaml:8:3: error: stages form a cycle: d -> e -> d\n"
                "    hint: remove one of these inputs\n");
}

/* 1,000 sources into a chain with 200 stages. */
TEST(large_pipelines_are_planned) {
    FREED char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    fputs(HEAD "sources:\n", out);
    for (int i = 0; i < 1000; i++)
        fprintf(out, "  camera-%d: {uri: videos/%d.mp4, rate: 30fps, wait: 5ms}\n", i, i);
    fputs("stages:\n  open: {input: sources.*}\n  stage-0: {type: shrink, input: open, size: 64x64}\n", out);
    for (int i = 1; i < 198; i++)
        fprintf(out, "  stage-%d: {type: same, input: stage-%d, queue: 8}\n", i, i - 1);
    fputs("  out: {type: write, input: stage-197}\n", out);
    fclose(out);
    ENDED_BY(mr_plan_destroy) mr_plan *plan = load(text);
    assert_int_equal(plan->vertex_count, 1200);
    assert_int_equal(plan->vertices[1199].source_count, 1000);
}

RUN_TESTS(NULL, NULL)
