/* All packet times come from one place. Presentation times must rise in presentation order, decoding times in decode
 * order; correct times must stay. tests/e2e/live/test_times.py tests streams whose pictures are out of order. */
#include <stdio.h>

#include <libavformat/avformat.h>

#include "stages/media/coded/picture_times.h"
#include "tests/support/decoded.h"
#include "tests/support/suite.h"

static const int64_t frame_ns = 40000000;

/* One codec always shows pictures in decode order; the other need not. */
static AVCodecParameters codecs[] = {{.codec_id = AV_CODEC_ID_MJPEG}, {.codec_id = AV_CODEC_ID_MPEG2VIDEO}};
static mr_media medias[] = {{.references = 1, .codec = &codecs[0], .rate_num = 25, .rate_den = 1},
                            {.references = 1, .codec = &codecs[1], .rate_num = 25, .rate_den = 1}};

static mr_packet pass(mr_picture_times *times, int codec, int64_t pts_ns, int64_t dts_ns, int64_t arrived_ns) {
    static uint8_t data[16];
    mr_packet packet = {.media = &medias[codec], .data = data, .bytes = 4, .pts_ns = pts_ns, .dts_ns = dts_ns,
                        .captured_ns = MR_NO_TIME, .arrived_ns = arrived_ns, .flags = MR_FRAME_KEY};
    mr_picture_times_pass(times, &packet);
    return packet;
}

TEST(true_times_stay) {
    static const int64_t shown[] = {0, 3, 1, 2, 6, 4, 5, 9, 7, 8};
    ENDED_BY(mr_picture_times_fini) mr_picture_times times = {0};
    for (int live = 0; live < 2; live++) {
        mr_picture_times_begin(&times, live);
        for (int64_t i = 0; i < 300; i++) {
            const mr_packet packet = pass(&times, 0, i * 33366667 + i % 7, MR_NO_TIME, i * 33000000 + i % 11 * 7000000);
            assert_int_equal(packet.pts_ns, i * 33366667 + i % 7);
            assert_int_equal(packet.dts_ns, packet.pts_ns);
        }
        mr_picture_times_begin(&times, live);
        for (int64_t i = 0; i < 10; i++) {
            const mr_packet packet = pass(&times, 1, shown[i] * frame_ns, (i - 1) * frame_ns, i * frame_ns);
            assert_int_equal(packet.pts_ns, shown[i] * frame_ns);
            assert_int_equal(packet.dts_ns, (i - 1) * frame_ns);
        }
    }
}

/* The file's time table has an entry of 2^31 seconds. */
TEST(a_duration_of_years_is_none) {
    AVCodecParameters codec = {.codec_id = AV_CODEC_ID_H264};
    mr_media media = {.references = 1, .codec = &codec, .rate_num = 25, .rate_den = 1};
    static uint8_t data[16];
    ENDED_BY(mr_picture_times_fini) mr_picture_times times = {0};
    mr_picture_times_begin(&times, false);
    for (int64_t i = 0; i < 10; i++) {
        mr_packet packet = {.media = &media, .data = data, .bytes = 4, .pts_ns = i * frame_ns, .dts_ns = MR_NO_TIME,
                            .duration_ns = i % 2 ? INT64_MAX - 1 : INT64_C(2147483648000000000)};
        mr_picture_times_pass(&times, &packet);
        assert_int_equal(packet.pts_ns, i * frame_ns);
        assert_in_range(packet.dts_ns + 20 * frame_ns, 0, packet.pts_ns + 20 * frame_ns);
        assert_true(packet.duration_ns <= MR_MOST_TIME_NS);
    }
}

/* Decoding times are one picture earlier. */
TEST(decoding_times_are_made) {
    static const int64_t shown[] = {0, 3, 1, 2, 6, 4, 5, 9, 7, 8};
    ENDED_BY(mr_picture_times_fini) mr_picture_times times = {0};
    mr_picture_times_begin(&times, true);
    for (int64_t i = 0; i < 10; i++) {
        const mr_packet packet = pass(&times, 1, shown[i] * frame_ns, MR_NO_TIME, i * frame_ns);
        assert_int_equal(packet.pts_ns, shown[i] * frame_ns);
        assert_int_equal(packet.dts_ns, (i - 1) * frame_ns);
    }
}

TEST(a_clock_that_stands_still_goes_on_at_the_pace_of_arrival) {
    ENDED_BY(mr_picture_times_fini) mr_picture_times times = {0};
    mr_picture_times_begin(&times, true);
    for (int64_t i = 0; i < 100; i++)
        assert_int_equal(pass(&times, 0, 5, MR_NO_TIME, i * frame_ns).pts_ns, 5 + i * frame_ns);
}

/* The clock advances at half the pace until the stream has caught up. */
TEST(a_clock_that_steps_back_is_caught_up_with) {
    ENDED_BY(mr_picture_times_fini) mr_picture_times times = {0};
    int64_t last_ns = -1;
    mr_picture_times_begin(&times, true);
    for (int64_t i = 0; i < 100; i++) {
        const int64_t said_ns = i * frame_ns - (i >= 50) * 10 * frame_ns;
        const mr_packet packet = pass(&times, 0, said_ns, said_ns, i * frame_ns);
        if (i < 50 || i >= 72)
            assert_int_equal(packet.pts_ns, said_ns);
        else
            assert_in_range(packet.pts_ns - last_ns, frame_ns / 2, frame_ns);
        assert_true(packet.pts_ns > last_ns && packet.dts_ns <= packet.pts_ns);
        last_ns = packet.pts_ns;
    }
}

TEST(any_numbers_rise) {
    static const int64_t wild[] = {MR_MOST_TIME_NS, -MR_MOST_TIME_NS, 0, MR_MOST_TIME_NS - 1, 1, 2 - MR_MOST_TIME_NS,
                                   -1};
    ENDED_BY(mr_picture_times_fini) mr_picture_times times = {0};
    for (int has_dts = 0; has_dts < 2; has_dts++) {
        int64_t decoded_ns = INT64_MIN, shown_ns = INT64_MIN;
        mr_picture_times_begin(&times, true);
        for (int64_t i = 0; i < 700; i++) {
            const int64_t said_ns = wild[i * i % 7];
            const mr_packet packet = pass(&times, 0, said_ns, has_dts ? said_ns : MR_NO_TIME, i * frame_ns);
            assert_true(packet.dts_ns > decoded_ns && packet.pts_ns > shown_ns);
            decoded_ns = packet.dts_ns;
            shown_ns = packet.pts_ns;
        }
    }
}

/* A file claims that each picture lasts a day. */
TEST(long_pictures_have_no_times_beyond_the_bounds) {
    mr_media slow = medias[1];
    slow.rate_num = 1;
    slow.rate_den = INT32_MAX;
    ENDED_BY(mr_picture_times_fini) mr_picture_times times = {0};
    for (int i = 0; i < 3; i++) {
        const int64_t said_ns = i == 0 ? MR_NO_TIME : i == 1 ? MR_MOST_TIME_NS : -MR_MOST_TIME_NS;
        mr_picture_times_begin(&times, false);
        for (int64_t n = 0; n < 100000; n++) {
            uint8_t data[16] = {0};
            mr_packet packet = {.media = &slow, .data = data, .bytes = 4, .pts_ns = said_ns, .dts_ns = MR_NO_TIME,
                                .captured_ns = MR_NO_TIME, .arrived_ns = MR_NO_TIME, .flags = MR_FRAME_KEY};
            mr_picture_times_pass(&times, &packet);
            assert_true(packet.pts_ns == mr_time_bound(packet.pts_ns));
        }
    }
}

/* For streams from encoders, the depth in the header must be the depth that libavcodec finds. */
TEST(the_depth_is_that_of_libavcodec) {
    static const struct {
        const char *name, *arguments;
    } streams[] = {
        {"depth-0.mp4", "-c:v libx264 -bf 0"},
        {"depth-baseline.ts", "-c:v libx264 -profile:v baseline"},
        {"depth-1.mp4", "-c:v libx264 -bf 2 -x264-params b-pyramid=none"},
        {"depth-2.ts", "-c:v libx264 -bf 3 -x264-params b-pyramid=normal:nal-hrd=vbr:vbv-maxrate=500:vbv-bufsize=500"},
        {"depth-hevc-0.mp4", "-c:v libx265 -x265-params log-level=none:bframes=0"},
        {"depth-hevc-2.ts", "-c:v libx265 -x265-params log-level=none:bframes=4"},
        {"depth-hevc-layers.mp4", "-c:v libx265 -x265-params log-level=none:bframes=3:temporal-layers=1"},
    };
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        char path[CLIP_PATH], arguments[512];
        bool sure = false;
        snprintf(arguments, sizeof arguments, CLIP_PATTERN "-frames:v 24 -pix_fmt yuv420p %s", streams[i].arguments);
        clip_make(path, streams[i].name, arguments);
        ENDED_BY(avformat_close_input) AVFormatContext *format = NULL;
        assert_int_equal(avformat_open_input(&format, path, NULL, NULL), 0);
        assert_true(avformat_find_stream_info(format, NULL) >= 0);
        AVCodecParameters *codec = format->streams[0]->codecpar;
        const int expected = codec->video_delay;
        codec->video_delay = 0;
        assert_int_equal(mr_picture_order_depth(codec, &sure), expected);
        assert_true(sure);
    }
}

RUN_TESTS(NULL, NULL)
