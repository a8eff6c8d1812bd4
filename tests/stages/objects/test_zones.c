/* Events of tracks that cross, stand on, begin on and flicker around lines and areas, at several frame rates. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "millrace/frame.h"
#include "millrace/status.h"
#include "stages/objects/zones/watch.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum { MOST_EVENTS = 200, HEIGHT = 100 };
static const int64_t MS = 1000000;

/* An area from (100, 100) to (300, 300), and a line from (0, 200) to (400, 200): who moves down goes in. */
static const double corners[][2] = {{100, 100}, {300, 100}, {300, 300}, {100, 300}}, ends[][2] = {{0, 200}, {400, 200}};
static const mr_points area = {4, corners}, line = {2, ends};
static const char *const area_name = "room", *const line_name = "gate";

typedef struct scene {
    mr_watch *watch;
    mr_zone_event events[MOST_EVENTS];
    size_t count;
    int64_t now_ns, frame_ns;
} scene;

static const mr_watch_params usual = {.hold_ns = 300000000, .lost_ns = 2000000000, .margin = 0.05, .most = 4};

static scene begin(mr_watch_params params, bool with_area, bool with_line, int fps) {
    scene s = {.frame_ns = 1000 * MS / fps};
    params.area_names = &area_name;
    params.line_names = &line_name;
    params.areas = with_area;
    params.lines = with_line;
    assert_int_equal(mr_watch_create(&s.watch, &params), MR_OK);
    mr_watch_set_shapes(s.watch, &area, &line, NULL);
    return s;
}

static void end(scene *s) {
    mr_watch_destroy(&s->watch);
}

static void take(scene *s) {
    const mr_zone_event *events;
    size_t count;
    assert_int_equal(mr_watch_finish(s->watch, &events, &count), MR_OK);
    for (size_t i = 0; i < count; i++) {
        assert_true(s->count < MOST_EVENTS);
        s->events[s->count++] = events[i];
    }
}

static mr_watched object(int64_t track, double x, double y) {
    return (mr_watched){.track = track, .index = 3, .label = "person", .at = {x, y}, .height = HEIGHT};
}

/* One frame with one track; 0: without. */
static void frame(scene *s, int64_t track, double x, double y) {
    const mr_watched one = object(track, x, y);
    mr_watch_begin(s->watch, s->now_ns);
    if (track)
        assert_int_equal(mr_watch_see(s->watch, &one), MR_OK);
    take(s);
    s->now_ns += s->frame_ns;
}

/* Moves it to (x, y) in that time, and stands there for one frame at least. */
static void go(scene *s, int64_t track, double from[2], double x, double y, int64_t ms) {
    const int frames = (int)(ms * MS / s->frame_ns);
    for (int i = 1; i <= frames; i++)
        frame(s, track, from[0] + (x - from[0]) * i / frames, from[1] + (y - from[1]) * i / frames);
    from[0] = x;
    from[1] = y;
}

static size_t count_of(const scene *s, const char *name, const char *direction) {
    size_t found = 0;
    for (size_t i = 0; i < s->count; i++)
        found += strcmp(s->events[i].event, name) == 0 &&
                 (!direction || (s->events[i].direction && strcmp(s->events[i].direction, direction) == 0));
    return found;
}

static const mr_zone_event *nth(const scene *s, const char *name, size_t n) {
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->events[i].event, name) == 0 && n-- == 0)
            return &s->events[i];
    return NULL;
}

static void near_ms(int64_t time_ns, int64_t ms, const scene *s) {
    if (llabs(time_ns - ms * MS) > s->frame_ns)
        print_error("%f s, expected %f\n", (double)time_ns / 1e9, (double)ms / 1e3);
    assert_true(llabs(time_ns - ms * MS) <= s->frame_ns);
}

static const int rates[] = {5, 10, 25, 30};
#define EACH_RATE(fps) size_t rate_ = 0; rate_ < 4; rate_++) for (int fps = rates[rate_], once_ = 1; once_; once_ = 0

/* ---- lines ------------------------------------------------------------------------------------------------------- */

TEST(crossings_have_a_direction_and_a_time) {
    for (EACH_RATE(fps)) {
        ENDED_BY(end) scene s = begin(usual, false, true, fps);
        double at[2] = {50, 100};
        frame(&s, 7, 50, 100);
        go(&s, 7, at, 50, 300, 2000);
        go(&s, 7, at, 50, 100, 2000);
        go(&s, 7, at, 50, 100, 400);
        assert_int_equal(s.count, 2);
        assert_string_equal(s.events[0].direction, "in");
        assert_string_equal(s.events[1].direction, "out");
        near_ms(s.events[0].time_ns, 1000, &s);
        near_ms(s.events[1].time_ns, 3000, &s);
        assert_string_equal(s.events[0].zone, "gate");
        assert_true(s.events[1].track == 7 && s.events[1].index == 3 && s.events[1].count == 1 &&
                    s.events[1].total == 2 && s.events[1].dwell_ns == MR_NO_TIME);
        assert_string_equal(s.events[1].label, "person");
    }
}

/* The line ends at x = 400. */
TEST(who_walks_around_the_end_does_not_cross) {
    ENDED_BY(end) scene s = begin(usual, false, true, 25);
    double at[2] = {450, 100};
    go(&s, 1, at, 450, 300, 2000);
    go(&s, 1, at, 350, 300, 2000);
    assert_int_equal(s.count, 0);
    go(&s, 1, at, 350, 100, 2000);
    assert_int_equal(count_of(&s, "cross", "out"), 1);
}

/* Random places within 4% of the height from the line, for 20 s. */
static void tremble(scene *s, int64_t track, double y, int frames) {
    for (int i = 0; i < frames; i++)
        frame(s, track, 200 + between(-40, 40) / 10.0, y + between(-40, 40) / 10.0);
}

TEST(who_stands_on_a_line_crosses_nothing) {
    for (EACH_RATE(fps)) {
        ENDED_BY(end) scene s = begin(usual, false, true, fps);
        double at[2] = {200, 100};
        go(&s, 1, at, 200, 200, 1000);
        tremble(&s, 1, 200, 20 * fps);
        at[1] = 200;
        go(&s, 1, at, 200, 100, 2000);
        assert_int_equal(s.count, 0);
    }
}

TEST(who_comes_stands_and_goes_crosses_once) {
    for (EACH_RATE(fps)) {
        ENDED_BY(end) scene s = begin(usual, false, true, fps);
        double at[2] = {200, 100};
        go(&s, 1, at, 200, 200, 1000);
        tremble(&s, 1, 200, 20 * fps);
        go(&s, 1, at, 200, 300, 2000);
        assert_int_equal(s.count, 1);
        assert_string_equal(s.events[0].direction, "in");
        assert_true(s.events[0].time_ns > 900 * MS && s.events[0].time_ns <= (21000 + 2 * 1000 / fps) * MS);
    }
}

TEST(who_begins_on_a_line_crosses_nothing) {
    for (EACH_RATE(fps)) {
        ENDED_BY(end) scene s = begin(usual, false, true, fps);
        double at[2] = {200, 200};
        tremble(&s, 1, 200, 5 * fps);
        go(&s, 1, at, 200, 300, 2000);
        assert_int_equal(s.count, 0);
        go(&s, 1, at, 200, 100, 2000);
        go(&s, 1, at, 200, 100, 600);
        assert_int_equal(count_of(&s, "cross", "out"), 1);
    }
}

/* Boxes jump across the line for 200 ms, again and again. */
TEST(a_flicker_is_no_crossing) {
    ENDED_BY(end) scene s = begin(usual, true, true, 10);
    for (int i = 0; i < 100; i++)
        frame(&s, 1, 50, i % 5 == 3 || i % 5 == 4 ? 260 : 120);
    assert_int_equal(s.count, 0);
    mr_watch_destroy(&s.watch);
    mr_watch_params at_once = usual;
    at_once.hold_ns = 0;
    s = begin(at_once, false, true, 10);
    for (int i = 0; i < 10; i++)
        frame(&s, 1, 50, i % 5 == 3 || i % 5 == 4 ? 260 : 120);
    assert_int_equal(count_of(&s, "cross", "in"), 2);
    assert_int_equal(count_of(&s, "cross", "out"), 1);
}

/* Lost before `hold` has passed: it cannot have been a flicker, since it did not come back. */
TEST(who_crosses_and_disappears_has_crossed) {
    ENDED_BY(end) scene s = begin(usual, false, true, 10);
    frame(&s, 1, 50, 120);
    frame(&s, 1, 50, 180);
    frame(&s, 1, 50, 220);
    for (int i = 0; i < 30; i++)
        frame(&s, 0, 0, 0);
    assert_int_equal(s.count, 1);
    assert_true(s.events[0].time_ns == 200 * MS && strcmp(s.events[0].direction, "in") == 0);
    assert_int_equal(mr_watch_count(s.watch), 0);
    mr_watch_destroy(&s.watch);
    s = begin(usual, false, true, 10);
    frame(&s, 1, 50, 180);
    frame(&s, 1, 50, 204); /* not clear of it */
    for (int i = 0; i < 30; i++)
        frame(&s, 0, 0, 0);
    assert_int_equal(s.count, 0);
}

TEST(who_is_hidden_while_crossing_crosses) {
    ENDED_BY(end) scene s = begin(usual, false, true, 10);
    frame(&s, 1, 50, 100);
    for (int i = 0; i < 9; i++)
        frame(&s, 0, 0, 0);
    for (int i = 0; i < 5; i++)
        frame(&s, 1, 50, 300);
    assert_int_equal(s.count, 1);
    assert_true(s.events[0].time_ns == 1000 * MS);
}

/* ---- areas ------------------------------------------------------------------------------------------------------- */

TEST(stays_have_a_dwell) {
    for (EACH_RATE(fps)) {
        double at[2] = {50, 200};
        mr_watch_params params = usual;
        params.dwell_ns = 1500 * MS;
        ENDED_BY(end) scene s = begin(params, true, false, fps);
        frame(&s, 9, 50, 200);
        go(&s, 9, at, 150, 200, 2000); /* inside after 1 s */
        go(&s, 9, at, 150, 200, 2000);
        go(&s, 9, at, 50, 200, 2000);  /* outside after 5 s */
        go(&s, 9, at, 50, 200, 400);
        assert_int_equal(count_of(&s, "enter", NULL), 1);
        assert_int_equal(count_of(&s, "dwell", NULL), 1);
        assert_int_equal(count_of(&s, "leave", NULL), 1);
        assert_int_equal(count_of(&s, "count", NULL), 2);
        near_ms(nth(&s, "enter", 0)->time_ns, 1000, &s);
        near_ms(nth(&s, "dwell", 0)->time_ns, 2500, &s);
        near_ms(nth(&s, "leave", 0)->time_ns, 5000, &s);
        near_ms(nth(&s, "leave", 0)->dwell_ns, 4000, &s);
        assert_true(nth(&s, "enter", 0)->count == 1 && nth(&s, "leave", 0)->count == 0);
        assert_true(nth(&s, "count", 0)->count == 1 && nth(&s, "count", 1)->count == 0 && !nth(&s, "leave", 0)->gone);
    }
}

/* Who is hidden when the time is over is reported when seen again, and not at all if that is not within `lost`. */
TEST(a_dwell_is_reported_when_the_track_is_seen) {
    for (int hidden = 10; hidden <= 30; hidden += 20) {
        mr_watch_params params = usual;
        params.dwell_ns = 1500 * MS;
        ENDED_BY(end) scene s = begin(params, true, false, 10);
        for (int i = 0; i < 40; i++)
            frame(&s, i < 10 || i >= 10 + hidden ? 1 : 0, 200, 200);
        assert_int_equal(count_of(&s, "dwell", NULL), hidden == 10);
        if (hidden != 10)
            continue;
        assert_true(nth(&s, "dwell", 0)->time_ns == 2000 * MS);
        assert_true(nth(&s, "dwell", 0)->dwell_ns == 2000 * MS);
    }
}

TEST(who_begins_inside_has_entered_then) {
    ENDED_BY(end) scene s = begin(usual, true, false, 10);
    int64_t dwell;
    float speed, distance;
    for (int i = 0; i < 11; i++) {
        frame(&s, 1, 200, 200);
        mr_watch_describe(s.watch, 1, &dwell, &speed, &distance);
        assert_true(dwell == (i < 3 ? -1 : i * 100 * MS));
    }
    assert_true(nth(&s, "enter", 0)->time_ns == 0);
    mr_watch_describe(s.watch, 2, &dwell, &speed, &distance);
    assert_true(dwell == -1);
}

TEST(who_stands_on_an_edge_enters_at_most_once) {
    for (EACH_RATE(fps)) {
        ENDED_BY(end) scene s = begin(usual, true, false, fps);
        frame(&s, 1, 200, 50);
        tremble(&s, 1, 100, 20 * fps);
        assert_true(count_of(&s, "enter", NULL) <= 1);
        assert_int_equal(count_of(&s, "leave", NULL), 0);
    }
}

TEST(who_is_lost_leaves_when_last_seen) {
    ENDED_BY(end) scene s = begin(usual, true, false, 10);
    for (int i = 0; i < 10; i++)
        frame(&s, 1, 200, 200);
    for (int i = 0; i < 19; i++)
        frame(&s, 0, 0, 0);
    assert_int_equal(count_of(&s, "leave", NULL), 0);
    for (int i = 0; i < 5; i++)
        frame(&s, 0, 0, 0);
    assert_int_equal(count_of(&s, "leave", NULL), 1);
    assert_true(nth(&s, "leave", 0)->gone && nth(&s, "leave", 0)->time_ns == 900 * MS &&
                nth(&s, "leave", 0)->dwell_ns == 900 * MS);
}

TEST(an_epoch_ends_what_is_open) {
    ENDED_BY(end) scene s = begin(usual, true, true, 10);
    for (int i = 0; i < 10; i++)
        frame(&s, 1, 200, 150);
    s.count = 0;
    assert_int_equal(mr_watch_end_epoch(s.watch), MR_OK);
    s.now_ns = 0;
    frame(&s, 1000000001, 200, 250);
    assert_int_equal(s.count, 2);
    assert_true(strcmp(s.events[0].event, "leave") == 0 && s.events[0].gone && s.events[0].track == 1 &&
                s.events[0].time_ns == 900 * MS);
    assert_true(strcmp(s.events[1].event, "count") == 0 && s.events[1].count == 0 && s.events[1].total == 1);
}

TEST(a_crowd_is_reported_once) {
    mr_watch_params params = usual;
    params.crowd = 3;
    ENDED_BY(end) scene s = begin(params, true, false, 10);
    for (int i = 0; i < 40; i++) {
        mr_watch_begin(s.watch, i * 100 * MS);
        for (int k = 0; k < 4; k++) {
            /* the third comes after 1 s, the fourth after 2 s; the third goes at 3 s */
            const bool inside = k < 2 || (k == 2 && i >= 10 && i < 30) || (k == 3 && i >= 20);
            const mr_watched one = object(k + 1, inside ? 200 : 0, 200);
            assert_int_equal(mr_watch_see(s.watch, &one), MR_OK);
        }
        take(&s);
    }
    assert_int_equal(count_of(&s, "crowd", NULL), 1);
    assert_true(nth(&s, "crowd", 0)->count == 3 && nth(&s, "crowd", 0)->track == 0 &&
                nth(&s, "crowd", 0)->time_ns == 1300 * MS);
    assert_int_equal(count_of(&s, "count", NULL), 4);
}

/* More tracks than `most`: the oldest leaves. */
TEST(memory_is_bounded) {
    ENDED_BY(end) scene s = begin(usual, true, true, 10);
    for (int i = 0; i < 50; i++) {
        frame(&s, i / 5 + 1, 200, 150);
        assert_true(mr_watch_count(s.watch) <= usual.most);
    }
    assert_int_equal(count_of(&s, "enter", NULL), 10);
    assert_int_equal(count_of(&s, "leave", NULL), 6);
}

/* ---- ground ------------------------------------------------------------------------------------------------------ */

/* 20 pixels a metre: 60 px a second are 3 m/s. Trembling by 2 px moves nobody. */
TEST(speed_and_distance) {
    static const double pixels[4][2] = {{0, 0}, {200, 0}, {200, 100}, {0, 100}};
    static const double metres[4][2] = {{0, 0}, {10, 0}, {10, 5}, {0, 5}};
    mr_plane_map map;
    assert_true(mr_plane_map_make(&map, pixels, metres));
    for (EACH_RATE(fps)) {
        ENDED_BY(end) scene s = begin(usual, true, false, fps);
        int64_t dwell;
        float speed, distance;
        mr_watch_set_shapes(s.watch, &area, &line, &map);
        for (int i = 0; i <= 4 * fps; i++) {
            frame(&s, 1, 50 + 60.0 * i / fps, 200);
            mr_watch_describe(s.watch, 1, &dwell, &speed, &distance);
            assert_float_equal(speed, i ? 3 : 0, 1e-4);
        }
        assert_float_equal(distance, 12, 0.31); /* the last piece is open */
        const float before = distance;
        for (int i = 0; i < 10 * fps; i++)
            frame(&s, 1, 290 + between(-2, 2), 200 + between(-2, 2));
        mr_watch_describe(s.watch, 1, &dwell, &speed, &distance);
        assert_float_equal(distance, before, 0.31);
        assert_true(nth(&s, "enter", 0)->speed > 2.99f);
    }
}

RUN_TESTS(NULL, NULL)
