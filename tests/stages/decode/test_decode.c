/* Decoding. Each picture must be the one that ffmpeg decodes, at the time that ffprobe reports, with one thread and
 * with several. Also packets without a picture, and pictures for devices. test_decode_formats.c tests formats. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libavutil/imgutils.h>

#include "engine/device/device.h"
#include "engine/device/sim/sim.h"
#include "millrace/millrace.h"
#include "stages/decode/device/nvdec.h"
#include "stages/media/media_cuda.h"
#include "stages/media/picture_format.h"
#include "tests/support/decoded.h"
#include "tests/support/suite.h"

static clip_frames expected;
static clip_outcome result;

/* ---- codecs ---------------------------------------------------------------------------------------------------- */

#define ODD_PATTERN "-f lavfi -i testsrc2=size=175x143:rate=25 "

static const char *const both_threads[] = {", threads: 1", ", threads: 2"};

static void assert_as_ffmpeg(const char *path) {
    clip_reference(path, &expected);
    assert_true(expected.count > 0);
    for (int i = 0; i < 2; i++) {
        clip_run(&result, path, "", both_threads[i]);
        clip_expect(&result, &expected, 0, 1);
        assert_int_equal(result.identity[0].seq, 0);
    }
}

static const struct {
    const char *name, *arguments;
    mr_pixel pixel;
} codecs[] = {
    {"h264-420.mp4", CLIP_PLAIN, MR_PIXEL_I420},
    {"h264-444.mp4", CLIP_PATTERN "-frames:v 24 " CLIP_H264 "yuv444p", MR_PIXEL_I444},
    {"h264-422-10.mkv", CLIP_PATTERN "-frames:v 24 " CLIP_H264 "yuv422p10le", MR_PIXEL_I422_10},
    {"h264-tff.mp4", CLIP_PATTERN "-frames:v 24 -flags +ilme+ildct " CLIP_H264 "yuv420p", MR_PIXEL_I420},
    {"h264-odd.mkv", ODD_PATTERN "-frames:v 24 " CLIP_H264 "yuv444p", MR_PIXEL_I444},
    {"h264.264", CLIP_PATTERN "-frames:v 24 " CLIP_H264 "yuv420p -f h264", MR_PIXEL_I420},
    {"h264.ts", CLIP_PATTERN "-frames:v 24 " CLIP_H264 "yuv420p", MR_PIXEL_I420},
    {"hevc-10.mp4", CLIP_PATTERN "-frames:v 24 -c:v libx265 -x265-params log-level=none -pix_fmt yuv420p10le",
     MR_PIXEL_I420_10},
    {"vp9-odd.webm", ODD_PATTERN "-frames:v 24 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -pix_fmt yuv420p",
     MR_PIXEL_I420},
    {"vp8.webm", CLIP_PATTERN "-frames:v 24 -c:v libvpx -deadline realtime -cpu-used 8 -pix_fmt yuv420p",
     MR_PIXEL_I420},
    {"av1.mkv", CLIP_PATTERN "-frames:v 12 -c:v libaom-av1 -cpu-used 8 -usage realtime -pix_fmt yuv420p",
     MR_PIXEL_I420},
    {"mjpeg-odd.avi", ODD_PATTERN "-frames:v 12 -c:v mjpeg -pix_fmt yuvj422p", MR_PIXEL_I422},
    {"mpeg4-b.avi", CLIP_PATTERN "-frames:v 24 -c:v mpeg4 -bf 2", MR_PIXEL_I420},
    {"h264-b.avi", CLIP_PATTERN "-frames:v 24 -c:v libx264 -bf 3 -g 9 -pix_fmt yuv420p", MR_PIXEL_I420},
    {"mpeg2-b.avi", CLIP_PATTERN "-frames:v 24 -c:v mpeg2video -bf 2", MR_PIXEL_I420},
    {"mpeg2.mpg", CLIP_PATTERN "-frames:v 24 -c:v mpeg2video -bf 2", MR_PIXEL_I420},
    {"ffv1-bgra.mkv", CLIP_PATTERN "-frames:v 6 -c:v ffv1 -pix_fmt bgra", MR_PIXEL_BGRA},
    {"qtrle.mov", CLIP_PATTERN "-frames:v 12 -c:v qtrle -pix_fmt rgb24", MR_PIXEL_RGB24},
    {"one.mp4", CLIP_PATTERN "-frames:v 1 " CLIP_H264 "yuv420p", MR_PIXEL_I420},
    {"vfr.mp4", CLIP_PATTERN "-vf select='not(mod(n\\,3))+gt(n\\,20)' -vsync vfr -frames:v 24 " CLIP_H264 "yuv420p",
     MR_PIXEL_I420},
};

CLIP_TEST(pictures_are_those_of_ffmpeg) {
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        char path[CLIP_PATH];
        print_message("    %s\n", codecs[i].name);
        clip_make(path, codecs[i].name, codecs[i].arguments);
        if (strcmp(codecs[i].name, "h264.264") == 0) { /* without times: only the pictures can be compared */
            clip_reference("test-clips/h264-420.mp4", &expected);
            clip_run(&result, path, "", "");
            assert_int_equal(result.count, expected.count);
            for (size_t k = 0; k < result.count; k++)
                assert_int_equal(result.pts_ns[k], k * 40000000);
        } else {
            assert_as_ffmpeg(path);
            clip_run(&result, path, "", "");
        }
        assert_int_equal(result.format[0].pixel, codecs[i].pixel);
    }
}

CLIP_TEST(pictures_may_be_shown_by_a_later_packet) {
    char path[CLIP_PATH];
    clip_make_twice(path, "vp9-shown.webm", CLIP_SHOWN_LATER);
    assert_as_ffmpeg(path);
}

/* A layout that millrace has no name for is converted as swscale would convert it, to the nearest named layout. */
CLIP_TEST(odd_layouts_are_converted) {
    static const char *const layouts[][2] = {{"yuv411p", "yuv422p"}, {"yuyv422", "yuv422p"}, {"rgb48le", "gbrp12le"},
                                             {"pal8", "rgba"}, {"monob", "gray"}, {"yuv444p14le", "yuv444p12le"}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char path[CLIP_PATH], name[64], arguments[512];
        snprintf(name, sizeof name, "raw-%s.nut", layouts[i][0]);
        snprintf(arguments, sizeof arguments, CLIP_PATTERN "-frames:v 1 -c:v rawvideo -pix_fmt %s", layouts[i][0]);
        clip_make(path, name, arguments);
        clip_run(&result, path, "", "");
        char wanted[CLIP_MD5];
        FILE *answer = clip_ask("ffmpeg -nostdin -v quiet -i %s -sws_flags bilinear+accurate_rnd+full_chroma_inp "
                                "-pix_fmt %s -f framemd5 - | tail -n 1 | sed 's/.*, *//'", path, layouts[i][1]);
        assert_int_equal(fscanf(answer, "%32s", wanted), 1);
        pclose(answer);
        assert_int_equal(result.count, 1);
        assert_int_equal(mr_pixel_to_av(result.format[0].pixel), av_get_pix_fmt(layouts[i][1]));
        assert_string_equal(result.md5[0], wanted);
    }
}

/* ---- outcomes of packets --------------------------------------------------------------------------------------- */

static void spoil(const char *from, const char *to, long start_percent, int bytes) {
    clip_shell("cp %s %s && s=$(stat -c %%s %s) && head -c %d /dev/zero | tr '\\0' 'x' | "
               "dd of=%s bs=1 seek=$((s * %ld / 100)) conv=notrunc status=none",
               from, to, from, bytes, to, start_percent);
}

CLIP_TEST(damage_is_counted_and_survived) {
    char path[CLIP_PATH], damaged[CLIP_PATH];
    clip_make(path, "long.mp4", CLIP_PATTERN "-frames:v 72 -movflags +faststart " CLIP_H264 "yuv420p");
    clip_path(damaged, "damaged.mp4");
    spoil(path, damaged, 50, 4000);
    for (int i = 0; i < 2; i++) {
        clip_run(&result, damaged, "", both_threads[i]);
        assert_int_equal(result.status, MR_OK);
        assert_int_equal(result.in, 72);
        assert_true(result.corrupt > 0);
        assert_int_equal(result.delivered + result.corrupt, 72);
        assert_true(result.delivered >= 48);
        assert_int_equal(result.pts_ns[result.count - 1], 71 * INT64_C(40000000));
    }
}

/* Overwrites the second half of each packet whose number, counted from 1, leaves this remainder. */
static void spoil_packets(const char *from, const char *to, int period, int remainder) {
    clip_shell("cp %s %s && ffprobe -v quiet -show_entries packet=size,pos -of csv=p=0 %s | "
               "awk -F, 'NR %% %d == %d { print int($2 + $1 / 2), int($1 / 2) }' | while read at bytes; do "
               "head -c $bytes /dev/zero | tr '\\0' 'x' | dd of=%s bs=1 seek=$at conv=notrunc status=none; done",
               from, to, from, period, remainder, to);
}

/* Counts right pictures among the `first` ones in each period after the first period. */
static size_t count_right(size_t period, size_t first) {
    size_t right = 0;
    for (size_t i = 0; i < result.count; i++) {
        size_t number = (size_t)((result.pts_ns[i] + 20000000) / 40000000);
        if (number < period || number % period >= first)
            continue;
        if (strcmp(result.md5[i], expected.md5[number]) != 0)
            fail_msg("picture %zu is wrong", number);
        right++;
    }
    return right;
}

/* Pictures from a key on, after a damaged packet, must be right. The decoder gives up some macroblocks. They must leave
 * no trace in an IDR picture, nor in a picture with a recovery point and others shown around it. With frame threads,
 * the key is in progress before the damage is known. */
CLIP_TEST(pictures_behind_damage_are_right) {
    enum { PERIOD = 12, FRAMES = 72 };
    static const struct {
        const char *name, *options;
        int spoilt;   /* as in spoil_packets */
        size_t right; /* pictures from the key on that need no damaged packet */
    } streams[] = {{"keys", "-tune zerolatency -x264-params keyint=12:cabac=0", 0, 11},
                   {"points", "-x264-params keyint=12:cabac=0:open-gop=1:bframes=2:b-adapt=0", 10, 8}};
    static const char *const decoders[] = {", threads: 1", ", threads: 2", ", threads: 3", ", threads: 4",
                                           ", threads: 3, damaged: keep", ", threads: 1, device: 'sim:0'",
                                           ", threads: 2, device: 'sim:0'"};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        char path[CLIP_PATH], damaged[CLIP_PATH], name[64], arguments[512];
        snprintf(name, sizeof name, "behind-%s.mp4", streams[i].name);
        snprintf(arguments, sizeof arguments,
                 CLIP_PATTERN "-vf noise=alls=12:all_seed=3:allf=t -frames:v %d -c:v libx264 -preset veryfast %s "
                              "-sc_threshold 0 -pix_fmt yuv420p", FRAMES, streams[i].options);
        clip_make(path, name, arguments);
        clip_reference(path, &expected);
        clip_path(damaged, "behind-damaged.mp4");
        spoil_packets(path, damaged, PERIOD, streams[i].spoilt);
        for (size_t k = 0; k < sizeof decoders / sizeof *decoders; k++) {
            print_message("    %s%s\n", streams[i].name, decoders[k]);
            clip_run(&result, damaged, "", decoders[k]);
            assert_int_equal(result.status, MR_OK);
            assert_int_equal(count_right(PERIOD, streams[i].right),
                             (FRAMES / PERIOD - 1) * streams[i].right);
            assert_int_equal(result.delivered + result.corrupt, FRAMES);
        }
        /* Packets that may not be needed wait before the decoder. */
        clip_run(&result, damaged, ", every: 2", "");
        assert_true(count_right(PERIOD, streams[i].right) > 0);
    }
}

CLIP_TEST(truncated_files_give_the_pictures_they_have) {
    char path[CLIP_PATH], truncated[CLIP_PATH];
    clip_make(path, "long.mp4", CLIP_PATTERN "-frames:v 72 -movflags +faststart " CLIP_H264 "yuv420p");
    clip_path(truncated, "truncated.mp4");
    clip_shell("s=$(stat -c %%s %s) && head -c $((s * 6 / 10)) %s > %s", path, path, truncated);
    clip_run(&result, truncated, "", "");
    assert_true(result.count > 24 && result.count < 72);
    assert_int_equal(result.in, result.delivered + result.dropped);
}

CLIP_TEST(folders_lose_only_broken_images) {
    clip_shell("rm -rf test-clips/some-broken && mkdir -p test-clips/some-broken && cd test-clips/some-broken && "
               "for i in 1 3; do ffmpeg -nostdin -v error -y -f lavfi -i testsrc=size=${i}10x4$i -frames:v 1 "
               "$i.png; done && "
               "ffmpeg -nostdin -v error -y -f lavfi -i testsrc=size=64x48 -frames:v 1 4.jpg && "
               "head -c 100 3.png > 2.png && touch 5.png");
    clip_run(&result, "test-clips/some-broken", "", "");
    assert_int_equal(result.status, MR_OK);
    assert_int_equal(result.in, 5);
    assert_int_equal(result.corrupt, 2);
    assert_int_equal(result.count, 3);
    assert_int_equal(result.format[0].width, 110);
    assert_int_equal(result.format[1].width, 310);
    assert_int_equal(result.format[2].width, 64);
    assert_int_equal(result.format[2].pixel, MR_PIXEL_I444);
    clip_shell("cd test-clips/some-broken && rm 1.png 3.png 4.jpg");
    clip_run(&result, "test-clips/some-broken", "", "");
    assert_int_equal(result.status, MR_ERROR_DATA);
    assert_int_equal(result.corrupt, 2);
    expect_words(result.message, "nothing could be decoded");
}

CLIP_TEST(size_may_change_in_mid_stream) {
    char small[CLIP_PATH], large[CLIP_PATH], path[CLIP_PATH];
    clip_make(small, "small.m2v", "-f lavfi -i testsrc2=size=96x64:rate=25 -frames:v 8 -c:v mpeg2video");
    clip_make(large, "large.m2v", "-f lavfi -i testsrc2=size=320x240:rate=25 -frames:v 8 -c:v mpeg2video");
    clip_path(path, "sizes.m2v");
    clip_shell("cat %s %s %s > %s", small, large, small, path);
    clip_run(&result, path, "", "");
    assert_int_equal(result.status, MR_OK);
    size_t changes = 0;
    for (size_t i = 1; i < result.count; i++)
        changes += result.format[i].width != result.format[i - 1].width;
    assert_int_equal(changes, 2);
    assert_true(result.count >= 22);
}

/* ---- options --------------------------------------------------------------------------------------------------- */

CLIP_TEST(selection_loop_and_skip) {
    char path[CLIP_PATH];
    clip_make(path, "long.mp4", CLIP_PATTERN "-frames:v 72 -movflags +faststart " CLIP_H264 "yuv420p");
    clip_run(&result, path, ", every: 3", "");
    assert_int_equal(result.count, 24);
    assert_int_equal(result.in, 72);
    assert_int_equal(result.identity[5].seq, 15);
    assert_int_equal(result.pts_ns[5], 600000000);
    clip_run(&result, path, ", start: 1s, duration: 1s", "");
    assert_int_equal(result.count, 25);
    assert_int_equal(result.pts_ns[0], 1000000000);
    clip_run(&result, path, ", fps: 5", "");
    assert_int_equal(result.count, 15);
    clip_run(&result, path, ", loop: 2", "");
    assert_int_equal(result.count, 144);
    assert_int_equal(result.identity[72].epoch, 1);
    assert_int_equal(result.identity[72].seq, 0);
    assert_int_equal(result.pts_ns[72], 0);
    assert_string_equal(result.md5[72], result.md5[0]);
    clip_run(&result, path, "", ", skip: nonkey");
    assert_int_equal(result.count, 8);
    assert_int_equal(result.absorbed, 64);
    clip_run(&result, path, "", ", skip: nonref");
    assert_true(result.count < 60 && result.count + result.absorbed == 72);
}

CLIP_TEST(paced_packets_come_at_their_times) {
    clip_run_seeded(&result, "lavfi:testsrc2=size=64x48:rate=25:duration=0.4", ", realtime: true, loop: 3", "", 7);
    assert_int_equal(result.count, 30);
    for (size_t i = 0; i < result.count; i++)
        assert_int_equal(result.born_ns[i] - result.born_ns[0], (int64_t)i * 40000000);
}

CLIP_TEST(order_is_the_same_on_one_thread) {
    char path[CLIP_PATH];
    clip_make(path, "h264-420.mp4", CLIP_PLAIN);
    clip_reference(path, &expected);
    for (uint64_t seed = 1; seed < 4; seed++) {
        clip_run_seeded(&result, path, "", "", seed);
        clip_expect(&result, &expected, 0, 1);
    }
}

/* ---- for a device ---------------------------------------------------------------------------------------------- */

/* The device has no decoder: software decodes, and the pictures are copied to the device and back. */
CLIP_TEST(pictures_for_a_device_are_the_same) {
    static const char *const options[] = {", device: 'sim:0'", ", device: 'sim:0', threads: 2, hardware: 'off'"};
    static const char *const names[] = {"h264-420.mp4", "vfr.mp4"};
    uint64_t misuses = mr_sim_misuses();
    for (size_t i = 0; i < 4; i++) {
        char path[CLIP_PATH];
        clip_path(path, names[i / 2]);
        clip_reference(path, &expected);
        clip_run(&result, path, "", options[i % 2]);
        clip_expect(&result, &expected, 0, 1);
    }
    assert_int_equal(mr_sim_misuses(), misuses);
}

/* Converted layouts, and pictures with several sizes, must come out as on the processors. One thread is used: with
 * more, libavcodec's H.264 decoder may copy a picture's errors before the thread that decodes it has recorded them. */
CLIP_TEST(odd_pictures_for_a_device_are_the_same) {
    static const char *const names[] = {"raw-yuv411p.nut", "raw-pal8.nut", "sizes.m2v", "damaged.mp4"};
    static clip_outcome here, there;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[CLIP_PATH];
        clip_path(path, names[i]);
        assert_int_equal(access(path, R_OK), 0);
        clip_run(&here, path, "", ", threads: 1");
        clip_run(&there, path, "", ", threads: 1, device: 'sim:0'");
        assert_int_equal(there.in, here.in);
        assert_int_equal(there.count, here.count);
        assert_int_equal(there.corrupt, here.corrupt);
        for (size_t k = 0; k < here.count; k++)
            assert_string_equal(there.md5[k], here.md5[k]);
    }
}

/* Each failed copy loses exactly one frame. */
CLIP_TEST(failed_copies_are_accounted_for) {
    char path[CLIP_PATH];
    clip_path(path, "h264-420.mp4");
    clip_reference(path, &expected);
    clip_run(&result, path, "", ", device: 'sim:0?fail_every=40'");
    /* 24 pictures with three planes, each copied to the device and back: up to 144 copies. */
    assert_in_range(result.dropped, 1, 3);
    assert_int_equal(result.in, result.delivered + result.dropped);
    for (size_t k = 0; k < result.count; k++)
        assert_string_equal(result.md5[k], expected.md5[result.identity[k].seq]);
}

static void refuse(const char *decode, const char *words) {
    char text[1024];
    snprintf(text, sizeof text,
             "version: 1\npipeline: clip\nsources:\n  clip: {uri: test-clips/h264-420.mp4}\n"
             "stages:\n  decode: {input: clip%s}\n  out: {type: callback, input: decode}\n", decode);
    mr_pipeline_params params = {.types = mr_stage_types(), .path = "clip.yaml", .text = text};
    ENDED_BY(mr_diagnostics_fini) mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = NULL;
    assert_int_not_equal(mr_pipeline_open(&pipeline, &params, &wrong), MR_OK);
    expect_words(wrong.item[0].message, words);
}

CLIP_TEST(required_hardware_must_be_there) {
    refuse(", hardware: require", "hardware: require needs a CUDA device or a V4L2 decoder, and no /dev/video* ");
    refuse(", hardware: require, device: 'sim:0'", "hardware: require needs a CUDA device, and sim:0 is not one");
    mr_format_set deep = {.pixels = MR_IN_SET(MR_PIXEL_I420_12)}, plain = {.pixels = MR_IN_SET(MR_PIXEL_I420)};
    assert_int_equal(mr_nvdec_suits("h264", &plain), MR_OK);
    assert_int_equal(mr_nvdec_suits("av1", &plain), MR_OK);
    assert_int_equal(mr_nvdec_suits(NULL, &(mr_format_set){0}), MR_OK);
    assert_int_equal(mr_nvdec_suits("hevc", &deep), MR_ERROR_CONFIG);
    expect_words(mr_message(), "I420_12");
    assert_int_equal(mr_nvdec_suits("png", &plain), MR_ERROR_CONFIG);
    expect_words(mr_message(), "NVDEC does not take png");
    if (mr_hardware_check(MR_HARDWARE_REQUIRE, "cuda:0", mr_nvdec_check) != MR_OK)
        expect_words(mr_message(), "NVDEC");
    assert_int_equal(mr_hardware_check(MR_HARDWARE_AUTO, "cuda:0", mr_nvdec_check), MR_OK);
}

/* The plan lists the formats that a device's decoder can give. */
CLIP_TEST(layouts_of_hardware_are_foreseen) {
    mr_format_set set = {.pixels = MR_IN_SET(MR_PIXEL_I420)}, deep = {.pixels = MR_IN_SET(MR_PIXEL_I420_10)};
    mr_format_set full = {.pixels = MR_IN_SET(MR_PIXEL_I444)}, open = {0};
    mr_nvdec_widen(&set);
    mr_nvdec_widen(&deep);
    mr_nvdec_widen(&full);
    mr_nvdec_widen(&open);
    assert_int_equal(set.pixels, MR_IN_SET(MR_PIXEL_I420) | MR_IN_SET(MR_PIXEL_NV12));
    assert_int_equal(deep.pixels, MR_IN_SET(MR_PIXEL_I420_10) | MR_IN_SET(MR_PIXEL_P010));
    assert_int_equal(full.pixels, MR_IN_SET(MR_PIXEL_I444));
    assert_int_equal(open.pixels, 0);
}

RUN_TESTS(NULL, NULL)
