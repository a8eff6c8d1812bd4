/* Drawings for stage types with several outputs, which millrace's types do not have; the plans are handmade.
 * tests/e2e/plan/test_graph.py reads drawings for real pipelines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"
#include "tools/millrace/graph/graph_print.h"

static const char two_eyes[] = "version: 1\npipeline: eyes\n"
                               "sources: {still: {type: pattern, format: RGB24 640x480}}\n"
                               "stages:\n"
                               "  eyes: {type: split, input: still}\n"
                               "  near: {type: shrink, input: eyes.left, size: 8x4}\n"
                               "  far: {type: shrink, input: eyes.right, size: 4x2}\n"
                               "  both: {type: gather, join: {one: near, other: far}}\n"
                               "  out: {type: trash, input: both}\n";

static void make(mr_chart *chart, const char *text) {
    ENDED_BY(mr_plan_view_close) const mr_plan_view *plan;
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics diagnostics = {0};
    const mr_pipeline_params params = {.types = fake_types, .path = "fake.yaml", .text = text, .workers = 3};
    int status = mr_plan_view_open(&plan, &params, &diagnostics);
    mr_diagnostics_print(&diagnostics, stderr);
    assert_int_equal(status, MR_OK);
    assert_int_equal(mr_chart_make(chart, plan), MR_OK);
    /* A chart does not need the plan. */
}

/* What one writer makes from it; the caller must free the result. */
static char *text_of(const char *yaml, int (*write)(const mr_chart *graph, FILE *stream)) {
    mr_chart chart;
    char *text;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    make(&chart, yaml);
    assert_int_equal(write(&chart, stream), MR_OK);
    fclose(stream);
    mr_chart_fini(&chart);
    return text;
}

TEST(ports_are_named) {
    FREED char *text = text_of(two_eyes, mr_chart_text);
    assert_string_equal(text, "eyes (cpu)\n"
                              "\n"
                              "still: pattern\n"
                              "eyes: split\n"
                              "  <- still: picture RGB24 640x480\n"
                              "near: shrink\n"
                              "  <- eyes.left: picture RGB24 640x480\n"
                              "far: shrink\n"
                              "  <- eyes.right: picture RGB24 640x480\n"
                              "both: gather\n"
                              "  <- near as one: tensor f32 3x4x8\n"
                              "  <- far as other: tensor f32 3x2x4\n"
                              "out: trash\n"
                              "  <- both: tensor f32 3x4x8\n");
}

TEST(dot_names_ports_and_queues) {
    FREED char *text = text_of(two_eyes, mr_chart_dot);
    assert_non_null(strstr(text, "  \"eyes\" -> \"near\" [label=\"picture RGB24 640x480\\nqueue 4, block\", "
                                 "taillabel=\"left\"];\n"));
    assert_non_null(strstr(text, "  \"far\" -> \"both\" [label=\"tensor f32 3x2x4\\nqueue 4, block\", "
                                 "headlabel=\"other\"];\n"));
}

RUN_TESTS(NULL, NULL)
