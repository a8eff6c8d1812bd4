/* Formats that media and decode announce before they run. They must match ffprobe and the decoded pictures. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libavutil/pixdesc.h>

#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "millrace/millrace.h"
#include "stages/decode/device/picture_layout.h"
#include "stages/media/picture_format.h"
#include "tests/support/clips.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"

/* ---- planning and running -------------------------------------------------------------------------------------- */

static const mr_plan_vertex *source_of(const mr_plan *plan) {
    return &plan->vertices[0];
}

static const mr_planned_output *pictures_of(const mr_plan *plan) {
    return &plan->vertices[1].outputs[0];
}

static void write_text(char text[2048], const char *path, const char *options) {
    char absolute[1024];
    if (strncmp(path, "lavfi:", 6) == 0)
        snprintf(absolute, sizeof absolute, "%s", path);
    else
        snprintf(absolute, sizeof absolute, "%s/%s", BINARY_DIR, path);
    snprintf(text, 2048,
             "version: 1\npipeline: clip\nsources:\n  clip: {uri: \"%s\"%s}\n"
             "stages:\n  decode: {input: clip}\n  out: {type: callback, input: decode}\n",
             absolute, options);
}

static mr_plan *plan_clip(const char *path, const char *options, bool offline) {
    char text[2048];
    mr_plan *plan;
    mr_diagnostics wrong = {0};
    write_text(text, path, options);
    const mr_spec_params spec = {.types = mr_stage_types(), .path = "clip.yaml", .text = text};
    const mr_plan_params params = {.inserted = &mr_pipeline_types, .workers = 2, .offline = offline};
    int status = mr_plan_load(&plan, &spec, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    assert_int_equal(status, MR_OK);
    mr_diagnostics_fini(&wrong);
    return plan;
}

/* Compares decoded pictures with the announced format. */
typedef struct arrivals {
    const mr_planned_output *announced;
    size_t frames, most_bytes;
    bool beyond; /* pictures can be larger */
} arrivals;

static void arrive(void *context, const char *source, const mr_frame *frame) {
    arrivals *seen = context;
    seen->frames++;
    size_t bytes = frame->plane[0].buffer->bytes;
    seen->most_bytes = bytes > seen->most_bytes ? bytes : seen->most_bytes;
    if (!seen->beyond && !mr_format_set_has(&seen->announced->set, &frame->format)) {
        char announced[MR_FORMAT_SET_TEXT], came[MR_FORMAT_TEXT];
        fprintf(stderr, "%s: announced %s, came %s\n", frame->media->path,
                mr_format_set_print(&seen->announced->set, announced, sizeof announced),
                mr_format_print(&frame->format, came, sizeof came));
    }
    if (!seen->beyond)
        assert_true(mr_format_set_has(&seen->announced->set, &frame->format));
    mr_format common = mr_format_set_common(&seen->announced->set);
    if (frame->media->still || seen->beyond)
        return;
    assert_int_equal(frame->format.matrix, common.matrix);
    assert_int_equal(frame->format.range, common.range);
    assert_int_equal(frame->format.siting, common.siting);
    assert_int_equal(frame->format.sar_num, common.sar_num);
    assert_int_equal(frame->format.sar_den, common.sar_den);
    assert_int_equal(frame->format.rotation, common.rotation);
    assert_int_equal(frame->format.flip, common.flip);
}

static void run_clip(const char *path, const char *options, arrivals *seen) {
    char text[2048];
    write_text(text, path, options);
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = "clip.yaml", .text = text, .workers = 2};
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = opened(&params);
    assert_int_equal(mr_pipeline_subscribe(pipeline, "out", arrive, seen), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, patience_ns()), MR_OK);
}

/* ---- videos ---------------------------------------------------------------------------------------------------- */

#define PATTERN "-f lavfi -i testsrc2=size=176x144:rate=25 -frames:v 8 "
#define ODD_PATTERN "-f lavfi -i testsrc2=size=175x143:rate=30000/1001 -frames:v 8 "
#define H264 "-c:v libx264 -preset veryfast -bf 2 -pix_fmt "

static const struct {
    const char *name, *arguments;
} clips[] = {
    {"said-420.mp4", PATTERN H264 "yuv420p"},
    {"said-444.mp4", ODD_PATTERN H264 "yuv444p"},
    {"said-gray.mkv", PATTERN H264 "gray"},
    {"said-rgb.mkv", PATTERN "-c:v libx264rgb -preset veryfast -pix_fmt rgb24"},
    {"said-422-10.ts", PATTERN H264 "yuv422p10le"},
    {"said-colour.mp4", PATTERN "-vf setsar=4/3 -colorspace bt2020nc -color_range pc " H264 "yuv420p"},
    {"said-large.mp4", "-f lavfi -i testsrc2=size=1920x1080:rate=25 -frames:v 2 " H264 "yuv420p"},
    {"said-hevc.mp4", PATTERN "-c:v libx265 -x265-params log-level=none -pix_fmt yuv420p10le"},
    {"said-vp9.webm", ODD_PATTERN "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -pix_fmt yuv420p"},
    {"said-mjpeg.avi", ODD_PATTERN "-c:v mjpeg -pix_fmt yuvj422p"},
    {"said-mpeg4.avi", PATTERN "-c:v mpeg4 -bf 2"},
    {"said-msmpeg4.avi", PATTERN "-c:v msmpeg4"},
    {"said-mpeg2.mpg", PATTERN "-c:v mpeg2video -bf 2"},
    {"said-alpha.mkv", PATTERN "-c:v ffv1 -pix_fmt yuva420p"},
    {"said-pal8.nut", PATTERN "-c:v rawvideo -pix_fmt pal8"},
    {"said-picture.gif", PATTERN ""},
};

/* If streams belong to programs, ffprobe prints them again after each program. */
static void assert_as_ffprobe(const char *path, const mr_plan_vertex *source) {
    enum { FIELDS = 6 };
    const mr_format_set *set = &source->outputs[0].set;
    FILE *out = clip_ask("ffprobe -v error -select_streams v:0 -show_entries "
                         "stream=codec_name,width,height,pix_fmt,r_frame_rate,nb_frames -of default=nw=1 '%s'", path);
    char field[32], answer[64];
    int fields = 0, num, den;
    for (; fields < FIELDS && fscanf(out, " %31[^=]=%63s", field, answer) == 2; fields++)
        if (strcmp(field, "codec_name") == 0) {
            assert_string_equal(set->codec, answer);
        } else if (strcmp(field, "width") == 0) {
            assert_int_equal(set->width.min, atoi(answer));
            assert_int_equal(set->width.max, atoi(answer));
        } else if (strcmp(field, "height") == 0) {
            assert_int_equal(set->height.max, atoi(answer));
        } else if (strcmp(field, "pix_fmt") == 0) {
            assert_int_equal(set->pixels, MR_IN_SET(mr_pixel_carried(av_get_pix_fmt(answer))));
        } else if (strcmp(field, "r_frame_rate") == 0) {
            assert_int_equal(sscanf(answer, "%d/%d", &num, &den), 2);
            assert_true(fabs(source->offer.rate - (double)num / den) < 0.01);
        } else {
            assert_string_equal(field, "nb_frames");
            assert_int_equal(source->offer.frames, strcmp(answer, "N/A") == 0 ? 0 : atoi(answer));
        }
    pclose(out);
    assert_int_equal(fields, FIELDS);
}

CLIP_TEST(streams_are_announced_as_by_ffprobe_and_come_so) {
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++) {
        char path[CLIP_PATH];
        print_message("    %s\n", clips[i].name);
        clip_make(path, clips[i].name, clips[i].arguments);
        ENDED_BY(mr_plan_destroy) mr_plan *plan = plan_clip(path, "", false);
        arrivals seen = {.announced = pictures_of(plan)};
        assert_as_ffprobe(path, source_of(plan));
        run_clip(path, "", &seen);
        assert_true(seen.frames > 0);
        assert_true(seen.most_bytes <= seen.announced->buffer_bytes);
        /* FFmpeg's memory for H.264 is known to the byte. */
        if (strcmp(source_of(plan)->outputs[0].set.codec, "h264") == 0)
            assert_int_equal(seen.most_bytes, seen.announced->buffer_bytes);
    }
}

CLIP_TEST(turned_streams_are_announced_turned) {
    char path[CLIP_PATH], turned[CLIP_PATH], arguments[2 * CLIP_PATH];
    clip_make(path, clips[0].name, clips[0].arguments);
    snprintf(arguments, sizeof arguments, "-i %s -c copy -metadata:s:v rotate=90", path);
    clip_make(turned, "said-turned.mp4", arguments);
    ENDED_BY(mr_plan_destroy) mr_plan *plan = plan_clip(turned, "", false);
    assert_int_equal(pictures_of(plan)->set.look.rotation, 270); /* ffmpeg's tag counts the other way */
    arrivals seen = {.announced = pictures_of(plan)};
    run_clip(turned, "", &seen);
}

static void assert_offer(const char *path, const char *options, double rate, bool paced, int64_t frames) {
    ENDED_BY(mr_plan_destroy) mr_plan *plan = plan_clip(path, options, false);
    const mr_plan_vertex *source = source_of(plan);
    assert_true(fabs(source->offer.rate - rate) < 1e-9);
    assert_int_equal(source->offer.paced, paced);
    assert_int_equal(source->offer.frames, frames);
}

CLIP_TEST(options_change_the_announced_format) {
    char path[CLIP_PATH];
    clip_make(path, clips[0].name, clips[0].arguments);
    assert_offer(path, "", 25, false, 8);
    assert_offer(path, ", loop: 3", 25, false, 24);
    assert_offer(path, ", loop: true, realtime: true", 25, true, 0);
    assert_offer(path, ", every: 2", 25, false, 8); /* all pictures need decoding */
    assert_offer(path, ", start: 40ms", 25, false, 0);
    assert_offer("lavfi:testsrc2=size=64x48:rate=12", "", 12, false, 0);
    ENDED_BY(mr_plan_destroy) mr_plan *plan = plan_clip("lavfi:testsrc2=size=64x48:rate=12", "", false);
    assert_string_equal(source_of(plan)->outputs[0].set.codec, "rawvideo");
    assert_int_equal(pictures_of(plan)->set.width.max, 64);
    assert_int_equal(pictures_of(plan)->set.pixels, MR_IN_SET(MR_PIXEL_I420));
    mr_plan_destroy(&plan);
    plan = plan_clip("no/such/file.mp4", ", realtime: true", true);
    assert_true(source_of(plan)->offer.paced);
    assert_int_equal(pictures_of(plan)->set.width.max, 0);
}

/* The plan uses the container's size. Larger pictures are still decoded. */
CLIP_TEST(larger_pictures_come_through) {
    char small[CLIP_PATH], large[CLIP_PATH], path[CLIP_PATH];
    clip_make(small, "said-small.m2v", "-f lavfi -i testsrc2=size=96x64:rate=25 -frames:v 8 -c:v mpeg2video");
    clip_make(large, "said-large.m2v", "-f lavfi -i testsrc2=size=320x240:rate=25 -frames:v 8 -c:v mpeg2video");
    clip_path(path, "said-sizes.m2v");
    clip_shell("cat %s %s %s > %s", small, large, small, path);
    ENDED_BY(mr_plan_destroy) mr_plan *plan = plan_clip(path, "", false);
    arrivals seen = {.announced = pictures_of(plan), .beyond = true};
    assert_int_equal(seen.announced->set.width.max, 96);
    run_clip(path, "", &seen);
    assert_true(seen.frames >= 22);
    assert_true(seen.most_bytes > seen.announced->buffer_bytes);
}

/* ---- images ---------------------------------------------------------------------------------------------------- */

/* Noise does not compress, so these files are longer than the first read of an image. */
static void make_images(void) {
    static const char *const made[][2] = {
        {"color=red:size=40x90", "1.png"},   {"color=red:size=310x30", "2.jpg"},
        {"testsrc2=size=50x60", "3.bmp"},    {"testsrc2=size=64x64,format=gray", "4.png"},
        {"testsrc2=size=51x61", "5.tif"},    {"testsrc2=size=52x62", "6.webp"},
        {"testsrc2=size=53x63", "7.gif"},    {"testsrc2=size=54x64,format=rgba64be", "8.png"},
        {"testsrc2=size=300x280,noise=alls=100:allf=t,format=rgb24", "9.png"},
        {"testsrc2=size=55x65", "10.ppm"},   {"testsrc2=size=300x282,noise=alls=100:allf=t,format=rgb24", "11.tif"}};
    clip_shell("rm -rf test-clips/said-images && mkdir -p test-clips/said-images");
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        clip_shell("ffmpeg -nostdin -v error -y -f lavfi -i '%s' -frames:v 1 test-clips/said-images/%s", made[i][0],
                   made[i][1]);
    clip_shell("cd test-clips/said-images && echo broken > 12.png && head -c 20 1.png > 13.png && touch 14.jpg");
}

CLIP_TEST(folders_are_bounded_by_their_images) {
    make_images();
    ENDED_BY(mr_plan_destroy) mr_plan *plan = plan_clip("test-clips/said-images", ", rate: 5fps", false);
    const mr_plan_vertex *source = source_of(plan);
    const mr_format_set *set = &pictures_of(plan)->set;
    assert_int_equal(source->offer.frames, 14);
    assert_true(source->offer.rate == 5);
    assert_null(source->outputs[0].set.codec);
    assert_int_equal(set->width.min, 40);
    assert_int_equal(set->width.max, 310);
    assert_int_equal(set->height.min, 30);
    assert_int_equal(set->height.max, 282);
    arrivals seen = {.announced = pictures_of(plan)};
    run_clip("test-clips/said-images", ", rate: 5fps", &seen);
    assert_int_equal(seen.frames, 11);
    assert_true(seen.most_bytes <= seen.announced->buffer_bytes);
}

CLIP_TEST(parts_of_folders_are_bounded_by_their_own) {
    make_images();
    ENDED_BY(mr_plan_destroy) mr_plan *plan = plan_clip("test-clips/said-images/*.jpg", "", false);
    assert_string_equal(source_of(plan)->outputs[0].set.codec, "mjpeg");
    assert_int_equal(pictures_of(plan)->set.width.min, 310);
    mr_plan_destroy(&plan);
    /* In natural order: 2.jpg and 3.bmp, twice. */
    plan = plan_clip("test-clips/said-images", ", rate: 10fps, start: 100ms, duration: 200ms, loop: 2", false);
    assert_int_equal(source_of(plan)->offer.frames, 4);
    assert_int_equal(pictures_of(plan)->set.height.min, 30);
    assert_int_equal(pictures_of(plan)->set.height.max, 60);
}

CLIP_TEST(many_images_are_left_open) {
    enum { SURVEYED = 10000 };
    clip_shell("rm -rf test-clips/said-many && mkdir -p test-clips/said-many && cd test-clips/said-many && "
               "ffmpeg -nostdin -v error -y -f lavfi -i testsrc=size=16x16 -frames:v 1 0.png");
    for (int i = 1; i <= SURVEYED; i++) {
        char name[64];
        snprintf(name, sizeof name, "test-clips/said-many/%d.png", i);
        assert_int_equal(link("test-clips/said-many/0.png", name), 0);
    }
    mr_plan *plan = plan_clip("test-clips/said-many", "", false);
    assert_int_equal(source_of(plan)->offer.frames, SURVEYED + 1);
    assert_int_equal(pictures_of(plan)->set.width.max, 0);
    assert_int_equal(pictures_of(plan)->set.pixels, 0);
    mr_plan_destroy(&plan);
    clip_shell("rm test-clips/said-many/10000.png");
    plan = plan_clip("test-clips/said-many", "", false);
    assert_int_equal(pictures_of(plan)->set.width.max, 16);
    mr_plan_destroy(&plan);
    clip_shell("rm -r test-clips/said-many");
}

/* ---- buffers --------------------------------------------------------------------------------------------------- */

/* max_pixels bounds unknown sizes. The largest layout needs eight bytes a pixel, including alpha. */
TEST(open_sizes_are_bounded_by_their_limit) {
    const mr_format_set any = {.payload = MR_PAYLOAD_PICTURE};
    size_t bytes = mr_picture_layout_bytes(NULL, &any, 1024 * 1024);
    assert_in_range(bytes, 8 * 1024 * 1024, 9 * 1024 * 1024);
    const mr_format_set gray = {.payload = MR_PAYLOAD_PICTURE, .pixels = MR_IN_SET(MR_PIXEL_GRAY8),
                                .width = {64, 640}, .height = {48, 480}};
    assert_in_range(mr_picture_layout_bytes("h264", &gray, 1 << 30), 640 * 480, 640 * 520);
}

RUN_TESTS(NULL, NULL)
