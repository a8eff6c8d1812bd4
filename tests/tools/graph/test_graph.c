/* Drawings of plans of stage types with several outputs, which none that comes with millrace has, by hand. What
 * drawings of real pipelines say is read back in tests/e2e/plan/test_graph.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "millrace/status.h"
#include "tests/support/fakes.h"
#include "tools/millrace/graph/graph.h"

static const char two_eyes[] = "version: 1\npipeline: eyes\n"
                               "sources: {still: {type: pattern, format: RGB24 640x480}}\n"
                               "stages:\n"
                               "  eyes: {type: split, input: still}\n"
                               "  near: {type: shrink, input: eyes.left, size: 8x4}\n"
                               "  far: {type: shrink, input: eyes.right, size: 4x2}\n"
                               "  both: {type: gather, join: {one: near, other: far}}\n"
                               "  out: {type: trash, input: both}\n";

static void make(mr_chart *chart, const char *text) {
    const mr_plan_view *plan;
    mr_diagnostics diagnostics = {0};
    const mr_pipeline_params params = {.types = fake_types, .path = "fake.yaml", .text = text, .workers = 3};
    int status = mr_plan_view_open(&plan, &params, &diagnostics);
    mr_diagnostics_print(&diagnostics, stderr);
    assert_int_equal(status, MR_OK);
    assert_int_equal(mr_chart_make(chart, plan), MR_OK);
    /* A chart does not need its plan. */
    mr_plan_view_close(&plan);
    mr_diagnostics_fini(&diagnostics);
}

/* What is drawn in the terminal; to be freed. */
static char *text_of(const char *yaml, int width, bool ascii) {
    mr_chart chart;
    char *text;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    make(&chart, yaml);
    assert_int_equal(mr_chart_text(&chart, &(mr_chart_view){.width = width, .ascii = ascii}, stream), MR_OK);
    fclose(stream);
    mr_chart_fini(&chart);
    return text;
}

static void assert_drawn(const char *yaml, int width, bool ascii, const char *expected) {
    char *text = text_of(yaml, width, ascii);
    assert_string_equal(text, expected);
    free(text);
}

static void ports_are_named(void **state) {
    (void)state;
    assert_drawn(two_eyes, 80, true,
                 "eyes (cpu)\n"
                 "\n"
                 "+----------------+\n"
                 "| still: pattern |\n"
                 "+-+--------------+\n"
                 "  | picture RGB24 640x480\n"
                 "+-v--------------------------------+\n"
                 "| eyes: split                      |\n"
                 "+-+------------------------------+-+\n"
                 "  | left: picture RGB24 640x480  | right: picture RGB24 640x480\n"
                 "+-v------------+               +-v-----------+\n"
                 "| near: shrink |               | far: shrink |\n"
                 "+-+------------+               +-+-----------+\n"
                 "  | tensor f32 3x4x8             | tensor f32 3x2x4\n"
                 "  +-----------+      +-----------+\n"
                 "              | one  | other\n"
                 "            +-v------v-----+\n"
                 "            | both: gather |\n"
                 "            +-+------------+\n"
                 "              | tensor f32 3x4x8\n"
                 "            +-v----------+\n"
                 "            | out: trash |\n"
                 "            +------------+\n");
}

static void names_stand_for_lines_that_do_not_fit(void **state) {
    (void)state;
    assert_drawn(two_eyes, 20, false,
                 "eyes (cpu)\n"
                 "\n"
                 "┌────────────────┐\n"
                 "│ still: pattern │\n"
                 "└─┬──────────────┘\n"
                 "  │ picture RGB24…\n"
                 "┌─▼───────────┐\n"
                 "│ eyes: split │\n"
                 "└─────────────┘\n"
                 "\n"
                 "┌───────────────┐\n"
                 "│ near: shrink  │\n"
                 "│ <- eyes.left: │\n"
                 "│ picture RGB24 │\n"
                 "│ 640x480       │\n"
                 "└───────────────┘\n"
                 "\n"
                 "┌────────────────┐\n"
                 "│ far: shrink    │\n"
                 "│ <- eyes.right: │\n"
                 "│ picture RGB24  │\n"
                 "│ 640x480        │\n"
                 "└─┬──────────────┘\n"
                 "  │ tensor f32 3x…\n"
                 "  │ other\n"
                 "┌─▼────────────────┐\n"
                 "│ both: gather     │\n"
                 "│ <- near as one:  │\n"
                 "│ tensor f32 3x4x8 │\n"
                 "└─┬────────────────┘\n"
                 "  │ tensor f32 3x…\n"
                 "┌─▼──────────┐\n"
                 "│ out: trash │\n"
                 "└────────────┘\n");
}

static void dot_names_ports_and_queues(void **state) {
    (void)state;
    mr_chart chart;
    char *text;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    make(&chart, two_eyes);
    assert_int_equal(mr_chart_dot(&chart, stream), MR_OK);
    fclose(stream);
    mr_chart_fini(&chart);
    assert_non_null(strstr(text, "  \"eyes\" -> \"near\" [label=\"picture RGB24 640x480\\nqueue 4, block\", "
                                 "taillabel=\"left\"];\n"));
    assert_non_null(strstr(text, "  \"far\" -> \"both\" [label=\"tensor f32 3x2x4\\nqueue 4, block\", "
                                 "headlabel=\"other\"];\n"));
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ports_are_named),
        cmocka_unit_test(names_stand_for_lines_that_do_not_fit),
        cmocka_unit_test(dot_names_ports_and_queues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
