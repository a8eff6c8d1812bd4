/* Lines of text that stand on their heads: votes, and corners. */
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/objects/cascade/facing.h"
#include "tests/support/suite.h"

enum { MOST = 8 };

/* ---- votes ------------------------------------------------------------------------------------------------------- */

/* A line that runs at an angle in degrees, unless it stands on its head, for which the probability is given. */
typedef struct given {
    double degrees, probability;
} given;

/* `want` has a 1 for each line that is turned. */
static void expect(const given *lines, size_t count, double score, double others, const char *want) {
    mr_facing_line line[MOST] = {{0}};
    const mr_facing facing = {line, count, MOST};
    for (size_t i = 0; i < count; i++) {
        const double angle = lines[i].degrees * 3.14159265358979 / 180;
        line[i].along[0] = cos(angle);
        line[i].along[1] = sin(angle);
        line[i].odds = mr_facing_odds(lines[i].probability);
    }
    mr_facing_vote(&facing, score, others);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(line[i].turned, want[i] == '1');
}

TEST(most_lines_of_a_page_decide) {
    expect((given[]){{0, 0.001}, {0, 0.95}, {1, 0.02}}, 3, 0.7, 0.99, "000");
    expect((given[]){{0, 0.999}, {0, 0.05}, {1, 0.98}}, 3, 0.7, 0.99, "111");
}

TEST(a_line_that_is_surer_runs_the_other_way) {
    expect((given[]){{0, 1e-6}, {0, 1e-6}, {0, 0.9999}, {0, 0.98}}, 4, 0.7, 0.99, "0010");
    expect((given[]){{0, 1}, {0, 1}, {0, 1e-4}, {0, 0.03}}, 4, 0.7, 0.99, "1101");
}

TEST(a_line_alone_needs_the_score) {
    expect((given[]){{0, 0.69}}, 1, 0.7, 0.99, "0");
    expect((given[]){{0, 0.71}}, 1, 0.7, 0.99, "1");
    expect((given[]){{0, NAN}}, 1, 0.7, 0.99, "0");
    expect((given[]){{0, 0.8}, {0, 1e-6}}, 2, 0.7, 0.5, "10"); /* each alone */
}

/* Lines across do not count. Corners of nearly upright lines begin at either end: those count reversed. */
TEST(only_parallel_lines_count) {
    expect((given[]){{0, 1e-6}, {0, 1e-6}, {90, 0.9}, {90, 0.99}}, 4, 0.7, 0.99, "0011");
    expect((given[]){{90, 0.999}, {-90, 0.001}, {88, 0.4}, {-88, 0.6}}, 4, 0.7, 0.99, "1010");
    expect((given[]){{0, 1e-6}, {50, 0.9}}, 2, 0.7, 0.99, "01");
    expect((given[]){{0, 1e-6}, {40, 0.9}}, 2, 0.7, 0.99, "00");
}

/* ---- probabilities and corners ----------------------------------------------------------------------------------- */

/* A page of 200 x 100 from which the line's picture was cut: its first row runs along the vector from its corner. */
static mr_frame picture_of(double x, double y, double along_x, double along_y) {
    return (mr_frame){.geometry = {.x = {along_x, -along_y, x}, .y = {along_y, along_x, y}, .width = 40, .height = 10,
                                   .source_width = 200, .source_height = 100}};
}

static void add(mr_facing *facing, const mr_frame *picture, const mr_class *classes, size_t count, const char *name) {
    const mr_result found = {.kind = mr_kind_classes(), .count = count, .classes = (mr_class *)(uintptr_t)classes};
    assert_int_equal(mr_facing_add(facing, (int64_t)facing->count + 1, picture, &found, name), MR_OK);
}

TEST(classes_have_labels_or_numbers) {
    const mr_frame picture = picture_of(0, 0, 1, 0);
    const mr_class both[] = {{.index = 0, .score = 0.75f}, {.index = 1, .score = 0.25f}};
    const mr_class labelled[] = {{.index = 1, .score = 0.875f, .label = "180"}};
    ENDED_BY(mr_facing_fini) mr_facing facing = {0};
    add(&facing, &picture, both, 2, "1");
    add(&facing, &picture, both, 1, "1"); /* not listed: the rest */
    add(&facing, &picture, labelled, 1, "180");
    add(&facing, &picture, labelled, 1, "1");
    add(&facing, &picture, both, 0, "1");
    const double want[] = {0.25, 0.25, 0.875, 0.125, 0.5};
    for (size_t i = 0; i < facing.count; i++)
        assert_float_equal(facing.line[i].odds, log(want[i] / (1 - want[i])), 1e-9);
}

/* The corners of a box, from `first` on. */
static void expect_corners(const mr_result *objects, size_t index, int first) {
    const float corner[] = {10, 20, 50, 20, 50, 30, 10, 30};
    const mr_object *object = (const mr_object *)objects->data + index;
    const float *quad = mr_result_items(objects, object->quad);
    if (first)
        assert_int_equal(object->quad.count, 8);
    for (int i = 0; i < 8 && quad; i++)
        assert_true(quad[i] == corner[(i + 2 * first) % 8]);
}

/* Lines whose pictures run in the four directions, and one whose picture is not known to be anywhere. */
TEST(corners_begin_where_reading_does) {
    const double along[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    for (int upside = 0; upside < 2; upside++) {
        const mr_class class = {.index = 1, .score = (float)upside};
        ENDED_BY(mr_facing_fini) mr_facing facing = {0};
        mr_object objects[6];
        mr_result result = {.kind = mr_kind_objects(), .count = 6, .data = objects};
        for (int i = 0; i < 6; i++)
            objects[i] = (mr_object){.left = 10, .top = 20, .right = 50, .bottom = 30, .number = i + 1};
        for (int i = 0; i < 4; i++) {
            const mr_frame picture = picture_of(10, 20, along[i][0], along[i][1]);
            add(&facing, &picture, &class, 1, "1");
        }
        add(&facing, &(mr_frame){0}, &class, 1, "1");
        mr_facing_vote(&facing, 0.7, 0.5);
        assert_int_equal(mr_facing_turn(&facing, &result), MR_OK);
        for (int i = 0; i < 4; i++)
            expect_corners(&result, (size_t)i, (i + 2 * upside) % 4);
        expect_corners(&result, 4, 2 * upside);
        assert_int_equal(objects[5].quad.count, 0); /* no picture came */
        mr_free(result.items);
    }
}

RUN_TESTS(NULL, NULL)
