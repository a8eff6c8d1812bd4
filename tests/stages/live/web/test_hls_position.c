/* The next segment in a playlist, over versions, connections and encoder restarts. Also times across runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/live/web/hls_position.h"
#include "stages/live/web/hls_times.h"
#include "tests/support/suite.h"

/* Makes a playlist with `count` segments from number `first` on, named NAMEnumber. `more` has further tags. */
static mr_playlist listed(const char *name, int64_t first, int count, const char *more) {
    char *text = mr_alloc(4096);
    mr_playlist list;
    int bytes = snprintf(text, 4096, "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MEDIA-SEQUENCE:%d\n%s", (int)first,
                         more);
    for (int i = 0; i < count; i++)
        bytes += snprintf(text + bytes, 4096 - (size_t)bytes, "#EXTINF:1,\nx/%s%d.ts?token=%d\n", name, (int)first + i,
                          bytes);
    assert_int_equal(mr_playlist_parse(&list, "n", text, (size_t)bytes), MR_OK);
    return list;
}

/* Looks at a playlist once. Returns the number of the segment that is taken, or -1. */
static int64_t look(mr_hls_position *place, mr_playlist list, bool resumes, mr_hls_step wanted) {
    size_t index = 0;
    const mr_hls_step step = mr_hls_position_next(place, &list, resumes, &index);
    int64_t number = -1;
    assert_int_equal(step, wanted);
    if (step < MR_HLS_WAIT) {
        number = list.sequence + (int64_t)index;
        mr_hls_position_take(place, &list, index);
    }
    mr_playlist_fini(&list);
    return number;
}

/* Like listed(), for a server that never numbers the first segment, or always numbers it 0. */
static mr_playlist unnumbered(const char *name, int64_t first, int count, const mr_hls_position *place) {
    mr_playlist list = listed(name, first, count, "");
    list.sequence = 0;
    mr_hls_position_number(place, &list);
    return list;
}

/* Playlists drop their first segments but do not number the rest. */
TEST(without_numbers) {
    mr_hls_position place = {0};
    assert_int_equal(look(&place, unnumbered("a", 0, 2, &place), true, MR_HLS_ANEW), 0);
    assert_int_equal(look(&place, unnumbered("a", 0, 2, &place), false, MR_HLS_NEXT), 1);
    look(&place, unnumbered("a", 0, 2, &place), false, MR_HLS_WAIT);
    for (int i = 2; i < 40; i++) { /* the playlist grows, then slides */
        assert_int_equal(look(&place, unnumbered("a", i < 5 ? 0 : i - 3, i < 5 ? i + 1 : 4, &place), false,
                              MR_HLS_NEXT), i);
        look(&place, unnumbered("a", i < 5 ? 0 : i - 3, i < 5 ? i + 1 : 4, &place), i % 2, MR_HLS_WAIT);
    }
    look(&place, unnumbered("a", 35, 3, &place), false, MR_HLS_WAIT); /* an older version */
    assert_int_equal(look(&place, unnumbered("a", 38, 4, &place), true, MR_HLS_NEXT), 40);
    look(&place, unnumbered("a", 60, 4, &place), false, MR_HLS_ANEW);
    look(&place, unnumbered("b", 0, 2, &place), false, MR_HLS_SKIP); /* other segments with the same numbers */
    look(&place, unnumbered("b", 0, 2, &place), false, MR_HLS_NEXT);
    look(&place, unnumbered("b", 9, 4, &place), false, MR_HLS_ANEW); /* no known segment */
    look(&place, listed("b", 90, 4, ""), false, MR_HLS_SKIP);
    look(&place, unnumbered("b", 90, 4, &place), false, MR_HLS_ANEW); /* a restart */
    ENDED_BY(mr_playlist_fini) mr_playlist long_list = unnumbered("b", 0, 100, &place);
    assert_int_equal(long_list.sequence, 0);
}

TEST(recorded) {
    mr_hls_position place = {0};
    for (int i = 0; i < 20; i++)
        assert_int_equal(look(&place, listed("a", 5, 20, "#EXT-X-ENDLIST\n"), !i, i ? MR_HLS_NEXT : MR_HLS_ANEW),
                         5 + i);
    look(&place, listed("a", 5, 20, "#EXT-X-ENDLIST\n"), false, MR_HLS_OVER);
    mr_hls_position empty = {0};
    look(&empty, listed("a", 5, 0, "#EXT-X-ENDLIST\n"), true, MR_HLS_OVER);
}

TEST(live) {
    mr_hls_position place = {0};
    look(&place, listed("a", 0, 0, ""), true, MR_HLS_WAIT);
    assert_int_equal(look(&place, listed("a", 10, 6, ""), true, MR_HLS_ANEW), 13);
    assert_int_equal(look(&place, listed("a", 10, 6, ""), false, MR_HLS_NEXT), 14);
    assert_int_equal(look(&place, listed("a", 11, 6, ""), false, MR_HLS_NEXT), 15);
    assert_int_equal(look(&place, listed("a", 11, 6, ""), false, MR_HLS_NEXT), 16);
    look(&place, listed("a", 11, 6, ""), false, MR_HLS_WAIT);
    look(&place, listed("a", 9, 6, ""), false, MR_HLS_WAIT); /* an older version */
    look(&place, listed("a", 3, 2, ""), false, MR_HLS_ANEW); /* much older: from a restart */
    place = (mr_hls_position){0};
    assert_int_equal(look(&place, listed("a", 10, 2, ""), true, MR_HLS_ANEW), 10);
    assert_int_equal(look(&place, listed("a", 30, 6, ""), false, MR_HLS_SKIP), 33);
    assert_int_equal(look(&place, listed("a", 30, 6, "#EXT-X-DISCONTINUITY\n"), false, MR_HLS_NEXT), 34);
    assert_int_equal(look(&place, listed("a", 35, 6, "#EXT-X-DISCONTINUITY\n"), false, MR_HLS_ANEW), 35);
    assert_int_equal(look(&place, listed("a", 38, 6, "#EXT-X-DISCONTINUITY\n"), false, MR_HLS_ANEW), 41);
}

TEST(another_connection) {
    mr_hls_position place = {0};
    look(&place, listed("a", 10, 3, ""), true, MR_HLS_ANEW);
    look(&place, listed("a", 10, 3, ""), false, MR_HLS_NEXT);
    assert_int_equal(look(&place, listed("a", 10, 3, ""), false, MR_HLS_NEXT), 12);
    look(&place, listed("a", 10, 3, ""), true, MR_HLS_WAIT); /* the encoder has died; the playlist remains */
    look(&place, listed("a", 10, 3, "#EXT-X-ENDLIST\n"), true, MR_HLS_OVER);
    mr_hls_position far = place, other = place;
    assert_int_equal(look(&place, listed("a", 10, 9, ""), true, MR_HLS_NEXT), 13);
    assert_int_equal(look(&far, listed("a", 10, 10, ""), true, MR_HLS_SKIP), 17);
    assert_int_equal(look(&other, listed("a", 10, 10, ""), false, MR_HLS_NEXT), 13);
}

TEST(restarted) {
    mr_hls_position begun = {0}, place;
    for (int i = 0; i < 5; i++)
        look(&begun, listed("a", 0, i + 1, ""), !i, i ? MR_HLS_NEXT : MR_HLS_ANEW);
    place = begun; /* other names */
    assert_int_equal(look(&place, listed("b", 0, 1, ""), false, MR_HLS_ANEW), 0);
    assert_int_equal(look(&place, listed("b", 0, 2, ""), false, MR_HLS_NEXT), 1);
    place = begun; /* the same names: wait for one more, unless the server counts discontinuities */
    look(&place, listed("a", 0, 2, ""), false, MR_HLS_WAIT);
    look(&place, listed("a", 0, 5, ""), false, MR_HLS_WAIT);
    assert_int_equal(look(&place, listed("a", 0, 6, ""), false, MR_HLS_NEXT), 5);
    mr_hls_position counted = {0};
    for (int i = 0; i < 5; i++)
        look(&counted, listed("a", 0, i + 1, "#EXT-X-DISCONTINUITY-SEQUENCE:0\n"), !i, i ? MR_HLS_NEXT : MR_HLS_ANEW);
    look(&counted, listed("a", 0, 2, "#EXT-X-DISCONTINUITY-SEQUENCE:0\n"), false, MR_HLS_WAIT);
    assert_int_equal(look(&counted, listed("a", 0, 2, "#EXT-X-DISCONTINUITY-SEQUENCE:1\n"), false, MR_HLS_ANEW), 0);
    place = (mr_hls_position){0}; /* the same names, some time after the first */
    look(&place, listed("a", 4, 1, ""), true, MR_HLS_ANEW);
    assert_int_equal(look(&place, listed("a", 0, 1, ""), false, MR_HLS_ANEW), 0);
    place = (mr_hls_position){0}; /* noticed once there are more new segments than old ones */
    look(&place, listed("a", 3, 1, ""), true, MR_HLS_ANEW);
    assert_int_equal(look(&place, listed("b", 0, 9, ""), true, MR_HLS_ANEW), 6);
}

static void times_of(mr_hls_times *times, int64_t dts, int64_t pts, int64_t duration, int64_t wanted_pts) {
    mr_packet packet = {.dts_ns = dts, .pts_ns = pts, .duration_ns = duration};
    mr_hls_times_pass(times, &packet);
    assert_int_equal(packet.pts_ns, wanted_pts);
    assert_int_equal(packet.dts_ns, dts == MR_NO_TIME ? MR_NO_TIME : dts + wanted_pts - pts);
}

TEST(times_over_runs) {
    mr_hls_times times = {.shift_ns = -10};
    times.is_anew = true; /* before the first run there is nothing to continue */
    times_of(&times, 10, 30, 20, 20);
    times_of(&times, 30, 50, 20, 40);
    times.is_anew = true;
    times_of(&times, 1000, 1020, 20, 60); /* decoded 20 after the last one, which was decoded at 20 */
    times_of(&times, 1020, 1040, 0, 80);
    times.is_anew = true;
    times_of(&times, 5, 25, 0, 100);
    times = (mr_hls_times){0}; /* without durations: use the last distance */
    times_of(&times, MR_NO_TIME, 100, 0, 100);
    times_of(&times, MR_NO_TIME, 140, 0, 140);
    times.is_anew = true;
    times_of(&times, MR_NO_TIME, 7, 0, 180);
    mr_packet packet = {.dts_ns = MR_NO_TIME, .pts_ns = MR_NO_TIME};
    mr_hls_times_pass(&times, &packet);
    assert_int_equal(packet.pts_ns, MR_NO_TIME);
}

/* Headers may begin anywhere in 64 bits. */
TEST(times_that_do_not_fit) {
    static const int64_t far[] = {INT64_MAX, INT64_MIN + 1, MR_MOST_TIME_NS, -MR_MOST_TIME_NS, INT64_MAX / 2, 0};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        mr_hls_times times;
        mr_hls_times_begin(&times, far[i]);
        for (size_t k = 0; k < 5 * (sizeof far / sizeof *far); k++) {
            mr_packet packet = {.dts_ns = far[k % 6], .pts_ns = far[(k + 1) % 6], .duration_ns = far[(k + 2) % 6]};
            times.is_anew = k % 3 == 0;
            mr_hls_times_pass(&times, &packet);
            assert_true(packet.pts_ns == MR_NO_TIME || llabs(packet.pts_ns) <= MR_MOST_TIME_NS);
        }
        times.is_anew = true;
        mr_packet packet = {.dts_ns = 5, .pts_ns = 5, .duration_ns = 1};
        const int64_t before_ns = times.last_ns;
        mr_hls_times_pass(&times, &packet);
        assert_true(packet.pts_ns == MR_NO_TIME || packet.pts_ns >= before_ns);
    }
}

RUN_TESTS(NULL, NULL)
