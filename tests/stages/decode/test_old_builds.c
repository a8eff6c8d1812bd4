/* An H.264 4:4:4 clip from an x264 build before 151. Only the first packet names the build. A decoder that starts later
 * must still match ffmpeg, which decodes everything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "millrace/millrace.h"
#include "tests/support/decoded.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

#define CLIP "/usr/lib/python3/dist-packages/imageio/resources/images/cockatoo.mp4"

/* The clip has three groups; no picture depends on another group. */
enum { FRAMES = 280, SECOND_GROUP = 76, FROM = 5, FLIPS = 60, STEP_NS = 50000000 };
static const int threads[] = {1, 3, 8};
enum { THREADS = sizeof threads / sizeof *threads };

static clip_frames expected;
static clip_outcome result;

static void need_clip(void) {
    need_clips();
    if (access(CLIP, R_OK) != 0) {
        print_message("skipped: there is no " CLIP "\n");
        skip();
    }
    if (!expected.count)
        clip_reference(CLIP, &expected);
    assert_int_equal(expected.count, FRAMES);
}

/* All pictures from `first` on must come, and each wrong one must be marked. The `left` first pictures are not
 * selected. */
static void expect_pictures(size_t first, size_t left) {
    bool right[FRAMES];
    assert_int_equal(result.status, MR_OK);
    clip_find_right(&result, &expected, STEP_NS, right, FRAMES);
    for (size_t i = 0; i < left; i++)
        assert_false(right[i]);
    for (size_t i = first; i < FRAMES; i++)
        if (!right[i])
            fail_msg("picture %zu is missing", i);
}

TEST_THAT(from_the_middle, need_clip) {
    for (size_t i = 0; i < THREADS; i++) {
        char decode[32];
        snprintf(decode, sizeof decode, ", threads: %d", threads[i]);
        clip_run(&result, CLIP, ", start: 4s", decode);
        assert_int_equal(result.count, FRAMES - 80);
        expect_pictures(80, 80);
    }
}

/* Flips bytes in the first group's packets, except the first few. */
static void damage(const char *path) {
    static long at[FRAMES], bytes[FRAMES];
    char whole[CLIP_PATH];
    clip_make(whole, "old-build.mp4", "-i " CLIP " -map 0:v -c copy");
    clip_shell("cp '%s' '%s'", whole, path);
    FILE *answer = clip_ask("ffprobe -v quiet -select_streams v:0 -show_entries packet=size,pos -of csv=p=0 '%s'",
                            whole);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    for (int i = 0; i < SECOND_GROUP; i++)
        assert_int_equal(fscanf(answer, "%ld,%ld", &bytes[i], &at[i]), 2);
    for (int i = 0; i < FLIPS; i++) {
        const int number = between(FROM, SECOND_GROUP - 1);
        const long place = at[number] + between(0, (int)bytes[number] - 1);
        assert_int_equal(fseek(file, place, SEEK_SET), 0);
        const int byte = fgetc(file);
        assert_int_equal(fseek(file, place, SEEK_SET), 0);
        fputc(byte ^ between(1, 255), file);
    }
    pclose(answer);
    fclose(file);
}

TEST_THAT(behind_damage, need_clip) {
    char path[CLIP_PATH], name[64], decode[64];
    snprintf(name, sizeof name, "old-build-%d.mp4", getpid());
    clip_path(path, name);
    damage(path);
    for (size_t i = 0; i < THREADS; i++) {
        snprintf(decode, sizeof decode, ", threads: %d, damaged: %s", threads[i], i % 2 ? "mark" : "drop");
        clip_run(&result, path, "", decode);
        assert_true(result.corrupt > 0 || i % 2);
        expect_pictures(SECOND_GROUP, 0);
    }
    remove(path);
}

RUN_TESTS(NULL, NULL)
