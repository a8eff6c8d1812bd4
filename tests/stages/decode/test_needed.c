/* Pictures that are neither selected nor needed must not be decoded. Selected pictures, numbers, times and ledger must
 * match ffmpeg, which decodes everything. The stream's structure limits how many pictures can be skipped. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libavformat/avformat.h>

#include "millrace/log.h"
#include "millrace/millrace.h"
#include "stages/decode/decode_needed.h"
#include "stages/decode/decode_packet.h"
#include "tests/support/decoded.h"
#include "tests/support/suite.h"

static clip_frames expected;
static clip_outcome result;

/* Less than, equal to and more than the distance between references and between keys; with one thread and several. */
static const struct {
    size_t every;
    const char *threads;
} choices[] = {{1, ", threads: 3"}, {2, ", threads: 1"}, {3, ", threads: 3"}, {5, ", threads: 1"},
               {12, ", threads: 3"}};
enum { CHOICES = sizeof choices / sizeof *choices };

#define X264 CLIP_PATTERN "-frames:v 48 -c:v libx264 -preset veryfast -pix_fmt yuv420p "
#define X265 CLIP_PATTERN "-frames:v 48 -c:v libx265 -preset ultrafast -pix_fmt yuv420p -x265-params log-level=none:"
#define MPEG2 CLIP_PATTERN "-frames:v 48 -c:v mpeg2video "
#define VP9 CLIP_PATTERN "-frames:v 48 -c:v libvpx-vp9 -cpu-used 8 -pix_fmt yuv420p "

/* `left`: at least this many out of 48 pictures need no decoding with `every: 12`. The first pictures are always
 * decoded, and each encoder chooses how many pictures are references. */
static const struct {
    const char *name, *arguments;
    int left;
} streams[] = {
    {"needed-plain.mp4", X264 "-bf 0 -g 12", 12},
    {"needed-b2.mp4", X264 "-bf 2 -g 12", 16},
    {"needed-b3-pyramid.mp4", X264 "-bf 3 -g 250 -x264-params b-pyramid=normal:b-adapt=0", 12},
    {"needed-open.mkv", X264 "-bf 3 -g 12 -x264-params open-gop=1:b-adapt=0", 12},
    {"needed-b16.mp4", X264 "-bf 16 -g 60 -x264-params b-adapt=0", 12},
    {"needed-intra.mp4", X264 "-g 1", 24},
    {"needed.ts", X264 "-bf 2 -g 12", 16},
    {"needed-b2.mkv", X264 "-bf 2 -g 12", 16},
    {"needed-mbaff.mp4", X264 "-flags +ilme+ildct -bf 2 -g 24", 6},
    {"needed-hevc.mp4", X265 "bframes=4:b-adapt=0:keyint=24:open-gop=0", 12},
    {"needed-hevc-open.mkv", X265 "bframes=4:b-adapt=0:keyint=12:open-gop=1", 12},
    {"needed-hevc-layers.mp4", X265 "bframes=3:b-adapt=0:keyint=24:temporal-layers=1", 6},
    {"needed-hevc.ts", X265 "bframes=3:b-adapt=0:keyint=12:open-gop=0", 12},
    {"needed-mpeg2.ts", MPEG2 "-bf 2 -g 12", 16},
    {"needed-mpeg2.mpg", MPEG2 "-bf 2 -g 12", 16},
    {"needed-mpeg2-closed.mkv", MPEG2 "-bf 2 -g 12 -flags +cgop -sc_threshold 1000000000", 16},
    {"needed-mpeg2-intra.mpg", MPEG2 "-g 1", 0},
    {"needed-vp9.webm", VP9 "-g 12", 0},
    {"needed-vp9-altref.webm", VP9 "-g 48 -auto-alt-ref 1 -lag-in-frames 16 -deadline good", 0},
    {"needed-vp9-key.webm", VP9 "-g 8 -keyint_min 8 -deadline realtime", 12},
    {"needed-vp9-layers.webm",
     VP9 "-deadline realtime -error-resilient 1 -b:v 200k -ts-parameters "
         "ts_number_layers=2:ts_target_bitrate=100,200:ts_rate_decimator=2,1:ts_periodicity=2:ts_layer_id=0,1:"
         "ts_layering_mode=2",
     12},
    {"needed-open.avi", X264 "-bf 3 -g 12 -x264-params open-gop=1:b-adapt=0", 12},
    {"needed-mpeg4.avi", CLIP_PATTERN "-frames:v 48 -c:v mpeg4 -bf 2", 0},
    {"needed-mjpeg.avi", CLIP_PATTERN "-frames:v 48 -c:v mjpeg -pix_fmt yuvj420p", 0},
};
enum { STREAMS = sizeof streams / sizeof *streams };

static int left_out;

static void hear(void *context, mr_log_level level, const char *line) {
    const char *count = strstr(line, "pictures were not decoded");
    if (count)
        left_out = atoi(strstr(line, "clip: ") + strlen("clip: "));
}

CLIP_TEST(wanted_pictures_are_those_of_ffmpeg) {
    for (size_t i = 0; i < STREAMS; i++) {
        char path[CLIP_PATH], options[64];
        clip_make(path, streams[i].name, streams[i].arguments);
        clip_reference(path, &expected);
        assert_int_equal(expected.count, 48);
        for (size_t c = 0; c < CHOICES; c++) {
            snprintf(options, sizeof options, ", every: %zu", choices[c].every);
            left_out = 0;
            clip_run(&result, path, options, choices[c].threads);
            clip_expect(&result, &expected, 0, choices[c].every);
            assert_int_equal(result.identity[0].seq, 0);
        }
        print_message("    %s: %d of %zu not decoded\n", streams[i].name, left_out, expected.count);
        assert_true(left_out >= streams[i].left);
    }
}

CLIP_TEST(pictures_that_a_later_packet_shows_are_those_of_ffmpeg) {
    char path[CLIP_PATH], options[64];
    clip_make_twice(path, "vp9-shown.webm", CLIP_SHOWN_LATER);
    clip_reference(path, &expected);
    for (size_t c = 0; c < CHOICES; c++) {
        snprintf(options, sizeof options, ", every: %zu", choices[c].every);
        clip_run(&result, path, options, choices[c].threads);
        clip_expect(&result, &expected, 0, choices[c].every);
    }
}

/* ffmpeg's own filter selects the same pictures. */
CLIP_TEST(the_filter_of_ffmpeg_agrees) {
    char path[CLIP_PATH];
    clip_path(path, "needed-b3-pyramid.mp4");
    clip_run(&result, path, ", every: 5", "");
    FILE *answer = clip_ask("ffmpeg -nostdin -v quiet -i %s -vf 'select=not(mod(n\\,5))' -vsync passthrough "
                            "-f framemd5 - | grep -v '^#' | sed 's/.*, *//'", path);
    size_t count = 0;
    for (char md5[64]; fscanf(answer, "%63s", md5) == 1; count++)
        assert_string_equal(md5, result.md5[count]);
    pclose(answer);
    assert_int_equal(count, result.count);
}

/* Selections from the middle, by rate, and again in a second loop. */
CLIP_TEST(other_selections_are_the_same) {
    static const char *const names[] = {"needed-b2.mp4", "needed-b3-pyramid.mp4", "needed-b2.mkv", "needed-hevc.mp4",
                                        "needed-hevc-open.mkv", "needed-vp9-key.webm", "needed.ts",
                                        "needed-mpeg2.mpg", "needed-mpeg4.avi", "needed-open.avi"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[CLIP_PATH], options[64];
        clip_path(path, names[i]);
        clip_reference(path, &expected);
        for (size_t first = 1, every = 1; first < 48; first += 11, every = every % 9 + 4) {
            snprintf(options, sizeof options, ", start: %zums, every: %zu", first * 40, every);
            clip_run(&result, path, options, "");
            clip_expect(&result, &expected, first, every);
            assert_int_equal(result.identity[0].seq, 0); /* in any container */
        }
        clip_run(&result, path, ", fps: 5", "");
        clip_expect(&result, &expected, 0, 5);
        clip_run(&result, path, ", every: 7, loop: 3", "");
        assert_int_equal(result.count, 21);
        for (size_t k = 0; k < 21; k++) {
            assert_string_equal(result.md5[k], expected.md5[k % 7 * 7]);
            assert_int_equal(result.identity[k].epoch, k / 7);
            assert_int_equal(result.identity[k].seq, k % 7 * 7);
        }
    }
}

/* Packets without dependents are those that libavcodec drops with skip_frame. */
CLIP_TEST(disposable_packets_are_those_of_libavcodec) {
    static const char *const names[] = {"needed-b2.mp4", "needed-b3-pyramid.mp4", "needed-open.mkv", "needed.ts",
                                        "needed-b16.mp4", "needed-plain.mp4", "needed-hevc.mp4",
                                        "needed-hevc-open.mkv", "needed-mpeg2.ts", "needed-mpeg2-closed.mkv"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[CLIP_PATH];
        int others = 0, looked = 0;
        clip_path(path, names[i]);
        FILE *answer = clip_ask("ffprobe -v quiet -skip_frame noref -show_entries frame=pict_type -of csv=p=0 %s | "
                                "grep -c .", path);
        assert_int_equal(fscanf(answer, "%d", &others), 1);
        pclose(answer);
        ENDED_BY(avformat_close_input) AVFormatContext *format = NULL;
        ENDED_BY(mr_packet_looks_close) mr_packet_looks looks;
        ENDED_BY(av_packet_free) AVPacket *packet = av_packet_alloc();
        assert_int_equal(avformat_open_input(&format, path, NULL, NULL), 0);
        assert_true(avformat_find_stream_info(format, NULL) >= 0);
        assert_true(mr_packet_looks_open(&looks, format->streams[0]->codecpar));
        for (; av_read_frame(format, packet) >= 0; av_packet_unref(packet)) {
            mr_frame frame = {.plane[0] = {.data = packet->data, .bytes = (size_t)packet->size}};
            mr_packet_use use = mr_packet_look(&looks, &frame);
            assert_true(use.known);
            looked += !use.disposable;
        }
        assert_int_equal(looked, others);
    }
}

/* A decoder that starts inside an open GOP returns pictures that refer to missing ones, but skips the leading pictures
 * of the first key. So numbers are only known from there on. Each picture must have the same number in both runs,
 * although the second can skip some. */
CLIP_TEST(beginning_within_an_open_gop_counts_the_same) {
    static clip_outcome all, some;
    char path[CLIP_PATH], options[64];
    clip_path(path, "needed-hevc-open.ts");
    clip_make(path, "needed-hevc-open.ts", CLIP_PATTERN "-frames:v 60 -c:v libx265 -x265-params "
              "log-level=none:keyint=20:bframes=4:repeat-headers=1 -pix_fmt yuv420p");
    for (int start = 100; start < 1000; start += 200) {
        /* Each slot has a picture at this rate: nothing is skipped after the start. */
        snprintf(options, sizeof options, ", start: %dms, fps: 100000", start);
        clip_run(&all, path, options, "");
        snprintf(options, sizeof options, ", start: %dms, every: 3", start);
        clip_run(&some, path, options, "");
        assert_int_equal(some.count, (all.count + 2) / 3);
        for (size_t k = 0; k < some.count; k++) {
            assert_int_equal(some.identity[k].seq, all.identity[3 * k].seq);
            assert_string_equal(some.md5[k], all.md5[3 * k]);
        }
    }
}

/* A picture that is whole after a full decode of a damaged stream must be the same if only needed pictures are decoded.
 * Pictures that refer to a damaged one may differ, since a decoder conceals with the last pictures it has decoded.
 * Damage in skipped pictures is not noticed. */
CLIP_TEST(damage_gives_the_same) {
    static clip_frames whole;
    static clip_outcome all, some;
    char path[CLIP_PATH], spoilt[CLIP_PATH];
    clip_path(path, "needed-b2.mp4");
    clip_path(spoilt, "needed-damaged.mp4");
    clip_reference(path, &whole);
    for (int part = 30; part < 90; part += 14) {
        clip_shell("cp %s %s && s=$(stat -c %%s %s) && head -c 1500 /dev/zero | tr '\\0' 'x' | "
                   "dd of=%s bs=1 seek=$((s * %d / 100)) conv=notrunc status=none", path, spoilt, path, spoilt, part);
        clip_run(&all, spoilt, "", ", threads: 1");
        for (size_t every = 2; every <= 12; every += 5) {
            char options[32];
            snprintf(options, sizeof options, ", every: %zu", every);
            clip_run(&some, spoilt, options, ", threads: 1");
            assert_int_equal(some.status, MR_OK);
            assert_int_equal(some.in, 48);
            assert_true(some.corrupt <= all.corrupt);
            assert_int_equal(some.delivered + some.corrupt + some.absorbed, 48);
            assert_in_range(some.count, 48 / every / 2, (48 + every - 1) / every);
            for (size_t k = 0; k < some.count; k++) {
                size_t n = 0; /* after damage, pictures can be out of order */
                while (n + 1 < all.count && all.pts_ns[n] != some.pts_ns[k])
                    n++;
                assert_int_equal(some.pts_ns[k], all.pts_ns[n]);
                if (strcmp(all.md5[n], whole.md5[all.pts_ns[n] / 40000000]) == 0)
                    assert_string_equal(some.md5[k], all.md5[n]);
            }
        }
    }
}

/* Pictures for a device, and one thread with a simulated clock, must be the same. */
CLIP_TEST(devices_and_clocks_change_nothing) {
    char path[CLIP_PATH];
    clip_path(path, "needed-b3-pyramid.mp4");
    clip_reference(path, &expected);
    clip_run(&result, path, ", every: 4", ", device: 'sim:0'");
    clip_expect(&result, &expected, 0, 4);
    clip_run_seeded(&result, path, ", every: 4", "", 3);
    clip_expect(&result, &expected, 0, 4);
    left_out = 0;
    clip_run_seeded(&result, path, ", every: 4, realtime: true, deadline: 2s", "", 3);
    clip_expect(&result, &expected, 0, 4);
    assert_int_equal(left_out, 0); /* pictures are reordered: one less sent is one more to wait for */
    clip_path(path, "needed-intra.mp4");
    clip_reference(path, &expected);
    clip_run_seeded(&result, path, ", every: 4, realtime: true, deadline: 2s", "", 3);
    clip_expect(&result, &expected, 0, 4);
}

static bool released;

static void release(mr_media *media) {
    released = media;
}

/* The first packet's media chooses pictures in a whole stretch, also if the next packets have another. */
TEST(the_first_media_is_kept) {
    static const char idr[] = "\0\0\1\x65\x88?";
    static mr_needed needed;
    static mr_pending pending;
    AVCodecParameters codec = {.codec_type = AVMEDIA_TYPE_VIDEO, .codec_id = AV_CODEC_ID_H264};
    mr_media made = {.references = 1, .release = release, .codec = &codec, .every = 2}, *media = &made;
    mr_frame packet = {.references = 1, .media = media, .flags = MR_FRAME_KEY,
                       .plane[0] = {.data = (uint8_t *)(uintptr_t)idr, .bytes = sizeof idr - 1}};
    mr_needed_init(&needed, false);
    mr_needed_add(&needed, &packet, false, &pending);
    assert_ptr_equal(needed.media, &made);
    mr_media_unref(&media);
    assert_false(released);
    mr_needed_fini(&needed);
    assert_true(released);
}

static int listen(void **state __attribute__((unused))) {
    mr_log_set_level(MR_LOG_INFO);
    mr_log_to(hear, NULL);
    return 0;
}

RUN_TESTS(listen, NULL)
