/* Drawings of objects with masks, corners, key points and tails; what must not be drawn; texts; colours. Pixels are
 * checked in RGB. The words' font is the system's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/draw/drawing.h"
#include "stages/draw/words.h"
#include "tests/support/suite.h"

enum { WIDTH = 200, HEIGHT = 120, GROUND = 40, MOST = 8 };

/* A picture with one colour, the objects to draw, and the sketch. */
typedef struct scene {
    mr_frame frame;
    uint8_t pixel[HEIGHT][WIDTH][3];
    mr_object objects[MOST];
    mr_result result;
    mr_sketch sketch;
    mr_drawing drawing;
    void *memory;
} scene;

static void set_up(scene *s) {
    memset(s, 0, sizeof *s);
    s->frame.format = (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_RGB24, .width = WIDTH,
                                  .height = HEIGHT};
    mr_lay_out(&s->frame.format, 1, &s->pixel[0][0][0], s->frame.plane);
    s->frame.geometry = mr_geometry_of(&s->frame.format);
    memset(s->pixel, GROUND, sizeof s->pixel);
    s->result = (mr_result){.kind = mr_kind_objects(), .data = s->objects, .count = 1};
    s->objects[0] = (mr_object){.left = 20, .top = 30, .right = 60, .bottom = 90, .score = 0.5f, .index = 1};
    s->memory = malloc(MR_SKETCH_BYTES);
    s->drawing = (mr_drawing){.sketch = &s->sketch, .label = "", .thickness = 2, .font_size = 12};
    mr_sketch_begin(&s->sketch, &s->frame.format, s->memory);
}

static void tear_down(scene *s) {
    mr_font_close(&s->drawing.font);
    mr_free(s->result.items);
    free(s->memory);
}

#define SCENE_TEST(name) TEST_GIVEN(name, scene, s, set_up(&made), tear_down(&made))

/* Draws all objects. */
static void draw(scene *s, int64_t now_ns) {
    assert_true(mr_drawing_begin(&s->drawing, &s->frame));
    assert_int_equal(mr_drawing_add(&s->drawing, &s->result, now_ns), MR_OK);
    const mr_paint_work work = mr_sketch_work(&s->sketch, &s->frame, s->memory);
    assert_int_equal(mr_paint(&work), MR_OK);
}

static bool is_ground(const scene *s, int x, int y) {
    return s->pixel[y][x][0] == GROUND && s->pixel[y][x][1] == GROUND && s->pixel[y][x][2] == GROUND;
}

static bool is_ink(const scene *s, int x, int y, mr_ink ink) {
    return memcmp(s->pixel[y][x], ink.rgb, 3) == 0;
}

static int count_drawn(const scene *s) {
    int count = 0;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            count += !is_ground(s, x, y);
    return count;
}

/* Three cells by two over a box of 40 x 60: each run's cells are where they belong, blended with the opacity. */
SCENE_TEST(masks_are_stretched_over_their_box) {
    static const int32_t runs[] = {1, 2, 2, 1};
    const mr_ink ink = mr_ink_of(1, 255);
    mr_object *one = &s->objects[0];
    one->mask_width = 3;
    one->mask_height = 2;
    assert_int_equal(mr_result_add_items(&s->result, runs, 4, sizeof *runs, &one->mask), MR_OK);
    s->drawing.mask = 0.4;
    draw(s, 0);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            const bool box = x >= 20 && x < 60 && y >= 30 && y < 90;
            const int column = (int)((x - 20 + 0.5) * 3 / 40), row = (y - 30) * 2 / 60, cell = 3 * row + column;
            const bool inside = box && (cell == 1 || cell == 2 || cell == 5);
            for (int c = 0; c < 3; c++)
                assert_int_equal(s->pixel[y][x][c],
                                 inside ? (int)floor(GROUND * 0.6 + ink.rgb[c] * 0.4 + 0.5) : GROUND);
        }
}

/* Results may come from another node. */
SCENE_TEST(malformed_objects_are_left_out) {
    static const int32_t too_long[] = {1, 6}, negative[] = {-5, 3};
    static const float three[] = {1, 2, 3}, nowhere[] = {NAN, 5, INFINITY, 9, 1e30f, -1e30f, 0, NAN};
    mr_object *o = s->objects;
    for (int i = 1; i < MOST; i++)
        o[i] = o[0];
    s->result.count = MOST;
    o[0].left = NAN;
    o[1].right = INFINITY;
    o[1].left = -INFINITY;
    o[2].mask_width = 3, o[2].mask_height = 2;
    o[3].mask_width = 3, o[3].mask_height = 2;
    o[4].mask_width = o[4].mask_height = INT32_MAX;
    assert_int_equal(mr_result_add_items(&s->result, too_long, 2, 4, &o[2].mask), MR_OK);
    assert_int_equal(mr_result_add_items(&s->result, negative, 2, 4, &o[3].mask), MR_OK);
    assert_int_equal(mr_result_add_items(&s->result, too_long, 2, 4, &o[4].mask), MR_OK);
    assert_int_equal(mr_result_add_items(&s->result, three, 3, 4, &o[5].quad), MR_OK);
    assert_int_equal(mr_result_add_items(&s->result, nowhere, 8, 4, &o[6].quad), MR_OK);
    o[7].left = o[7].right; /* no width */
    for (int i = 0; i < MOST; i++)
        assert_int_equal(mr_result_add_items(&s->result, nowhere, 3, 4, &o[i].points), MR_OK);
    s->drawing.mask = 1;
    draw(s, 0); /* no boxes and no points */
    assert_int_equal(count_drawn(s), 0);
    s->drawing.boxes = s->drawing.points = true;
    draw(s, 0);
    assert_true(count_drawn(s) > 0);
    assert_false(is_ink(s, 100, 60, mr_ink_of(1, 255)));
}

SCENE_TEST(quadrilaterals_replace_boxes) {
    static const float corners[] = {40, 20.5f, 90, 60.5f, 40, 100.5f, 10, 60.5f};
    const mr_ink ink = mr_ink_of(1, 255);
    assert_int_equal(mr_result_add_items(&s->result, corners, 8, sizeof *corners, &s->objects[0].quad), MR_OK);
    s->drawing.boxes = true;
    draw(s, 0);
    for (int i = 0; i < 4; i++) {
        const float *a = corners + 2 * i, *b = corners + 2 * ((i + 1) % 4);
        assert_true(is_ink(s, (int)((a[0] + b[0]) / 2), (int)((a[1] + b[1]) / 2), ink));
    }
    assert_true(is_ground(s, 20, 35) && is_ground(s, 59, 89) && is_ground(s, 45, 60));
}

SCENE_TEST(key_points_need_a_score) {
    static const float points[] = {50.5f, 50.5f, 0.9f, 100.5f, 50.5f, 0.2f};
    assert_int_equal(mr_result_add_items(&s->result, points, 6, sizeof *points, &s->objects[0].points), MR_OK);
    s->drawing.points = true;
    s->drawing.point_score = 0.3;
    draw(s, 0);
    assert_true(is_ink(s, 50, 50, mr_ink_of(1, 255)) && is_ink(s, 52, 50, mr_ink_of(1, 255)));
    assert_true(is_ground(s, 54, 54) && is_ground(s, 100, 50));
}

/* COCO's 17: the line between the shoulders (5, 6) appears, and none to a point without a score. */
SCENE_TEST(limbs_join_points_of_people) {
    float points[17][3] = {{0}};
    for (int i = 0; i < 17; i++)
        memcpy(points[i], (const float[3]){10 + 10 * (float)i, i % 2 ? 100.5f : 20.5f, i == 5 || i == 6 || i == 7},
               sizeof points[i]);
    assert_int_equal(mr_result_add_items(&s->result, points, 51, sizeof(float), &s->objects[0].points), MR_OK);
    s->drawing.points = true;
    s->drawing.point_score = 0.5;
    draw(s, 0);
    assert_true(is_ink(s, 65, 60, mr_ink_of(1, 255))); /* 5 at 60, 100 and 6 at 70, 20 */
    assert_true(is_ink(s, 70, 100, mr_ink_of(1, 255))); /* 5 and 7 */
    assert_true(is_ground(s, 75, 60) && is_ground(s, 110, 60));
}

/* Where a track was in the last second; not another track's way, and not after a restart. */
SCENE_TEST(tails_follow_tracks) {
    static const int64_t TENTH = 100000000;
    mr_tails *tails = calloc(1, sizeof *tails);
    *tails = (mr_tails){.length_ns = 10 * TENTH, .step = 4};
    s->drawing.tails = tails;
    s->drawing.anchor = MR_ANCHOR_CENTER;
    s->objects[0] = (mr_object){.top = 40, .bottom = 81, .track = 5};
    for (int i = 0; i <= 20; i++) {
        s->objects[0].left = (float)(5 * i);
        s->objects[0].right = (float)(5 * i + 41);
        memset(s->pixel, GROUND, sizeof s->pixel);
        mr_sketch_begin(&s->sketch, &s->frame.format, s->memory);
        draw(s, i * TENTH);
    }
    assert_true(is_ink(s, 118, 60, mr_ink_of(5, 255)));  /* the newest, at 120.5 */
    assert_false(is_ground(s, 75, 60));                  /* nearly a second old: fainter */
    assert_false(is_ink(s, 75, 60, mr_ink_of(5, 255)));
    assert_true(is_ground(s, 60, 60));                   /* older */
    mr_tails_clear(tails);
    memset(s->pixel, GROUND, sizeof s->pixel);
    mr_sketch_begin(&s->sketch, &s->frame.format, s->memory);
    draw(s, 21 * TENTH);
    assert_int_equal(count_drawn(s), 0);
    free(tails);
}

/* More tracks than places: the oldest go. */
TEST(tails_are_bounded) {
    mr_tails *tails = calloc(1, sizeof *tails);
    *tails = (mr_tails){.length_ns = INT64_MAX, .step = 1};
    mr_tail_place place;
    for (int64_t time = 1; time <= 3; time++)
        for (int64_t track = 1; track <= MR_TAILS + 100; track++)
            mr_tails_add(tails, track, &(mr_tail_place){(float)(10 * time), 0, time * 1000 + track});
    const mr_tail *first = mr_tails_add(tails, 101, &(mr_tail_place){50, 0, 9000});
    assert_true(mr_tail_place_at(tails, first, 0, 9000, &place) && place.time_ns == 9000);
    for (int64_t i = 0; i < 1000; i++)
        mr_tails_add(tails, 101, &(mr_tail_place){(float)(100 * i), 0, 10000 + i});
    assert_true(mr_tail_place_at(tails, first, MR_TAIL_PLACES - 1, 20000, &place));
    assert_int_equal(place.time_ns, 11000 - MR_TAIL_PLACES);
    assert_false(mr_tail_place_at(tails, first, MR_TAIL_PLACES, 20000, &place));
    free(tails);
}

/* The shapes for which there is no room are counted. */
SCENE_TEST(a_full_sketch_counts_what_it_leaves_out) {
    const mr_ink ink = mr_ink_of(1, 255);
    for (int i = 0; i < MR_SKETCH_ITEMS + 10; i++)
        mr_sketch_rectangle(&s->sketch, (mr_area){1, 1, 5, 5}, ink);
    assert_int_equal(s->sketch.count, MR_SKETCH_ITEMS);
    assert_int_equal(s->sketch.left_out, 10);
    assert_null(mr_sketch_room(&s->sketch, 1 << 14, 1 << 14));
    assert_int_equal(s->sketch.left_out, 11);
}

/* Lines with ends far away are where they would be if the picture were as large. */
SCENE_TEST(long_lines_stay_exact) {
    const mr_ink ink = mr_ink_of(1, 255);
    mr_sketch_line(&s->sketch, (const double[2]){-1e9, -1e9 + 0.5}, (const double[2]){1e9, 1e9 + 0.5}, 2, ink);
    mr_sketch_line(&s->sketch, (const double[2]){-1e9, 500}, (const double[2]){1e9, 500}, 2, ink);
    assert_int_equal(s->sketch.count, 1);
    draw(s, 0);
    assert_true(is_ink(s, 0, 0, ink) && is_ink(s, 100, 100, ink) && is_ink(s, 119, 119, ink));
    assert_true(is_ground(s, 104, 100) && is_ground(s, 100, 104));
}

/* Any texts, and more than are kept. */
SCENE_TEST(texts_of_all_kinds_are_laid_out) {
    char text[4 * MR_TEXT_MOST];
    mr_text_line line, again;
    assert_int_equal(mr_font_open(&s->drawing.font, "Sans"), MR_OK);
    mr_font *font = s->drawing.font;
    assert_int_equal(mr_font_resize(font, 12), MR_OK);
    assert_int_equal(mr_font_line(font, "person 12", &line), MR_OK);
    const int32_t width = line.width, columns = line.columns;
    uint8_t *cover = malloc((size_t)(columns * line.rows));
    memcpy(cover, line.cover, (size_t)(columns * line.rows));
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "word%d \xd8\xb4%d", i, i);
        assert_int_equal(mr_font_line(font, text, &again), MR_OK);
    }
    assert_int_equal(mr_font_line(font, "person 12", &again), MR_OK);
    assert_int_equal(again.width, width);
    assert_memory_equal(again.cover, cover, (size_t)(columns * line.rows));
    free(cover);
    for (const char *const *odd = (const char *const[]){"", " ", "   ", "\xff\xfe", "a\x80", "\n\t", "\xf4\x8f\xbf\xbd",
                                                        "\xe2\x80\xae\xe2\x80\x8d", NULL}; *odd; odd++)
        assert_int_equal(mr_font_line(font, *odd, &line), MR_OK);
    memset(text, 'W', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(mr_font_line(font, text, &line), MR_OK);
    text[MR_TEXT_MOST] = '\0';
    assert_int_equal(mr_font_line(font, text, &again), MR_OK);
    assert_int_equal(line.width, again.width);
    assert_int_equal(mr_font_resize(font, 400), MR_OK);
    assert_int_equal(mr_font_line(font, text, &line), MR_OK);
}

SCENE_TEST(tokens_without_a_value_are_left_out) {
    char text[MR_WORDS];
    const mr_object_zone zones[] = {{"door", 1}, {"hall", 2}};
    mr_object_attribute found[] = {{.label = "red", .index = 1}, {.index = 7}, {.index = 0}};
    mr_object *one = &s->objects[0];
    static const char *const cases[][3] = {
        {"{label} #{track} {score}", "cat #5 0.50", "1 0.50"},
        {"{number}/{parent}", NULL, NULL},
        {"at {zones} is {class} {text}", "at door, hall is red, 7 STOP", "at is"},
        {"  {label}  ", "cat", "1"},
        {"{speed} m/s", "1.5 m/s", "m/s"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mr_words_check_label(cases[i][0]), cases[i][1] ? MR_OK : MR_ERROR_CONFIG);
        if (!cases[i][1])
            continue;
        mr_words_of_object(text, cases[i][0], &s->result, one);
        assert_string_equal(text, cases[i][2]);
    }
    one->label = "cat";
    one->track = 5;
    one->speed = 1.5f;
    assert_int_equal(mr_result_add_items(&s->result, zones, 2, sizeof *zones, &one->zones), MR_OK);
    assert_int_equal(mr_result_add_items(&s->result, "STOP", 4, 1, &found[2].text), MR_OK);
    assert_int_equal(mr_result_add_items(&s->result, found, 3, sizeof *found, &one->attributes), MR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (!cases[i][1])
            continue;
        mr_words_of_object(text, cases[i][0], &s->result, one);
        assert_string_equal(text, cases[i][1]);
    }
}

SCENE_TEST(captions_have_the_clock) {
    char text[MR_WORDS];
    s->frame.pts_ns = 3723004000000;
    s->frame.captured_ns = 1795876062000000000;
    mr_words_of_frame(text, "{source} {utc} {position} {objects}", "lobby", &s->frame, &s->result);
    assert_string_equal(text, "lobby 2026-11-28 14:27:42Z 1:02:03.004 1");
    s->frame.pts_ns = MR_NO_TIME;
    s->frame.captured_ns = 0;
    mr_words_of_frame(text, "{source} {utc} {time} {position} {objects}", "lobby", &s->frame, NULL);
    assert_string_equal(text, "lobby");
}

/* Any two of the first classes differ clearly, and each always has the same colour. */
TEST(colours_differ) {
    for (uint64_t a = 0; a < 12; a++)
        for (uint64_t b = 0; b < a; b++) {
            const mr_ink one = mr_ink_of(a, 255), two = mr_ink_of(b, 255);
            int apart = 0;
            for (int c = 0; c < 3; c++)
                apart += abs(one.rgb[c] - two.rgb[c]);
            assert_true(apart >= 60);
        }
    assert_int_equal(mr_ink_on((mr_ink){{255, 255, 0}, 255}).rgb[0], 0);
    assert_int_equal(mr_ink_on((mr_ink){{0, 0, 200}, 255}).rgb[0], 255);
}

/* A picture that was halved and turned a quarter: a box goes where its corners lead. */
SCENE_TEST(boxes_follow_the_geometry) {
    const mr_ink ink = mr_ink_of(1, 255);
    s->frame.geometry = (mr_geometry){.x = {0, 2, 0}, .y = {-2, 0, 2 * WIDTH}, .width = WIDTH, .height = HEIGHT,
                                      .source_width = 2 * HEIGHT, .source_height = 2 * WIDTH};
    s->objects[0] = (mr_object){.left = 20, .top = 60, .right = 80, .bottom = 160, .index = 1};
    s->drawing.boxes = true;
    draw(s, 0);
    /* x = 2 row and y = 2 (WIDTH - column): rows 10 to 40, columns 120 to 170. */
    assert_true(is_ink(s, 120, 10, ink) && is_ink(s, 169, 39, ink) && is_ink(s, 140, 11, ink));
    assert_true(is_ground(s, 119, 10) && is_ground(s, 170, 39) && is_ground(s, 140, 25) && is_ground(s, 140, 9));
}

RUN_TESTS(NULL, NULL)
