/* Tracks for objects that move, cross, hide and flicker, at several frame rates. Assignments are compared with all
 * permutations. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "kernels/metrics/assignment.h"
#include "stages/objects/tracker.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

/* ---- assignment -------------------------------------------------------------------------------------------------- */

enum { MOST = 6 };

/* Returns the least total cost for rows from `row` on, by trying all assignments. */
static double try_all(const double *cost, int rows, int columns, double limit, int row, unsigned used) {
    if (row == rows)
        return 0;
    double least = limit + try_all(cost, rows, columns, limit, row + 1, used);
    for (int j = 0; j < columns; j++)
        if (!(used >> j & 1) && cost[row * columns + j] < limit)
            least = fmin(least, cost[row * columns + j] + try_all(cost, rows, columns, limit, row + 1, used | 1u << j));
    return least;
}

TEST(assignment_costs_least) {
    for (int round = 0; round < 3000; round++) {
        const int rows = between(0, MOST), columns = between(0, MOST);
        const double limit = between(1, 20) / 20.0;
        double cost[MOST * MOST], total = 0;
        int column[MOST];
        for (int i = 0; i < rows * columns; i++)
            cost[i] = draw() % 5 == 0 ? INFINITY : between(0, 20) / 20.0;
        void *workspace = malloc(mr_assignment_bytes((size_t)rows, (size_t)columns));
        mr_assign(cost, (size_t)rows, (size_t)columns, limit, column, workspace);
        free(workspace);
        for (int i = 0; i < rows; i++) {
            total += column[i] < 0 ? limit : cost[i * columns + column[i]];
            for (int k = 0; k < i; k++)
                assert_true(column[i] < 0 || column[i] != column[k]);
        }
        assert_float_equal(total, try_all(cost, rows, columns, limit, 0, 0), 1e-9);
    }
}

/* ---- tracks ------------------------------------------------------------------------------------------------------ */

static const int64_t SECOND = 1000000000;

static mr_tracker *make(int64_t confirm_ns, int64_t lost_ns) {
    const mr_tracker_params params = {.low = 0.1f, .high = 0.5f, .begin = 0.6f, .confirm_ns = confirm_ns,
                                      .lost_ns = lost_ns, .by_class = true, .most = 50, .first_id = 1};
    mr_tracker *tracker;
    assert_int_equal(mr_tracker_create(&tracker, &params), MR_OK);
    return tracker;
}

TEST(the_first_frames_may_have_no_objects) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(0, SECOND);
    for (int i = 0; i < 3; i++)
        assert_int_equal(mr_tracker_update(tracker, i * SECOND / 10, NULL, 0, NULL), MR_OK);
    assert_int_equal(mr_tracker_count(tracker), 0);
}

static mr_object box(double x, double y, double width, double height, float score) {
    return (mr_object){.left = (float)(x - width / 2), .top = (float)(y - height / 2), .right = (float)(x + width / 2),
                       .bottom = (float)(y + height / 2), .score = score};
}

static void update(mr_tracker *tracker, int64_t now_ns, mr_object *objects, size_t count) {
    assert_int_equal(mr_tracker_update(tracker, now_ns, objects, count, NULL), MR_OK);
}

/* Two persons pass each other at 80 px a second, one above the other, with a pixel of jitter. Each must keep the number
 * that it gets after `confirm`, at any rate. */
TEST(frame_rates_behave_alike) {
    static const int rates[] = {5, 10, 25, 30, 60, 120};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(SECOND / 5, 2 * SECOND);
        int64_t first[2] = {0};
        for (int frame = 0; frame < 8 * rates[r]; frame++) {
            const double t = (double)frame / rates[r];
            mr_object objects[2] = {box(100 + 80 * t + between(-1, 1), 100, 40, 90, 0.9f),
                                    box(740 - 80 * t + between(-1, 1), 130, 40, 90, 0.8f)};
            update(tracker, (int64_t)(t * 1e9), objects, 2);
            for (int i = 0; i < 2; i++) {
                const bool confirmed = (int64_t)(t * 1e9) >= SECOND / 5;
                assert_int_equal(objects[i].track != 0, confirmed);
                first[i] = first[i] ? first[i] : objects[i].track;
                assert_int_equal(objects[i].track, first[i]);
            }
        }
        assert_int_equal(first[0] + first[1], 1 + 2);
    }
}

/* Hidden by a pillar for a second, then for too long. */
TEST(lost_objects_are_found_again_for_a_while) {
    static const struct {
        double hidden;
        bool same;
    } cases[] = {{0.5, true}, {1.0, true}, {1.9, true}, {2.2, false}, {5.0, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(0, 2 * SECOND);
        int64_t before = 0, after = 0;
        for (int frame = 0; frame < 20 * 10; frame++) {
            const double t = frame / 20.0;
            mr_object object = box(100 + 30 * t, 100, 60, 120, 0.9f);
            const bool hidden = t >= 2 && t < 2 + cases[c].hidden;
            update(tracker, (int64_t)(t * 1e9), &object, !hidden);
            *(t < 2 ? &before : &after) = hidden ? after : object.track;
        }
        assert_int_equal(before, 1);
        assert_int_equal(after, cases[c].same ? 1 : 2);
    }
}

/* An object detected in every other frame must never get a number, next to one that is always detected. */
TEST(flicker_is_not_confirmed) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(SECOND / 5, SECOND);
    for (int frame = 0; frame < 100; frame++) {
        mr_object objects[2] = {box(50, 40, 30, 30, 0.9f), box(400, 300, 30, 30, 0.9f)};
        update(tracker, frame * SECOND / 25, objects, frame % 2 ? 1 : 2);
        assert_int_equal(objects[0].track, frame >= 5);
        assert_int_equal(objects[1].track, 0);
    }
}

/* One that is found twice in three frames gets one, and keeps it. */
TEST(objects_that_are_missed_now_and_then_are_confirmed) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(SECOND / 5, SECOND);
    for (int frame = 0; frame < 100; frame++) {
        mr_object object = box(50 + frame, 40, 30, 30, 0.9f);
        update(tracker, frame * SECOND / 25, &object, frame % 3 != 2);
        if (frame % 3 != 2)
            assert_int_equal(object.track, frame >= 6);
    }
}

/* At low rates an object moves by nearly its width from frame to frame, and so do those of which few frames are
 * searched. At 30 frames a second boxes that do not overlap are different objects. */
TEST(fast_objects_are_followed_at_low_rates) {
    static const struct {
        int rate, every;
        bool followed;
    } cases[] = {{5, 1, true}, {30, 6, true}, {30, 1, false}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(SECOND / 5, SECOND);
        int64_t last = 0;
        for (int frame = 0; frame < 10 * cases[c].every; frame++) {
            const int64_t now = frame * SECOND / cases[c].rate;
            mr_object object = box(100 + 26 * (frame / cases[c].every), 100, 30, 60, 0.9f), predicted[4];
            if (frame % cases[c].every) {
                mr_tracker_predict(tracker, now, predicted, 4);
                continue;
            }
            update(tracker, now, &object, 1);
            last = object.track;
        }
        assert_int_equal(last, cases[c].followed);
    }
}

/* A weak detection can continue a track but must not start one. Below `low` it has no effect. */
TEST(scores) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(0, SECOND);
    static const struct {
        float score;
        int64_t track;
    } frames[] = {{0.55f, 0}, {0.2f, 0}, {0.6f, 1}, {0.2f, 1}, {0.11f, 1}, {0.05f, 0}, {0.2f, 0}, {0.55f, 1},
                  {0.9f, 1}};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        mr_object object = box(100, 100, 40, 40, frames[i].score);
        update(tracker, (int64_t)i * SECOND / 25, &object, 1);
        assert_int_equal(object.track, frames[i].track);
    }
}

TEST(classes_are_apart) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(0, SECOND);
    for (int frame = 0; frame < 10; frame++) {
        mr_object objects[2] = {box(100, 100, 40, 80, 0.9f), box(100 + frame, 104, 42, 78, 0.95f)};
        objects[1].index = 1;
        update(tracker, frame * SECOND / 10, objects, 2);
        assert_int_equal(objects[0].track, 1);
        assert_int_equal(objects[1].track, 2);
    }
}

/* In frames without detection, confirmed objects continue their motion. */
TEST(predicted_places) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(SECOND / 5, SECOND);
    mr_object found[4];
    for (int frame = 0; frame < 60; frame++) {
        const double x = 100 + 4 * frame;
        mr_object object = box(x, 80, 40, 60, 0.9f);
        if (frame < 30 || frame % 5 == 0) {
            update(tracker, frame * SECOND / 25, &object, 1);
            continue;
        }
        assert_int_equal(mr_tracker_predict(tracker, frame * SECOND / 25, found, 4), 1);
        assert_int_equal(found[0].track, 1);
        assert_float_equal((found[0].left + found[0].right) / 2, x, 1.5);
        assert_float_equal(found[0].bottom - found[0].top, 60, 1.5);
    }
}

TEST(numbers_never_repeat) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(0, SECOND);
    mr_object object = box(100, 100, 40, 40, 0.9f);
    update(tracker, 0, &object, 1);
    assert_int_equal(object.track, 1);
    mr_tracker_restart(tracker, 1);
    update(tracker, 0, &object, 1);
    assert_int_equal(object.track, 2);
    mr_tracker_restart(tracker, 1000);
    update(tracker, 0, &object, 1);
    assert_int_equal(object.track, 1000);
}

static mr_object any_box(void) {
    return box(between(-50, 800), between(-50, 600), between(0, 60), between(0, 60), (float)between(0, 100) / 100);
}

/* More objects than tracks, boxes without size, long jumps in time. Tracks must stay within their limit, and numbers
 * must be unique. */
TEST(anything_may_come) {
    enum { CROWD = 120 };
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make(SECOND / 10, SECOND);
    mr_object objects[CROWD];
    int64_t now_ns = 0;
    for (int frame = 0; frame < 300; frame++) {
        const size_t count = (size_t)between(0, CROWD);
        for (size_t i = 0; i < count; i++) {
            objects[i] = any_box();
            objects[i].index = between(0, 2);
        }
        now_ns += draw() % 20 ? SECOND / 25 : between(0, 1000) * SECOND;
        update(tracker, now_ns, objects, count);
        assert_true(mr_tracker_count(tracker) <= 50);
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < i; k++)
                assert_true(!objects[i].track || objects[i].track != objects[k].track);
    }
}

/* ---- features ---------------------------------------------------------------------------------------------------- */

enum { NUMBERS = 11 };

static mr_tracker *make_confirming(int64_t confirm_ns, size_t most, int64_t remember_ns) {
    const mr_tracker_params params = {.low = 0.1f, .high = 0.5f, .begin = 0.6f, .confirm_ns = confirm_ns,
                                      .lost_ns = SECOND, .by_class = true, .most = most, .first_id = 1,
                                      .dissimilar = 0.3, .reach = 2, .remember_ns = remember_ns};
    mr_tracker *tracker;
    assert_int_equal(mr_tracker_create(&tracker, &params), MR_OK);
    return tracker;
}

static mr_tracker *make_looking(size_t most, int64_t remember_ns) {
    return make_confirming(0, most, remember_ns);
}

/* Looks of different people have nothing in common. Their length does not matter. */
static void look_like(float vector[NUMBERS], int person, float length) {
    memset(vector, 0, NUMBERS * sizeof *vector);
    vector[person] = length;
}

static int64_t see(mr_tracker *tracker, double seconds, double x, int person) {
    float vector[NUMBERS];
    const float *const of[] = {vector};
    mr_object object = box(x, 100, 40, 90, 0.9f);
    look_like(vector, person, 1 + (float)seconds);
    assert_int_equal(mr_tracker_update(tracker, (int64_t)(seconds * 1e9), &object, 1, &(mr_looks){of, NUMBERS}),
                     MR_OK);
    return object.track;
}

TEST(lost_objects_are_known_again_by_their_looks) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make_looking(50, 10 * SECOND);
    assert_int_equal(see(tracker, 0, 100, 0), 1);
    update(tracker, SECOND / 4, NULL, 0);
    assert_int_equal(see(tracker, 0.5, 100, 1), 2); /* where the first one was */
    assert_int_equal(see(tracker, 4, 300, 0), 1);
    assert_int_equal(see(tracker, 5, 100, 2), 3);
    assert_int_equal(see(tracker, 5.1, 900, 0), 4); /* cannot have come so far */
    assert_int_equal(see(tracker, 16, 100, 1), 5);  /* forgotten */
    assert_int_equal(mr_tracker_count(tracker), 1);
}

/* Each of its pictures shows something else too, so none looks like the lost track; their mean does. The lost track is
 * in the new one's place, and must not go as a double before it has handed on its number. */
TEST(one_that_comes_back_to_its_place_keeps_its_number) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make_confirming(SECOND / 10, 50, 10 * SECOND);
    for (int frame = 0; frame < 4; frame++)
        assert_int_equal(see(tracker, frame / 20.0, 100, 0), frame < 2 ? 0 : 1);
    update(tracker, SECOND / 4, NULL, 0);
    for (int frame = 0; frame < 4; frame++) {
        float vector[NUMBERS] = {1};
        const float *const of[] = {vector};
        mr_object object = box(100, 100, 40, 90, 0.9f);
        vector[1 + frame] = 1.2f;
        assert_int_equal(mr_tracker_update(tracker, SECOND / 2 + frame * SECOND / 20, &object, 1,
                                           &(mr_looks){of, NUMBERS}), MR_OK);
        assert_int_equal(object.track, frame < 2 ? 0 : 1);
    }
    assert_int_equal(mr_tracker_count(tracker), 1);
}

/* One that turns looks otherwise, and is still there. */
TEST(what_changes_its_looks_is_followed) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make_looking(50, 10 * SECOND);
    for (int frame = 0; frame < 20; frame++)
        assert_int_equal(see(tracker, frame / 20.0, 100 + frame, frame / 10), 1);
}

/* Boxes that nearly coincide: looks decide, unless one covers the other by more than half. */
TEST(looks_decide_between_near_boxes) {
    for (int apart = 30; apart >= 10; apart -= 20) {
        ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make_looking(50, 10 * SECOND);
        float vectors[2][NUMBERS];
        const float *of[] = {vectors[0], vectors[1]};
        const mr_looks features = {of, NUMBERS};
        mr_object objects[2] = {box(100, 100, 40, 90, 0.9f), box(100 + apart, 100, 40, 90, 0.8f)};
        look_like(vectors[0], 0, 1);
        look_like(vectors[1], 1, 1);
        assert_int_equal(mr_tracker_update(tracker, 0, objects, 2, &features), MR_OK);
        of[0] = vectors[1];
        of[1] = vectors[0];
        assert_int_equal(mr_tracker_update(tracker, SECOND / 5, objects, 2, &features), MR_OK);
        assert_int_equal(objects[0].track, apart == 30 ? 2 : 1);
        assert_int_equal(objects[1].track, apart == 30 ? 1 : 2);
    }
}

TEST(features_of_another_length) {
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make_looking(50, SECOND);
    const float vector[NUMBERS] = {1};
    const float *const of[] = {vector};
    mr_object object = box(100, 100, 40, 90, 0.9f);
    assert_int_equal(mr_tracker_update(tracker, 0, &object, 1, &(mr_looks){of, NUMBERS}), MR_OK);
    assert_int_equal(mr_tracker_update(tracker, 1, &object, 1, &(mr_looks){of, NUMBERS - 1}), MR_ERROR_DATA);
    assert_string_equal(mr_message(), "the features of objects have 10 numbers, and had 11 before");
    assert_int_equal(mr_tracker_update(tracker, 2, &object, 1, NULL), MR_OK);
    assert_int_equal(object.track, 1);
}

/* Missing, zero, infinite and NaN vectors; more objects than tracks, all of which are remembered. */
TEST(any_features_may_come) {
    enum { CROWD = 60, MOST_TRACKS = 40 };
    ENDED_BY(mr_tracker_destroy) mr_tracker *tracker = make_looking(MOST_TRACKS, 3600 * SECOND);
    static const float odd[] = {NAN, INFINITY, -INFINITY, 0, 1e30f, 1e-30f};
    float vectors[CROWD][NUMBERS];
    const float *of[CROWD];
    mr_object objects[CROWD];
    int64_t now_ns = 0;
    for (int frame = 0; frame < 300; frame++) {
        const size_t count = (size_t)between(0, CROWD);
        for (size_t i = 0; i < count; i++) {
            objects[i] = any_box();
            for (int n = 0; n < NUMBERS; n++)
                vectors[i][n] = draw() % 50 ? (float)between(-9, 9) : odd[draw() % 6];
            of[i] = draw() % 5 ? vectors[i] : NULL;
        }
        if (frame % 40 == 39)
            mr_tracker_restart(tracker, 1);
        now_ns += between(0, 2) * SECOND / 3;
        assert_int_equal(mr_tracker_update(tracker, now_ns, objects, count,
                                           draw() % 9 ? &(mr_looks){of, NUMBERS} : NULL), MR_OK);
        assert_true(mr_tracker_count(tracker) <= MOST_TRACKS);
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < i; k++)
                assert_true(!objects[i].track || objects[i].track != objects[k].track);
    }
    assert_true(mr_tracker_odd_features(tracker) > 0);
}

TEST(objects_without_room_are_counted) {
    mr_object objects[5];
    mr_tracker *tracker = make_confirming(0, 3, SECOND);
    for (int frame = 0; frame < 4; frame++) {
        for (int k = 0; k < 5; k++)
            objects[k] = (mr_object){.left = (float)(100 * k), .top = 10, .right = (float)(100 * k + 50), .bottom = 60,
                                     .score = 0.9F};
        assert_int_equal(mr_tracker_update(tracker, frame * SECOND / 10, objects, 5, NULL), MR_OK);
        assert_int_equal(mr_tracker_count(tracker), 3);
    }
    assert_int_equal(mr_tracker_without_room(tracker), 4 * 2);
    mr_tracker_destroy(&tracker);
}

RUN_TESTS(NULL, NULL)
