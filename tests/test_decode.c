/* Decoding: every picture as ffmpeg decodes it, at the time ffprobe tells, with one and with several threads;
 * what becomes of packets that give none; formats. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <libavutil/display.h>
#include <libavutil/imgutils.h>
#include <libavutil/md5.h>
#include <libavutil/mem.h>

#include "millrace/millrace.h"
#include "engine/device/device.h"
#include "stages/decode_device.h"
#include "stages/decode_format.h"
#include "stages/decode_pending.h"
#include "stages/decode_select.h"
#include "tests/support/clips.h"
#include "tests/support/opened.h"

/* ---- running a clip through media and decode ------------------------------------------------------------------- */

typedef struct outcome {
    int status;
    size_t count;
    mr_format format[CLIP_FRAMES];
    mr_identity identity[CLIP_FRAMES];
    int64_t pts_ns[CLIP_FRAMES];
    int64_t born_ns[CLIP_FRAMES];
    char md5[CLIP_FRAMES][CLIP_MD5];
    uint64_t in, delivered, dropped, absorbed, corrupt;
    bool balanced;
    char message[512];
} outcome;

static void digest(const mr_frame *frame, char text[CLIP_MD5]) {
    struct AVMD5 *md5 = av_md5_alloc();
    uint8_t sum[16];
    av_md5_init(md5);
    for (int plane = 0; plane < mr_pixel_describe(frame->format.pixel)->planes; plane++) {
        size_t bytes = mr_plane_row_bytes(frame->format.pixel, plane, frame->format.width);
        int32_t rows = mr_plane_rows(frame->format.pixel, plane, frame->format.height);
        const mr_plane *from = &frame->plane[plane];
        assert_true((size_t)(rows - 1) * (size_t)from->stride + bytes <= from->bytes);
        for (int32_t y = 0; y < rows; y++)
            av_md5_update(md5, from->data + y * from->stride, bytes);
    }
    av_md5_final(md5, sum);
    av_free(md5);
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", sum[i]);
}

static void take(void *context, const char *source, const mr_frame *frame) {
    outcome *result = context;
    (void)source;
    assert_in_range(result->count, 0, CLIP_FRAMES - 1);
    result->format[result->count] = frame->format;
    result->identity[result->count] = frame->identity;
    result->pts_ns[result->count] = frame->pts_ns;
    result->born_ns[result->count] = frame->born_ns;
    digest(frame, result->md5[result->count]);
    result->count++;
}

static void add_up(mr_pipeline *pipeline, outcome *result) {
    mr_summary *summary;
    assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
    result->in = summary->in;
    result->delivered = summary->delivered;
    result->dropped = summary->dropped;
    result->absorbed = summary->absorbed;
    result->balanced = summary->balanced && summary->in_flight == 0;
    for (size_t i = 0; i < summary->line_count; i++)
        if (strcmp(summary->lines[i].reason, "corrupt") == 0 && strcmp(summary->lines[i].stage, "decode") == 0)
            result->corrupt += summary->lines[i].frames;
    snprintf(result->message, sizeof result->message, "%s", summary->sources[0].message);
    mr_summary_destroy(&summary);
}

/* Not 0: runs on the caller's thread with a simulated clock. */
static uint64_t seed;

/* Runs one clip. `source` and `decode` are further options, each with a comma before it. */
static void run_clip(outcome *result, const char *path, const char *source, const char *decode) {
    char text[2048], absolute[4096];
    if (strncmp(path, "lavfi:", 6) == 0)
        snprintf(absolute, sizeof absolute, "%s", path);
    else
        assert_non_null(realpath(path, absolute));
    snprintf(text, sizeof text,
             "version: 1\npipeline: clip\nsources:\n  clip: {uri: \"%.900s\"%s}\n"
             "stages:\n  decode: {input: clip%s}\n  out: {type: callback, input: decode}\n",
             absolute, source, decode);
    mr_pipeline_params params = {
        .types = mr_stage_types(), .path = "clip.yaml", .text = text, .workers = 2, .seed = seed};
    *result = (outcome){0};
    mr_pipeline *pipeline = opened(&params);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "out", take, result), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    result->status = mr_pipeline_wait(pipeline, 120000000000);
    add_up(pipeline, result);
    mr_pipeline_destroy(&pipeline);
    assert_true(result->balanced);
    assert_int_equal(result->delivered, result->count);
}

static const char *const both_threads[] = {", threads: 1", ", threads: 2"};

static void assert_as_ffmpeg(const char *path) {
    static clip_frames expected;
    static outcome result;
    clip_reference(path, &expected);
    assert_true(expected.count > 0);
    for (int i = 0; i < 2; i++) {
        run_clip(&result, path, "", both_threads[i]);
        assert_int_equal(result.status, MR_OK);
        assert_int_equal(result.count, expected.count);
        for (size_t k = 0; k < expected.count; k++) {
            assert_string_equal(result.md5[k], expected.md5[k]);
            if (!isnan(expected.seconds[k]))
                assert_true(llabs(result.pts_ns[k] - (int64_t)(expected.seconds[k] * 1e9)) < 3000);
            assert_int_equal(result.identity[k].seq, k);
        }
    }
}

/* ---- codecs ---------------------------------------------------------------------------------------------------- */

#define PATTERN "-f lavfi -i testsrc2=size=176x144:rate=25 "
#define ODD_PATTERN "-f lavfi -i testsrc2=size=175x143:rate=25 "
#define H264 "-c:v libx264 -preset veryfast -bf 2 -g 10 -pix_fmt "

static const struct {
    const char *name, *arguments;
    mr_pixel pixel;
} codecs[] = {
    {"h264-420.mp4", PATTERN "-frames:v 24 " H264 "yuv420p", MR_PIXEL_I420},
    {"h264-444.mp4", PATTERN "-frames:v 24 " H264 "yuv444p", MR_PIXEL_I444},
    {"h264-422-10.mkv", PATTERN "-frames:v 24 " H264 "yuv422p10le", MR_PIXEL_I422_10},
    {"h264-tff.mp4", PATTERN "-frames:v 24 -flags +ilme+ildct " H264 "yuv420p", MR_PIXEL_I420},
    {"h264-odd.mkv", ODD_PATTERN "-frames:v 24 " H264 "yuv444p", MR_PIXEL_I444},
    {"h264.264", PATTERN "-frames:v 24 " H264 "yuv420p -f h264", MR_PIXEL_I420},
    {"h264.ts", PATTERN "-frames:v 24 " H264 "yuv420p", MR_PIXEL_I420},
    {"hevc-10.mp4", PATTERN "-frames:v 24 -c:v libx265 -x265-params log-level=none -pix_fmt yuv420p10le",
     MR_PIXEL_I420_10},
    {"vp9-odd.webm", ODD_PATTERN "-frames:v 24 -c:v libvpx-vp9 -deadline realtime -cpu-used 8 -pix_fmt yuv420p",
     MR_PIXEL_I420},
    {"vp8.webm", PATTERN "-frames:v 24 -c:v libvpx -deadline realtime -cpu-used 8 -pix_fmt yuv420p", MR_PIXEL_I420},
    {"av1.mkv", PATTERN "-frames:v 12 -c:v libaom-av1 -cpu-used 8 -usage realtime -pix_fmt yuv420p", MR_PIXEL_I420},
    {"mjpeg-odd.avi", ODD_PATTERN "-frames:v 12 -c:v mjpeg -pix_fmt yuvj422p", MR_PIXEL_I422},
    {"mpeg4-b.avi", PATTERN "-frames:v 24 -c:v mpeg4 -bf 2", MR_PIXEL_I420},
    {"mpeg2.mpg", PATTERN "-frames:v 24 -c:v mpeg2video -bf 2", MR_PIXEL_I420},
    {"ffv1-bgra.mkv", PATTERN "-frames:v 6 -c:v ffv1 -pix_fmt bgra", MR_PIXEL_BGRA},
    {"qtrle.mov", PATTERN "-frames:v 12 -c:v qtrle -pix_fmt rgb24", MR_PIXEL_RGB24},
    {"one.mp4", PATTERN "-frames:v 1 " H264 "yuv420p", MR_PIXEL_I420},
    {"vfr.mp4", PATTERN "-vf select='not(mod(n\\,3))+gt(n\\,20)' -vsync vfr -frames:v 24 " H264 "yuv420p",
     MR_PIXEL_I420},
};

static void pictures_are_those_of_ffmpeg(void **state) {
    (void)state;
    static outcome result;
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        char path[CLIP_PATH];
        print_message("    %s\n", codecs[i].name);
        clip_make(path, codecs[i].name, codecs[i].arguments);
        if (strcmp(codecs[i].name, "h264.264") == 0) { /* without times: only the pictures can be compared */
            static clip_frames expected;
            clip_reference("test-clips/h264-420.mp4", &expected);
            run_clip(&result, path, "", "");
            assert_int_equal(result.count, expected.count);
        } else {
            assert_as_ffmpeg(path);
            run_clip(&result, path, "", "");
        }
        assert_int_equal(result.format[0].pixel, codecs[i].pixel);
    }
}

/* Layouts that millrace has no name for are converted like swscale converts them to the layout next to them. */
static void odd_layouts_are_converted(void **state) {
    (void)state;
    static const char *const layouts[][2] = {{"yuv411p", "yuv422p"}, {"yuyv422", "yuv422p"}, {"rgb48le", "gbrp12le"},
                                             {"pal8", "rgba"}, {"monob", "gray"}, {"yuv444p14le", "yuv444p12le"}};
    static outcome result;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        char path[CLIP_PATH], name[64], arguments[512];
        snprintf(name, sizeof name, "raw-%s.nut", layouts[i][0]);
        snprintf(arguments, sizeof arguments, PATTERN "-frames:v 1 -c:v rawvideo -pix_fmt %s", layouts[i][0]);
        clip_make(path, name, arguments);
        run_clip(&result, path, "", "");
        char command[1024], expected[CLIP_MD5];
        snprintf(command, sizeof command,
                 "ffmpeg -nostdin -v quiet -i %s -sws_flags bilinear+accurate_rnd+full_chroma_inp "
                 "-pix_fmt %s -f framemd5 - | tail -n 1 | sed 's/.*, *//'",
                 path, layouts[i][1]);
        FILE *answer = popen(command, "r");
        assert_non_null(answer);
        assert_int_equal(fscanf(answer, "%32s", expected), 1);
        pclose(answer);
        assert_int_equal(result.count, 1);
        assert_int_equal(mr_pixel_to_av(result.format[0].pixel), av_get_pix_fmt(layouts[i][1]));
        assert_string_equal(result.md5[0], expected);
    }
}

/* ---- what becomes of packets ----------------------------------------------------------------------------------- */

static void spoil(const char *from, const char *to, long start_percent, int bytes) {
    clip_shell("cp %s %s && s=$(stat -c %%s %s) && head -c %d /dev/zero | tr '\\0' 'x' | "
               "dd of=%s bs=1 seek=$((s * %ld / 100)) conv=notrunc status=none",
               from, to, from, bytes, to, start_percent);
}

static void damage_is_counted_and_survived(void **state) {
    (void)state;
    static outcome result;
    char path[CLIP_PATH], damaged[CLIP_PATH];
    clip_make(path, "long.mp4", PATTERN "-frames:v 72 -movflags +faststart " H264 "yuv420p");
    clip_path(damaged, "damaged.mp4");
    spoil(path, damaged, 50, 4000);
    for (int i = 0; i < 2; i++) {
        run_clip(&result, damaged, "", both_threads[i]);
        assert_int_equal(result.status, MR_OK);
        assert_int_equal(result.in, 72);
        assert_true(result.corrupt > 0);
        assert_int_equal(result.delivered + result.corrupt, 72);
        assert_true(result.delivered >= 48);
        assert_int_equal(result.pts_ns[result.count - 1], 71 * INT64_C(40000000));
    }
}

static void truncated_files_give_what_they_have(void **state) {
    (void)state;
    static outcome result;
    char path[CLIP_PATH], truncated[CLIP_PATH];
    clip_make(path, "long.mp4", PATTERN "-frames:v 72 -movflags +faststart " H264 "yuv420p");
    clip_path(truncated, "truncated.mp4");
    clip_shell("s=$(stat -c %%s %s) && head -c $((s * 6 / 10)) %s > %s", path, path, truncated);
    run_clip(&result, truncated, "", "");
    assert_true(result.count > 24 && result.count < 72);
    assert_int_equal(result.in, result.delivered + result.dropped);
}

static void folders_lose_only_broken_images(void **state) {
    (void)state;
    static outcome result;
    clip_shell("rm -rf test-clips/some-broken && mkdir -p test-clips/some-broken && cd test-clips/some-broken && "
               "for i in 1 3; do ffmpeg -nostdin -v error -y -f lavfi -i testsrc=size=${i}10x4$i -frames:v 1 "
               "$i.png; done && "
               "ffmpeg -nostdin -v error -y -f lavfi -i testsrc=size=64x48 -frames:v 1 4.jpg && "
               "head -c 100 3.png > 2.png && touch 5.png");
    run_clip(&result, "test-clips/some-broken", "", "");
    assert_int_equal(result.status, MR_OK);
    assert_int_equal(result.in, 5);
    assert_int_equal(result.corrupt, 2);
    assert_int_equal(result.count, 3);
    assert_int_equal(result.format[0].width, 110);
    assert_int_equal(result.format[1].width, 310);
    assert_int_equal(result.format[2].width, 64);
    assert_int_equal(result.format[2].pixel, MR_PIXEL_I444);
    clip_shell("cd test-clips/some-broken && rm 1.png 3.png 4.jpg");
    run_clip(&result, "test-clips/some-broken", "", "");
    assert_int_equal(result.status, MR_ERROR_DATA);
    assert_int_equal(result.corrupt, 2);
    assert_non_null(strstr(result.message, "nothing could be decoded"));
}

static void size_may_change_in_mid_stream(void **state) {
    (void)state;
    static outcome result;
    char small[CLIP_PATH], large[CLIP_PATH], path[CLIP_PATH];
    clip_make(small, "small.m2v", "-f lavfi -i testsrc2=size=96x64:rate=25 -frames:v 8 -c:v mpeg2video");
    clip_make(large, "large.m2v", "-f lavfi -i testsrc2=size=320x240:rate=25 -frames:v 8 -c:v mpeg2video");
    clip_path(path, "sizes.m2v");
    clip_shell("cat %s %s %s > %s", small, large, small, path);
    run_clip(&result, path, "", "");
    assert_int_equal(result.status, MR_OK);
    size_t changes = 0;
    for (size_t i = 1; i < result.count; i++)
        changes += result.format[i].width != result.format[i - 1].width;
    assert_int_equal(changes, 2);
    assert_true(result.count >= 22);
}

/* ---- options --------------------------------------------------------------------------------------------------- */

static void selection_loop_and_skip(void **state) {
    (void)state;
    static outcome result;
    char path[CLIP_PATH];
    clip_make(path, "long.mp4", PATTERN "-frames:v 72 -movflags +faststart " H264 "yuv420p");
    run_clip(&result, path, ", every: 3", "");
    assert_int_equal(result.count, 24);
    assert_int_equal(result.in, 72);
    assert_int_equal(result.identity[5].seq, 15);
    assert_int_equal(result.pts_ns[5], 600000000);
    run_clip(&result, path, ", start: 1s, duration: 1s", "");
    assert_int_equal(result.count, 25);
    assert_int_equal(result.pts_ns[0], 1000000000);
    run_clip(&result, path, ", fps: 5", "");
    assert_int_equal(result.count, 15);
    run_clip(&result, path, ", loop: 2", "");
    assert_int_equal(result.count, 144);
    assert_int_equal(result.identity[72].epoch, 1);
    assert_int_equal(result.identity[72].seq, 0);
    assert_int_equal(result.pts_ns[72], 0);
    assert_string_equal(result.md5[72], result.md5[0]);
    run_clip(&result, path, "", ", skip: nonkey");
    assert_int_equal(result.count, 8);
    assert_int_equal(result.absorbed, 64);
    run_clip(&result, path, "", ", skip: nonref");
    assert_true(result.count < 60 && result.count + result.absorbed == 72);
}

static void paced_packets_come_at_their_times(void **state) {
    (void)state;
    static outcome result;
    seed = 7;
    run_clip(&result, "lavfi:testsrc2=size=64x48:rate=25:duration=0.4", ", realtime: true, loop: 3", "");
    seed = 0;
    assert_int_equal(result.count, 30);
    for (size_t i = 0; i < result.count; i++)
        assert_int_equal(result.born_ns[i] - result.born_ns[0], (int64_t)i * 40000000);
}

static void order_is_the_same_on_one_thread(void **state) {
    (void)state;
    static clip_frames expected;
    static outcome result;
    char path[CLIP_PATH];
    clip_make(path, "h264-420.mp4", codecs[0].arguments);
    clip_reference(path, &expected);
    for (seed = 1; seed < 4; seed++) {
        run_clip(&result, path, "", "");
        assert_int_equal(result.count, expected.count);
        for (size_t k = 0; k < expected.count; k++)
            assert_string_equal(result.md5[k], expected.md5[k]);
    }
    seed = 0;
}

static void formats_carry_rotation_and_colour(void **state) {
    (void)state;
    static outcome result;
    char path[CLIP_PATH], turned[CLIP_PATH], arguments[2 * CLIP_PATH];
    clip_make(path, "h264-420.mp4", codecs[0].arguments);
    snprintf(arguments, sizeof arguments, "-i %s -c copy -metadata:s:v rotate=90", path);
    clip_make(turned, "turned.mp4", arguments);
    run_clip(&result, turned, "", "");
    /* ffmpeg shows this clip turned counter-clockwise: its own tag counts that way. */
    assert_int_equal(result.format[0].rotation, 270);
    clip_make(path, "colour.mp4", PATTERN "-frames:v 2 -vf setsar=4/3 -colorspace bt2020nc -color_range pc "
              "-chroma_sample_location topleft " H264 "yuv420p");
    run_clip(&result, path, "", "");
    assert_int_equal(result.format[0].matrix, MR_MATRIX_BT2020);
    assert_int_equal(result.format[0].range, MR_RANGE_FULL);
    assert_int_equal(result.format[0].siting, MR_SITING_TOPLEFT);
    assert_int_equal(result.format[0].sar_num, 4);
    assert_int_equal(result.format[0].sar_den, 3);
    /* What the stream says is not overruled. */
    run_clip(&result, path, "", ", untagged: {matrix: bt601, range: limited}");
    assert_int_equal(result.format[0].matrix, MR_MATRIX_BT2020);
    assert_int_equal(result.format[0].range, MR_RANGE_FULL);
}

static void colours_of_streams_that_do_not_tell(void **state) {
    (void)state;
    static const struct {
        const char *size, *decode;
        mr_matrix matrix;
        mr_range range;
    } cases[] = {
        {"320x180", "", MR_MATRIX_BT601, MR_RANGE_LIMITED},
        {"1280x64", "", MR_MATRIX_BT709, MR_RANGE_LIMITED},
        {"64x720", "", MR_MATRIX_BT709, MR_RANGE_LIMITED},
        {"320x180", ", untagged: bt709", MR_MATRIX_BT709, MR_RANGE_LIMITED},
        {"1280x64", ", untagged: {matrix: bt601, range: full}", MR_MATRIX_BT601, MR_RANGE_FULL},
        {"320x180", ", untagged: {matrix: bt2020}", MR_MATRIX_BT2020, MR_RANGE_LIMITED},
    };
    static outcome result;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[CLIP_PATH], name[64], arguments[256];
        snprintf(name, sizeof name, "untagged-%s-yuv.mkv", cases[i].size);
        snprintf(arguments, sizeof arguments, "-f lavfi -i testsrc2=size=%s -frames:v 1 " H264 "yuv420p",
                 cases[i].size);
        clip_make(path, name, arguments);
        run_clip(&result, path, "", cases[i].decode);
        assert_int_equal(result.format[0].matrix, cases[i].matrix);
        assert_int_equal(result.format[0].range, cases[i].range);
    }
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static void display_matrices_are_read(void **state) {
    (void)state;
    for (int turn = 0; turn < 4; turn++)
        for (int mirror = 0; mirror < 2; mirror++) {
            int32_t matrix[9];
            av_display_rotation_set(matrix, 90.0 * turn); /* clockwise, as ours */
            if (mirror)
                av_display_matrix_flip(matrix, 1, 0);
            int16_t rotation;
            bool flip;
            assert_true(mr_rotation_from_matrix(matrix, &rotation, &flip));
            assert_int_equal(flip, mirror);
            /* av_display_matrix_flip mirrors after turning; millrace mirrors before, which turns the other way. */
            assert_int_equal(rotation, (mirror ? 4 - turn : turn) % 4 * 90);
        }
    int16_t rotation;
    bool flip;
    assert_false(mr_rotation_from_matrix((int32_t[9]){0}, &rotation, &flip));
}

static void layouts_have_the_bytes_of_ffmpeg(void **state) {
    (void)state;
    for (mr_pixel pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++) {
        enum AVPixelFormat format = mr_pixel_to_av(pixel);
        assert_int_not_equal(format, AV_PIX_FMT_NONE);
        assert_int_equal(mr_pixel_from_av(format), pixel);
        for (int plane = 0; plane < mr_pixel_describe(pixel)->planes; plane++)
            assert_int_equal(av_image_get_linesize(format, 33, plane), mr_plane_row_bytes(pixel, plane, 33));
    }
}

static void every_layout_of_ffmpeg_has_a_place(void **state) {
    (void)state;
    for (int format = 0; format < AV_PIX_FMT_NB; format++) {
        const AVPixFmtDescriptor *descriptor = av_pix_fmt_desc_get(format);
        enum AVPixelFormat converted;
        if (!descriptor || descriptor->flags & AV_PIX_FMT_FLAG_HWACCEL || !sws_isSupportedInput(format))
            continue;
        assert_int_not_equal(mr_pixel_nearest(format, &converted), MR_PIXEL_ANY);
        assert_true(sws_isSupportedOutput(converted));
    }
}

static void selection_follows_time_and_number(void **state) {
    (void)state;
    mr_selection selection;
    mr_media media = {.start_ns = 1000000000, .end_ns = 2000000000, .every = 2};
    mr_selection_begin(&selection);
    int wanted = 0;
    for (int64_t i = 0; i < 75; i++)
        wanted += mr_selection_wants(&selection, &media, i * 40000000);
    assert_int_equal(wanted, 13);
    /* 29.97 pictures a second, thinned to ten: one in each tenth of a second. */
    media = (mr_media){.fps = 10};
    mr_selection_begin(&selection);
    for (int64_t i = 0, last = -1; i < 300; i++) {
        int64_t time = i * 1001 * 1000000 / 30;
        if (!mr_selection_wants(&selection, &media, time))
            continue;
        assert_true(time / 100000000 > last);
        last = time / 100000000;
    }
    media = (mr_media){.fps = 10, .every = 3};
    mr_selection_begin(&selection);
    assert_true(mr_selection_wants(&selection, &media, MR_NO_TIME));
    assert_false(mr_selection_wants(&selection, &media, MR_NO_TIME));
}

/* ---- for a device ---------------------------------------------------------------------------------------------- */

/* A device without a decoder: software decodes, and the pictures are copied there and home again. */
static void pictures_for_a_device_are_the_same(void **state) {
    (void)state;
    static const char *const options[] = {", device: 'sim:0'", ", device: 'sim:0', threads: 2, hardware: 'off'"};
    static const char *const names[] = {"h264-420.mp4", "vfr.mp4"};
    static clip_frames expected;
    static outcome result;
    uint64_t misuses = mr_sim_misuses();
    for (size_t i = 0; i < 4; i++) {
        char path[CLIP_PATH];
        clip_path(path, names[i / 2]);
        clip_reference(path, &expected);
        run_clip(&result, path, "", options[i % 2]);
        assert_int_equal(result.status, MR_OK);
        assert_int_equal(result.count, expected.count);
        for (size_t k = 0; k < expected.count; k++)
            assert_string_equal(result.md5[k], expected.md5[k]);
    }
    assert_int_equal(mr_sim_misuses(), misuses);
}

/* Layouts that have to be converted, and pictures of several sizes, take the same way as on the processors. */
static void odd_pictures_for_a_device_are_the_same(void **state) {
    (void)state;
    static const char *const names[] = {"raw-yuv411p.nut", "raw-pal8.nut", "sizes.m2v", "damaged.mp4"};
    static outcome here, there;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[CLIP_PATH];
        clip_path(path, names[i]);
        assert_int_equal(access(path, R_OK), 0);
        run_clip(&here, path, "", "");
        run_clip(&there, path, "", ", device: 'sim:0'");
        assert_int_equal(there.in, here.in);
        assert_int_equal(there.count, here.count);
        assert_int_equal(there.corrupt, here.corrupt);
        for (size_t k = 0; k < here.count; k++)
            assert_string_equal(there.md5[k], here.md5[k]);
    }
}

/* Each copy that fails loses its frame, and no other. */
static void failed_copies_are_accounted_for(void **state) {
    (void)state;
    static clip_frames expected;
    static outcome result;
    char path[CLIP_PATH];
    clip_path(path, "h264-420.mp4");
    clip_reference(path, &expected);
    run_clip(&result, path, "", ", device: 'sim:0?fail_every=40'");
    /* Three planes of 24 pictures are copied to the device, and of those that came there, home again: up to 144 copies. */
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
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = NULL;
    assert_int_not_equal(mr_pipeline_open(&pipeline, &params, &wrong), MR_OK);
    assert_non_null(strstr(wrong.item[0].message, words));
    mr_diagnostics_fini(&wrong);
}

static void required_hardware_must_be_there(void **state) {
    (void)state;
    refuse(", hardware: require", "hardware: require needs a CUDA device, and cpu is none");
    refuse(", hardware: require, device: 'sim:0'", "hardware: require needs a CUDA device, and sim:0 is none");
    if (mr_decode_device_check(MR_HARDWARE_REQUIRE, "cuda:0") != MR_OK)
        assert_non_null(strstr(mr_message(), "NVDEC"));
    assert_int_equal(mr_decode_device_check(MR_HARDWARE_AUTO, "cuda:0"), MR_OK);
}

/* What may come of a device's decoder is planned with. */
static void layouts_of_hardware_are_foreseen(void **state) {
    (void)state;
    mr_format_set set = {.pixels = MR_IN_SET(MR_PIXEL_I420)}, deep = {.pixels = MR_IN_SET(MR_PIXEL_I420_10)};
    mr_format_set full = {.pixels = MR_IN_SET(MR_PIXEL_I444)}, open = {0};
    mr_decode_device_widen(&set);
    mr_decode_device_widen(&deep);
    mr_decode_device_widen(&full);
    mr_decode_device_widen(&open);
    assert_int_equal(set.pixels, MR_IN_SET(MR_PIXEL_I420) | MR_IN_SET(MR_PIXEL_NV12));
    assert_int_equal(deep.pixels, MR_IN_SET(MR_PIXEL_I420_10) | MR_IN_SET(MR_PIXEL_P010));
    assert_int_equal(full.pixels, MR_IN_SET(MR_PIXEL_I444));
    assert_int_equal(open.pixels, 0);
}

int main(void) {
    const struct CMUnitTest parts[] = {cmocka_unit_test(display_matrices_are_read),
                                       cmocka_unit_test(layouts_have_the_bytes_of_ffmpeg),
                                       cmocka_unit_test(every_layout_of_ffmpeg_has_a_place),
                                       cmocka_unit_test(selection_follows_time_and_number)};
    const struct CMUnitTest clips[] = {
        cmocka_unit_test(pictures_are_those_of_ffmpeg),
        cmocka_unit_test(odd_layouts_are_converted),
        cmocka_unit_test(damage_is_counted_and_survived),
        cmocka_unit_test(truncated_files_give_what_they_have),
        cmocka_unit_test(folders_lose_only_broken_images),
        cmocka_unit_test(size_may_change_in_mid_stream),
        cmocka_unit_test(selection_loop_and_skip),
        cmocka_unit_test(paced_packets_come_at_their_times),
        cmocka_unit_test(order_is_the_same_on_one_thread),
        cmocka_unit_test(pictures_for_a_device_are_the_same),
        cmocka_unit_test(odd_pictures_for_a_device_are_the_same),
        cmocka_unit_test(failed_copies_are_accounted_for),
        cmocka_unit_test(required_hardware_must_be_there),
        cmocka_unit_test(layouts_of_hardware_are_foreseen),
        cmocka_unit_test(formats_carry_rotation_and_colour),
        cmocka_unit_test(colours_of_streams_that_do_not_tell),
    };
    int failed = cmocka_run_group_tests(parts, NULL, NULL);
    return clips_available() ? failed + cmocka_run_group_tests(clips, NULL, NULL) : failed;
}
