/* Drawings of objects with masks, corners, key points and tails; zones; what must not be drawn; texts; colours. Pixels
 * are checked in RGB. The words' font is the system's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/draw/drawing.h"
#include "stages/draw/shown_zones.h"
#include "stages/draw/words.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

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

/* A tilted object's label stands on its upper left corner, not on the box around it, wherever the object begins. */
static void label_of_quadrilateral(scene *s, int first) {
    static const float corners[] = {20, 80, 140, 40, 150, 60, 30, 100};
    float turned[8];
    mr_object *one = &s->objects[0];
    const mr_ink ink = mr_ink_of(1, 255);
    for (int i = 0; i < 8; i++)
        turned[i] = corners[(i + 2 * first) % 8];
    *one = (mr_object){.left = 20, .top = 40, .right = 150, .bottom = 100, .index = 1, .label = "l", .score = 1};
    assert_int_equal(mr_result_add_items(&s->result, turned, 8, sizeof *turned, &one->quad), MR_OK);
    assert_int_equal(mr_font_open(&s->drawing.font, "Sans"), MR_OK);
    s->drawing.label = "{label}";
    draw(s, 0);
    assert_true(is_ink(s, 21, 78, ink));
    for (int y = 20; y < 39; y++)
        assert_true(is_ground(s, 21, y));
}

SCENE_TEST(labels_of_quadrilaterals_stand_on_their_upper_left_corner) {
    label_of_quadrilateral(s, 0);
}

SCENE_TEST(labels_of_turned_quadrilaterals_do_too) {
    label_of_quadrilateral(s, 2);
}

SCENE_TEST(labels_of_quadrilaterals_that_run_upwards_do_too) {
    label_of_quadrilateral(s, 3);
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
    FREED mr_tails *tails = calloc(1, sizeof *tails);
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
}

/* Times that no 64 bits can subtract. */
SCENE_TEST(tails_end_where_time_jumps) {
    FREED mr_tails *tails = calloc(1, sizeof *tails);
    *tails = (mr_tails){.length_ns = 1000000000, .step = 4};
    s->drawing.tails = tails;
    s->objects[0].track = 5;
    draw(s, -9000000000000000000);
    s->objects[0].left += 100;
    draw(s, 9000000000000000000);
    assert_int_equal(s->sketch.count, 0);
    s->objects[0].left -= 100;
    draw(s, 9000000000000000000);
    assert_int_equal(s->sketch.count, 1);
}

/* More tracks than places: the oldest go. */
TEST(tails_are_bounded) {
    FREED mr_tails *tails = calloc(1, sizeof *tails);
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
}

/* The shapes for which there is no room are counted. */
SCENE_TEST(a_full_sketch_counts_what_it_leaves_out) {
    const mr_ink ink = mr_ink_of(1, 255);
    for (int i = 0; i < MR_SKETCH_ITEMS + 10; i++)
        mr_sketch_rectangle(&s->sketch, (mr_area){1, 1, 5, 5}, ink);
    assert_int_equal(s->sketch.count, MR_SKETCH_ITEMS);
    assert_int_equal(s->sketch.left_out, 10);
    assert_null(mr_sketch_room(&s->sketch, (mr_area){1, 1, 5, 5}, 1 << 14, 1 << 14));
    assert_int_equal(s->sketch.left_out, 11);
}

/* Work is bounded: masks that nobody can see, or that are wrong, are not filled in for each object. */
SCENE_TEST(masks_do_not_cost_more_than_their_room) {
    static const int32_t wrong[] = {0, INT32_MAX};
    for (int i = 0; i < MOST; i++) {
        s->objects[i] = (mr_object){.left = 300, .top = 30, .right = 340, .bottom = 90, .mask_width = 1448,
                                    .mask_height = 1448};
        assert_int_equal(mr_result_add_items(&s->result, wrong, 2, 4, &s->objects[i].mask), MR_OK);
    }
    s->result.count = MOST;
    s->drawing.mask = 1;
    memset(s->memory, 0x55, MR_SKETCH_BYTES);
    draw(s, 0);
    assert_int_equal(*s->sketch.stencils, 0x55);
    assert_int_equal(s->sketch.left_out, 0);
    for (int i = 0; i < MOST; i++)
        s->objects[i].left = 20;
    draw(s, 0);
    assert_int_equal(s->sketch.left_out, MOST - 1); /* the first has used up the room */
    assert_int_equal(count_drawn(s), 0);
}

SCENE_TEST(a_full_sketch_takes_no_more_objects) {
    static const int32_t runs[] = {0, 1};
    for (int i = 0; i < MOST; i++) {
        s->objects[i] = (mr_object){.left = 20, .top = 30, .right = 40, .bottom = 90, .mask_width = 1,
                                    .mask_height = 1};
        assert_int_equal(mr_result_add_items(&s->result, runs, 2, 4, &s->objects[i].mask), MR_OK);
    }
    s->result.count = MOST;
    s->drawing.mask = 1;
    s->drawing.boxes = true;
    s->drawing.label = "\xf4\x8f\xbf\xbd"; /* no font has it */
    assert_int_equal(mr_font_open(&s->drawing.font, "Sans"), MR_OK);
    memset(s->memory, 0x55, MR_SKETCH_BYTES);
    while (s->sketch.count < MR_SKETCH_ITEMS)
        mr_sketch_rectangle(&s->sketch, (mr_area){1, 1, 5, 5}, mr_ink_of(1, 255));
    draw(s, 0);
    assert_int_equal(*s->sketch.stencils, 0x55);
    assert_int_equal(s->sketch.left_out, 3 * MOST); /* masks, boxes and labels */
    assert_int_equal(s->drawing.missing, 0);        /* not even laid out */
}

/* Objects beside the picture, on each side, near and far: no shape is made, and no text is laid out. */
SCENE_TEST(what_lies_outside_takes_no_work) {
    static const float away[][2] = {{-200, 10}, {10, -200}, {500, 10}, {10, 500}, {-3e9f, 4e9f}, {1e30f, -1e30f}};
    static const int32_t runs[] = {0, 1};
    s->result.count = sizeof away / sizeof *away;
    for (size_t i = 0; i < s->result.count; i++) {
        float points[17][3];
        for (int k = 0; k < 17; k++)
            memcpy(points[k], (const float[3]){away[i][0] + (float)k, away[i][1] + (float)k, 1}, sizeof points[k]);
        s->objects[i] = (mr_object){.left = away[i][0], .top = away[i][1], .right = away[i][0] + 40,
                                    .bottom = away[i][1] + 40, .mask_width = 1, .mask_height = 1, .track = 1};
        assert_int_equal(mr_result_add_items(&s->result, runs, 2, 4, &s->objects[i].mask), MR_OK);
        assert_int_equal(mr_result_add_items(&s->result, points, 51, 4, &s->objects[i].points), MR_OK);
    }
    s->drawing.mask = 1;
    s->drawing.boxes = s->drawing.points = true;
    s->drawing.label = "\xf4\x8f\xbf\xbd"; /* no font has it */
    assert_int_equal(mr_font_open(&s->drawing.font, "Sans"), MR_OK);
    draw(s, 0);
    assert_int_equal(s->sketch.count, 0);
    assert_int_equal(s->sketch.stencil_bytes, 0);
    assert_int_equal(s->sketch.left_out, 0);
    assert_int_equal(s->drawing.missing, 0);
    assert_true(mr_sketch_sees(&s->sketch, (mr_area){-5, -5, 0, 0}));
    assert_false(mr_sketch_sees(&s->sketch, (mr_area){-5, -5, -0.5, 9}));
    s->objects[0].right = 0.5f; /* a little of it is visible */
    draw(s, 0);
    assert_int_not_equal(s->drawing.missing, 0);
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

/* A pipe without a writer is refused at once. */
TEST_WITH(fonts_that_are_no_files, make_temporary_folder, remove_temporary_folder) {
    char path[256];
    mr_font *font = NULL;
    snprintf(path, sizeof path, "%s/pipe.ttf", temporary_folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(mr_font_open(&font, path), MR_ERROR_NO_INPUT);
    assert_int_equal(mr_font_open(&font, "/dev/zero"), MR_ERROR_NO_INPUT);
    assert_null(font);
}

/* Any texts, and more than are kept. */
SCENE_TEST(texts_of_all_kinds_are_laid_out) {
    char text[4 * MR_TEXT_MOST];
    mr_text_line line, again;
    assert_int_equal(mr_font_open(&s->drawing.font, "Sans"), MR_OK);
    mr_font *font = s->drawing.font;
    assert_int_equal(mr_font_resize(font, 12, INT32_MAX), MR_OK);
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
    assert_int_equal(mr_font_resize(font, 400, INT32_MAX), MR_OK);
    assert_int_equal(mr_font_line(font, text, &line), MR_OK);
}

/* A character that nobody sees needs no font. */
SCENE_TEST(invisible_characters_are_not_missing) {
    mr_text_line line;
    assert_int_equal(mr_font_open(&s->drawing.font, "Sans"), MR_OK);
    assert_int_equal(mr_font_resize(s->drawing.font, 12, INT32_MAX), MR_OK);
    assert_int_equal(mr_font_line(s->drawing.font, "ab", &line), MR_OK);
    const int32_t width = line.width;
    for (const char *const *one = (const char *const[]){
             "a\xc2\xad" "b", "a\xe1\xa0\x8e" "b", "a\xe2\x81\xa6" "b\xe2\x81\xa9", "a\xe2\x81\xaf" "b",
             "\xef\xbb\xbf" "ab", "a\xef\xb8\x8f" "b", "a\xf3\xa0\x81\xbf" "b", NULL}; *one; one++) {
        assert_int_equal(mr_font_line(s->drawing.font, *one, &line), MR_OK);
        assert_int_equal(line.missing, 0);
        assert_int_equal(line.width, width);
    }
    assert_int_equal(mr_font_line(s->drawing.font, "a\xef\xbf\xbf", &line), MR_OK);
    assert_int_equal(line.missing, 0xffff);
}

/* A text that is larger than the picture takes no more memory and time than the part of it that is seen, which is the
 * same as in a larger picture. */
SCENE_TEST(large_texts_are_cut_at_the_picture) {
    enum { SIZE = 400 };
    const mr_ink ink = mr_ink_of(1, 255);
    const char *alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    mr_text_line whole, part;
    s->objects[1] = s->objects[0];
    s->objects[0].label = s->objects[1].label = alphabet;
    s->result.count = 2;
    s->drawing.label = "{label}";
    s->drawing.font_size = SIZE;
    assert_int_equal(mr_font_open(&s->drawing.font, "Sans"), MR_OK);
    draw(s, 0);
    assert_int_equal(s->sketch.left_out, 0);
    assert_true(count_drawn(s) > 0);
    assert_int_equal(mr_drawing_add_text(&s->drawing, alphabet, 0, 0, ink, ink), MR_OK);
    assert_int_equal(mr_drawing_add_caption(&s->drawing, alphabet, 3), MR_OK);
    assert_int_equal(s->sketch.left_out, 0);
    assert_in_range(s->sketch.stencil_bytes, 1, 4 * (WIDTH + SIZE) * HEIGHT);
    assert_int_equal(mr_font_resize(s->drawing.font, SIZE / 4, INT32_MAX), MR_OK);
    assert_int_equal(mr_font_line(s->drawing.font, alphabet, &whole), MR_OK);
    assert_true(whole.columns > 5 * WIDTH);
    FREED uint8_t *cover = malloc((size_t)(whole.columns * whole.rows));
    memcpy(cover, whole.cover, (size_t)(whole.columns * whole.rows));
    assert_int_equal(mr_font_resize(s->drawing.font, SIZE / 4, WIDTH), MR_OK);
    assert_int_equal(mr_font_line(s->drawing.font, alphabet, &part), MR_OK);
    assert_int_equal(part.columns, WIDTH);
    assert_true(part.width >= WIDTH);
    for (int32_t row = 0; row < part.rows; row++)
        assert_memory_equal(part.cover + row * WIDTH, cover + (ptrdiff_t)row * whole.columns, WIDTH);
}

/* ---- zones ------------------------------------------------------------------------------------------------------- */

/* Two stages that watch a line and an area with the same names. */
typedef struct watched {
    mr_planned_zones zones[2];
    mr_planned_result plan[2];
    mr_zone_event events[2];
    mr_result results[2];
} watched;

static void watch(watched *w, scene *s) {
    static const char *const line_names[] = {"gate"}, *const area_names[] = {"hall"}, *const ids[] = {"near", "far"};
    static const double ends[2][2][2] = {{{10, 40}, {190, 40}}, {{10, 100}, {190, 100}}};
    static const double corners[2][3][2] = {{{100, 60}, {120, 80}, {80, 80}}, {{150, 60}, {170, 80}, {130, 80}}};
    static const mr_points lines[2] = {{2, ends[0]}, {2, ends[1]}}, areas[2] = {{3, corners[0]}, {3, corners[1]}};
    *w = (watched){0};
    for (int i = 0; i < 2; i++) {
        w->zones[i] = (mr_planned_zones){.lines = {.count = 1, .name = line_names, .points = &lines[i]}, .pixels = true,
                                         .areas = {.count = 1, .name = area_names, .points = &areas[i]},
                                         .crossings = true, .from = ids[i]};
        w->plan[i] = (mr_planned_result){.kind = mr_kind_events(), .zones = &w->zones[i],
                                         .next = i ? NULL : &w->plan[1]};
        w->events[i] = (mr_zone_event){.event = "cross", .zone = "gate", .direction = "in", .count = 3 + i};
        w->results[i] = (mr_result){.kind = mr_kind_events(), .stage = ids[i], .data = &w->events[i], .count = 1,
                                    .next = i ? &s->result : &w->results[1]};
    }
    s->frame.results = w->results;
    s->result.stage = "detect";
    assert_int_equal(mr_font_open(&s->drawing.font, "Sans"), MR_OK);
}

static void expect_zone(scene *s, const mr_points *points, const char *name, const char *text) {
    const mr_ink ink = mr_ink_of(mr_ink_number(name), 255);
    for (size_t i = 0; i < points->count - (points->count == 2); i++)
        mr_sketch_line(&s->sketch, points->at[i], points->at[(i + 1) % points->count], s->drawing.thickness, ink);
    assert_int_equal(mr_drawing_add_text(&s->drawing, text, points->at[0][0], points->at[0][1], ink, mr_ink_on(ink)),
                     MR_OK);
}

/* Areas are filled below everything: half the ink inside, nothing outside. */
SCENE_TEST(areas_are_filled) {
    watched w;
    mr_shown_zones shown = {0};
    const mr_ink ink = mr_ink_of(mr_ink_number("hall"), 255);
    watch(&w, s);
    mr_font_close(&s->drawing.font);
    s->drawing.fill = 0.5;
    s->frame.results = NULL;
    assert_true(mr_drawing_begin(&s->drawing, &s->frame));
    assert_int_equal(mr_shown_zones_draw(&shown, w.plan, &s->frame, NULL, &s->drawing), MR_OK);
    const mr_paint_work work = mr_sketch_work(&s->sketch, &s->frame, s->memory);
    assert_int_equal(mr_paint(&work), MR_OK);
    for (int i = 0; i < 2; i++) {
        const int x = i ? 150 : 100;
        for (int c = 0; c < 3; c++)
            assert_true(abs(s->pixel[74][x][c] - (GROUND + ink.rgb[c]) / 2) <= 1);
        assert_true(is_ground(s, x - 20, 64) && is_ground(s, x + 20, 64) && is_ground(s, x, 84));
    }
}

/* Draws what zones know, and the texts; both must look the same. */
static void check_zones(scene *s, const watched *w, const char *const texts[4]) {
    static uint8_t seen[HEIGHT][WIDTH][3];
    mr_shown_zones shown = {0};
    assert_true(mr_drawing_begin(&s->drawing, &s->frame));
    mr_shown_zones_count(&shown, w->plan, &s->frame);
    for (int i = 0; i < 2; i++) {
        memset(s->pixel, GROUND, sizeof s->pixel);
        mr_sketch_begin(&s->sketch, &s->frame.format, s->memory);
        if (!i)
            assert_int_equal(mr_shown_zones_draw(&shown, w->plan, &s->frame, &s->result, &s->drawing), MR_OK);
        for (int k = 0; i && k < 4; k++)
            expect_zone(s, k % 2 ? w->zones[k / 2].lines.points : w->zones[k / 2].areas.points,
                        k % 2 ? "gate" : "hall", texts[k]);
        const mr_paint_work work = mr_sketch_work(&s->sketch, &s->frame, s->memory);
        assert_int_equal(mr_paint(&work), MR_OK);
        if (!i)
            memcpy(seen, s->pixel, sizeof seen);
    }
    assert_true(count_drawn(s) > 0);
    assert_memory_equal(seen, s->pixel, sizeof seen);
}

/* Without reports of crossings nobody knows how many there were. */
SCENE_TEST(lines_have_counts_if_crossings_are_reported) {
    watched w;
    watch(&w, s);
    check_zones(s, &w, (const char *const[]){"hall 0", "gate in 3 out 0", "hall 0", "gate in 4 out 0"});
    w.zones[0].crossings = false;
    w.results[0].count = 0;
    check_zones(s, &w, (const char *const[]){"hall 0", "gate", "hall 0", "gate in 4 out 0"});
}

/* The newest result has the areas of both, if one stage follows the other; after a join the older one has its own. */
SCENE_TEST(stages_with_zones_of_one_name_count_for_themselves) {
    const mr_object_zone zones[] = {{.zone = "hall", .dwell = 1, .stage = "far"},
                                    {.zone = "hall", .dwell = 1, .stage = "near"}};
    mr_object other[1] = {{.index = 1}};
    mr_result joined = {.kind = mr_kind_objects(), .stage = "far", .data = other, .count = 1};
    watched w;
    watch(&w, s);
    s->result.stage = "near";
    s->result.count = 3;
    assert_int_equal(mr_result_add_items(&s->result, zones, 2, sizeof *zones, &s->objects[0].zones), MR_OK);
    assert_int_equal(mr_result_add_items(&s->result, zones, 1, sizeof *zones, &s->objects[1].zones), MR_OK);
    check_zones(s, &w, (const char *const[]){"hall 1", "gate in 3 out 0", "hall 2", "gate in 4 out 0"});
    s->result.next = &joined;
    check_zones(s, &w, (const char *const[]){"hall 1", "gate in 3 out 0", "hall 0", "gate in 4 out 0"});
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

SCENE_TEST(tokens_without_a_value_are_left_out) {
    char text[MR_WORDS];
    const mr_object_zone zones[] = {{.zone = "door", .dwell = 1}, {.zone = "hall", .dwell = 2}};
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

/* Whatever is before the time. */
SCENE_TEST(long_captions_are_cut) {
    char pattern[MR_WORDS + 8], text[MR_WORDS], whole[2 * MR_WORDS];
    s->frame.captured_ns = 1795876062000000000;
    for (int used = MR_WORDS - 24; used < MR_WORDS - 1; used++) {
        memset(pattern, 'x', sizeof pattern);
        strcpy(pattern + used, "{utc}");
        mr_words_of_frame(text, pattern, "lobby", &s->frame, NULL);
        snprintf(whole, sizeof whole, "%.*s2026-11-28 14:27:42Z", used, pattern);
        whole[MR_WORDS - 1] = '\0';
        assert_string_equal(text, whole);
    }
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
