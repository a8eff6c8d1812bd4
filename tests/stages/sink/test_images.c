/* The images sink: names, refused options, and pixels as ffmpeg converts them. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "millrace/millrace.h"
#include "tests/support/clips.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"

static const char folder[] = "test-clips/images-out";

/* Runs a clip into `folder`. `source` and `images` are further options, each after a comma. If the pipeline is refused,
 * returns the status, with the message in `said`. */
static int run_into(const char *clip, const char *source, const char *images, char said[512]) {
    char text[4096], absolute[1024], out[1024];
    assert_non_null(getcwd(out, 900));
    snprintf(absolute, sizeof absolute, "%.500s/%.500s", out, clip);
    snprintf(text, sizeof text, "version: 1\npipeline: images\nsources:\n  a_b: {uri: \"%s\"%s}\nstages:\n"
             "  decode: {input: a_b}\n  out: {type: images, input: decode, path: \"%s/%s\"%s}\n",
             strncmp(clip, "lavfi:", 6) == 0 ? clip : absolute, source, out, folder, images);
    mr_pipeline_params params = {.types = mr_stage_types(), .path = "images.yaml", .text = text, .workers = 1};
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline;
    int status = mr_pipeline_open(&pipeline, &params, &wrong);
    snprintf(said, 512, "%s", wrong.count ? wrong.item[0].message : "");
    mr_diagnostics_fini(&wrong);
    if (status)
        return status;
    status = mr_pipeline_start(pipeline);
    if (!status)
        status = mr_pipeline_wait(pipeline, patience_ns());
    snprintf(said, 512, "%s", mr_message());
    mr_summary *summary = summed(pipeline);
    mr_summary_destroy(&summary);
    mr_pipeline_destroy(&pipeline);
    return status;
}

static void empty_folder(void) {
    clip_shell("mkdir -p test-clips && rm -rf %s", folder);
}

static void assert_exists(const char *name, bool expected) {
    char path[CLIP_PATH];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if ((access(path, F_OK) == 0) != expected)
        fail_msg("%s %s", path, expected ? "is missing" : "should not be there");
}

#define PATTERN "lavfi:testsrc2=size=64x48:rate=25:duration=0.12"

TEST(names_follow_the_pattern) {
    char said[512];
    empty_folder();
    assert_int_equal(run_into(PATTERN, "", "", said), MR_OK);
    assert_exists("a_b-000000.png", true);
    assert_exists("a_b-000002.png", true);
    assert_exists("a_b-000003.png", false);
    empty_folder();
    assert_int_equal(run_into(PATTERN, ", loop: 2", "", said), MR_OK);
    assert_exists("a_b-000002.png", true);
    assert_exists("a_b-1-000002.png", true);
    empty_folder();
    assert_int_equal(run_into(PATTERN, ", loop: 2", ", name: \"{epoch}.{sub}_{seq}.png\"", said), MR_OK);
    assert_exists("1.0_000001.png", true);
}

TEST(wrong_names_and_full_folders_are_refused) {
    static const char *const wrong[] = {", name: \"{source}.png\"", ", name: \"../{seq}.png\"",
                                        ", name: \"{seq}{x}.png\""};
    char said[512];
    empty_folder();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(run_into(PATTERN, "", wrong[i], said), MR_ERROR_CONFIG);
        expect_words(said, "{seq}");
    }
    assert_int_equal(run_into(PATTERN, "", "", said), MR_OK);
    assert_int_equal(run_into(PATTERN, "", "", said), MR_ERROR_CONFIG);
    expect_words(said, "overwrite");
    assert_int_equal(run_into(PATTERN, "", ", overwrite: true", said), MR_OK);
    /* A restarted service must keep the pictures from the last start. */
    assert_int_equal(run_into(PATTERN, "", ", name: \"{source}-{time}-{seq}.png\"", said), MR_OK);
    assert_exists("a_b-000002.png", true);
}

/* A file size limit simulates a full disk. */
TEST(a_failed_write_ends_the_run) {
    char said[512];
    struct rlimit before;
    empty_folder();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    struct rlimit small = {.rlim_cur = 200, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int status = run_into(PATTERN, "", "", said);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, MR_ERROR_IO);
    assert_exists("a_b-000000.png", false);
    assert_exists("a_b-000000.png.part", false);
}

/* Compares the file's pixels with the clip's, both in `layout`, with ffmpeg. Bytes may differ by at most
 * `tolerance`. */
static void assert_pixels(const char *clip, const char *layout, const char *filter, int tolerance) {
    char said[512], command[2048];
    empty_folder();
    assert_int_equal(run_into(clip, "", "", said), MR_OK);
    snprintf(command, sizeof command,
             "ffmpeg -nostdin -v error -y -i %s/a_b-000000.png -f rawvideo -pix_fmt %s test-clips/written.raw && "
             "ffmpeg -nostdin -v error -y -i %s -frames:v 1 -vf '%s' -f rawvideo -pix_fmt %s test-clips/expected.raw",
             folder, layout, clip, filter, layout);
    clip_shell("%s", command);
    FILE *a = fopen("test-clips/written.raw", "rb"), *b = fopen("test-clips/expected.raw", "rb");
    assert_non_null(a);
    assert_non_null(b);
    int worst = 0, x, y;
    long count = 0;
    while (x = getc(a), y = getc(b), x != EOF && y != EOF) {
        worst = abs(x - y) > worst ? abs(x - y) : worst;
        count++;
    }
    assert_int_equal(x, y);
    assert_true(count > 1000);
    fclose(a);
    fclose(b);
    if (worst > tolerance)
        fail_msg("%s: differs by up to %d", clip, worst);
}

CLIP_TEST(pixels_are_those_of_ffmpeg) {
    char path[CLIP_PATH];
    /* No conversion, so exact. */
    clip_make(path, "rgba.mov", "-f lavfi -i testsrc2=size=66x50 -frames:v 1 -c:v png -pix_fmt rgba");
    assert_pixels(path, "rgba", "null", 0);
    clip_make(path, "gray16.mkv", "-f lavfi -i testsrc2=size=66x50 -frames:v 1 -c:v ffv1 -pix_fmt gray16le");
    assert_pixels(path, "gray16le", "null", 0);
    clip_make(path, "gbr10.mkv", "-f lavfi -i testsrc2=size=66x50 -frames:v 1 -c:v ffv1 -pix_fmt gbrp10le -strict 1");
    assert_pixels(path, "gbrp10le", "null", 0);
    /* 4:4:4 with another matrix and range: both sides round. */
    clip_make(path, "709.mkv", "-f lavfi -i testsrc2=size=66x50 -frames:v 1 -vf scale=out_color_matrix=bt709 "
              "-colorspace bt709 -c:v ffv1 -pix_fmt yuv444p");
    assert_pixels(path, "rgb24", "scale=in_color_matrix=bt709:flags=bilinear+accurate_rnd+full_chroma_int", 1);
    clip_make(path, "601-full.mkv", "-f lavfi -i testsrc2=size=66x50 -frames:v 1 "
              "-vf scale=out_color_matrix=bt601:out_range=pc -colorspace smpte170m -color_range pc -c:v ffv1 "
              "-pix_fmt yuv444p");
    assert_pixels(path, "rgb24",
                  "scale=in_color_matrix=bt601:in_range=pc:flags=bilinear+accurate_rnd+full_chroma_int", 1);
}

RUN_TESTS(NULL, NULL)
