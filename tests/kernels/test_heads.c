/* Detection heads: devices find the same objects as the host's processor, bit for bit. What a head means is compared
 * with NumPy (tests/reference/detect.py). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/detect/box_numbers.h"
#include "kernels/detect/detect.h"
#include "millrace/status.h"
#include "tests/support/on_device.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum { WIDTH = 96, HEIGHT = 64, CELLS = 96 + 24 + 6, CLASSES = 5, MOST = 40, MOST_CASE_OUTPUTS = 4 };

/* A head, and the shapes of its outputs. */
typedef struct head_case {
    mr_box_head_family family;
    const char *name[MOST_CASE_OUTPUTS];
    int64_t dims[MOST_CASE_OUTPUTS][3]; /* a leading 0 ends the shape */
    mr_dtype dtype;                     /* of the last output */
    mr_box_head_custom custom;
    float low, high;                    /* of random numbers */
} head_case;

static const head_case cases[] = {
    {MR_BOX_HEAD_YOLOX, {"o"}, {{CELLS, 5 + CLASSES}}, MR_DTYPE_F32, {0}, -0.5f, 2},
    {MR_BOX_HEAD_YOLOV5, {"o"}, {{3 * CELLS, 5 + CLASSES}}, MR_DTYPE_F32, {0}, 0, 1},
    {MR_BOX_HEAD_YOLOV8, {"o"}, {{4 + CLASSES, CELLS}}, MR_DTYPE_F32, {0}, 0, 1},
    {MR_BOX_HEAD_YOLOV8_POSE, {"o"}, {{4 + CLASSES + 15, CELLS}}, MR_DTYPE_F32, {0}, 0, 1},
    {MR_BOX_HEAD_YOLOV8_SEG, {"o", "p"}, {{4 + CLASSES + 5, CELLS}, {5, HEIGHT / 4, WIDTH / 4}}, MR_DTYPE_F32, {0}, -1,
     1},
    {MR_BOX_HEAD_YOLOV8_OBB, {"o"}, {{4 + CLASSES + 1, CELLS}}, MR_DTYPE_F32, {0}, 0, 1},
    {MR_BOX_HEAD_SSD, {"b", "s"}, {{90, 4}, {90, 1 + CLASSES}}, MR_DTYPE_F32, {0}, 0, 1},
    {MR_BOX_HEAD_RTDETR, {"s", "b"}, {{90, CLASSES}, {90, 4}}, MR_DTYPE_F32, {0}, -3, 3},
    {MR_BOX_HEAD_RTDETR, {"o"}, {{90, 4 + CLASSES}}, MR_DTYPE_F32, {0}, 0, 1},
    {MR_BOX_HEAD_END2END, {"o"}, {{90, 6}}, MR_DTYPE_F32, {0}, 0, 2},
    {MR_BOX_HEAD_END2END, {"o"}, {{90, 7}}, MR_DTYPE_F32, {0}, 0, 2},
    {MR_BOX_HEAD_END2END, {"o"}, {{90, 6 + 15}}, MR_DTYPE_F32, {0}, 0, 2},
    {MR_BOX_HEAD_END2END, {"o", "p"}, {{90, 6 + 5}, {5, HEIGHT / 4, WIDTH / 4}}, MR_DTYPE_F32, {0}, -1, 2},
    {MR_BOX_HEAD_CENTERFACE, {"a", "b", "c", "d"},
     {{1, HEIGHT / 4, WIDTH / 4}, {2, HEIGHT / 4, WIDTH / 4}, {2, HEIGHT / 4, WIDTH / 4}, {10, HEIGHT / 4, WIDTH / 4}},
     MR_DTYPE_F32, {0}, 0, 1},
    {MR_BOX_HEAD_CUSTOM, {"b", "s", "n"}, {{4, 90}, {90}, {90}}, MR_DTYPE_I64,
     {.boxes = "b", .scores = "s", .classes = "n", .order = MR_BOX_TLBR, .suppress = true}, 0, 1},
    {MR_BOX_HEAD_CUSTOM, {"b", "s"}, {{90, 4}, {CLASSES, 90}}, MR_DTYPE_F32,
     {.boxes = "b", .scores = "s", .order = MR_BOX_LTWH, .logits = true, .normalized = true, .suppress = true}, -1, 1}};

static size_t numbers_of(const mr_format *format) {
    size_t count = 1;
    for (int32_t i = 0; i < format->rank; i++)
        count *= (size_t)format->dims[i];
    return count;
}

static bool all_nan; /* the numbers of floating outputs */

static float random_number(const head_case *c) {
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0.5f, 0.5f, -0.0f, 1e30f, -100};
    if (all_nan)
        return NAN;
    if (between(0, 60) == 0)
        return odd[between(0, 7)];
    return c->low + (c->high - c->low) * (float)between(0, 4096) / 4096;
}

/* Boxes are made larger so that they overlap: numbers below the columns of scores are pixels. */
static void *fill(const head_case *c, const mr_format *format, bool boxes) {
    const size_t count = numbers_of(format);
    if (format->dtype == MR_DTYPE_I64) {
        int64_t *to = malloc(count * sizeof *to);
        for (size_t i = 0; i < count; i++)
            to[i] = between(0, 9) ? between(0, CLASSES - 1) : between(-2, 9000);
        return to;
    }
    float *to = malloc(count * sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[i] = random_number(c) * (boxes && between(0, 1) ? 40 : 1);
    return to;
}

typedef struct outputs {
    mr_box_head_output output[MOST_CASE_OUTPUTS];
    void *data[MOST_CASE_OUTPUTS];
    size_t bytes[MOST_CASE_OUTPUTS], count;
} outputs;

static outputs make_outputs(const head_case *c) {
    outputs made = {0};
    for (size_t i = 0; i < MOST_CASE_OUTPUTS && c->name[i]; i++) {
        const bool last = i + 1 == MOST_CASE_OUTPUTS || !c->name[i + 1];
        int32_t rank = 0;
        while (rank < 3 && c->dims[i][rank])
            rank++;
        const mr_dtype dtype = last ? c->dtype : MR_DTYPE_F32;
        made.output[i] = (mr_box_head_output){c->name[i], mr_tensor_format(dtype, MR_LAYOUT_FLAT, rank, c->dims[i])};
        made.bytes[i] = (size_t)mr_tensor_bytes(&made.output[i].format);
        made.data[i] = fill(c, &made.output[i].format, c->dims[i][0] == 4 || c->dims[i][1] == 4);
        made.count++;
    }
    return made;
}

static void expect_same(const mr_box_head *head, const mr_found *want, const mr_found *got) {
    assert_int_equal(got->count, want->count);
    assert_int_equal(got->cut, want->cut);
    assert_int_equal(got->odd, want->odd);
    assert_true(!all_nan || (want->odd == 1 && want->count == 0));
    assert_memory_equal(got->item, want->item, (size_t)want->count * sizeof *want->item);
    for (int32_t i = 0; i < want->count && head->numbers; i++) {
        const float *a = mr_found_numbers(want, head, MOST, i), *b = mr_found_numbers(got, head, MOST, i);
        const mr_box_mask *mask = (const mr_box_mask *)(const void *)a;
        const size_t words = head->kind == MR_BOX_MASK ? 2 + (size_t)(mask->width * mask->height + 31) / 32
                                                       : (size_t)head->numbers;
        assert_memory_equal(a, b, words * sizeof *a);
    }
}

/* Returns how many objects were found. */
static int32_t check(on_device *d, const head_case *c, float score, float overlap, int32_t most, const bool *wanted,
                     bool agnostic) {
    outputs all = make_outputs(c);
    mr_box_head head;
    const mr_box_head_params params = {.family = c->family, .custom = &c->custom, .width = WIDTH, .height = HEIGHT,
                                       .points = 5};
    if (mr_box_head_make(&head, &params, all.output, all.count))
        fail_msg("%s", mr_message());
    head.agnostic = agnostic;
    const size_t bytes = mr_found_bytes(&head, MOST);
    mr_found *want = calloc(1, bytes), *got = calloc(1, bytes), *there = on_device_put(d, got, bytes);
    mr_detect_work work = {.head = &head, .wanted = wanted, .score = score, .overlap = overlap, .most = most,
                           .found = want};
    memcpy(work.data, all.data, sizeof all.data);
    assert_int_equal(mr_detect(&work), MR_OK);
    for (size_t i = 0; i < all.count; i++)
        work.data[i] = on_device_put(d, all.data[i], all.bytes[i]);
    work.found = there;
    assert_int_equal(mr_detect_enqueue(d->stream, &work), MR_OK);
    on_device_finish(d);
    on_device_take(d, there, got, bytes);
    expect_same(&head, want, got);
    for (size_t i = 0; i < all.count; i++) {
        on_device_free(d, (void *)(uintptr_t)work.data[i]);
        free(all.data[i]);
    }
    const int32_t found = want->count;
    free(want);
    free(got);
    return found;
}

DEVICE_TEST(heads_find_the_same) {
    static bool wanted[MR_BOX_HEAD_MOST_CLASSES];
    wanted[1] = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_in_range(check(d, &cases[i], 0.6f, 0.5f, MOST, NULL, false), 3, MOST);
        assert_int_equal(check(d, &cases[i], 0.3f, 0.2f, 3, NULL, false), 3);
        check(d, &cases[i], 0.3f, 0.4f, MOST, wanted, false);
        assert_in_range(check(d, &cases[i], 0.6f, 0.5f, MOST, NULL, true), 2, MOST);
    }
}

/* A network that overflows says nothing: that is no frame without objects. */
DEVICE_TEST(heads_report_numbers_that_are_none) {
    all_nan = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(check(d, &cases[i], 0.6f, 0.5f, MOST, NULL, false), 0);
    all_nan = false;
}

/* Of very many candidates the best are selected before they are sorted. */
DEVICE_TEST(the_best_of_many_are_selected) {
    enum { ROWS = 3 * MR_DETECT_CANDIDATES };
    static const head_case many = {MR_BOX_HEAD_CUSTOM, {"b", "s"}, {{ROWS, 4}, {ROWS, 2}}, MR_DTYPE_F32,
                                   {.boxes = "b", .scores = "s"}, 0, 60};
    assert_int_equal(check(d, &many, -100, 0.5f, MOST, NULL, false), MOST);
}

/* The best ones are compared, here those outside the input: so time has a bound. */
PLAIN_TEST(more_candidates_than_are_compared) {
    enum { ROWS = MR_DETECT_CANDIDATES + 100 };
    static float boxes[ROWS][4], scores[ROWS];
    const mr_box_head_custom custom = {.boxes = "b", .scores = "s", .suppress = true};
    const mr_box_head_output output[] = {
        {"b", mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 2, (int64_t[]){ROWS, 4})},
        {"s", mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, (int64_t[]){ROWS})}};
    const mr_box_head_params params = {.family = MR_BOX_HEAD_CUSTOM, .custom = &custom, .width = WIDTH,
                                       .height = HEIGHT};
    mr_box_head head;
    for (int outside = MR_DETECT_CANDIDATES; outside >= MR_DETECT_CANDIDATES - 3; outside -= 3) {
        for (int i = 0; i < ROWS; i++) {
            const float left = (float)(i < outside ? WIDTH + i : i % 80);
            memcpy(boxes[i], (float[]){left, 0, left + 1, 1}, sizeof boxes[i]);
            scores[i] = 1 - (float)i / (2 * ROWS);
        }
        assert_int_equal(mr_box_head_make(&head, &params, output, 2), MR_OK);
        FREED mr_found *found = calloc(1, mr_found_bytes(&head, MOST));
        const mr_detect_work work = {.head = &head, .data = {boxes, scores}, .score = 0.25f, .overlap = 0.5f,
                                     .most = MOST, .found = found};
        assert_int_equal(mr_detect(&work), MR_OK);
        assert_int_equal(found->count, MR_DETECT_CANDIDATES - outside);
    }
}

/* Which way a matrix lies does not depend on how many boxes a frame has: as many as classes, or as numbers of a box. */
PLAIN_TEST(matrices_with_as_many_rows_as_columns) {
    enum { PLANNED = 100, OWN = 3 };
    const mr_box_head_custom custom = {.boxes = "b", .scores = "s"};
    mr_box_head_params params = {.family = MR_BOX_HEAD_CUSTOM, .custom = &custom, .width = WIDTH, .height = HEIGHT};
    for (int turned = 0; turned < 4; turned++) {
        const bool boxes = turned & 1, scores = turned & 2;
        mr_box_head planned = {0}, head;
        for (int64_t rows = PLANNED; rows > 0; rows = rows > 8 ? 8 : rows - 1) {
            const mr_box_head_output output[] = {
                {"b", mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 2,
                                       (int64_t[]){boxes ? 4 : rows, boxes ? rows : 4})},
                {"s", mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 2,
                                       (int64_t[]){scores ? OWN : rows, scores ? rows : OWN})}};
            params.like = rows == PLANNED ? NULL : &planned;
            assert_int_equal(mr_box_head_make(rows == PLANNED ? &planned : &head, &params, output, 2), MR_OK);
            const mr_box_head *made = rows == PLANNED ? &planned : &head;
            assert_int_equal(made->rows, rows);
            assert_int_equal(made->classes, OWN);
            assert_int_equal(made->boxes.row, boxes ? 1 : 4);
            assert_int_equal(made->boxes.column, boxes ? rows : 1);
            assert_int_equal(made->scores.row, scores ? 1 : OWN);
            assert_int_equal(made->scores.column, scores ? rows : 1);
        }
    }
    const mr_box_head_output lying[] = {
        {"b", mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 2, (int64_t[]){4, 7})},
        {"s", mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, (int64_t[]){7})}};
    const mr_box_head upright = {0};
    mr_box_head head;
    params.like = &upright;
    assert_int_equal(mr_box_head_make(&head, &params, lying, 2), MR_ERROR_CONFIG);
}

RUN_TESTS(NULL, NULL)
