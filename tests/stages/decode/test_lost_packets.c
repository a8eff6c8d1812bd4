/* Transport streams with missing packets, compared with the whole stream. Each wrong picture must be marked, and groups
 * without a loss must be complete. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "millrace/millrace.h"
#include "tests/support/decoded.h"
#include "tests/support/sanitized.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

static clip_frames expected;
static clip_outcome result;

enum { FRAMES = 72, GROUP = 12, LOSSES = UNDER_TSAN(3, UNDER_ASAN(3, 8)), MOST_LOST = 4, TS = 188, PID = 0x100 };
enum { STEP_NS = 40000000 };

#define PICTURES CLIP_PATTERN "-vf noise=alls=12:all_seed=3:allf=t -frames:v 72 -pix_fmt yuv420p "
#define X264 PICTURES "-c:v libx264 -preset veryfast -sc_threshold 0 -g 12 "
#define X265 PICTURES "-c:v libx265 -preset ultrafast -x265-params log-level=none:scenecut=0:keyint=12:min-keyint=12"

static const struct {
    const char *name, *arguments;
    bool closed; /* groups of twelve pictures that depend on no other group */
} streams[] = {
    {"forward.ts", X264 "-bf 0", true},
    {"b.ts", X264 "-bf 2", true},
    {"slices.ts", X264 "-bf 0 -x264-params slices=4", true},
    {"pyramid-open.ts", X264 "-bf 3 -x264-params open-gop=1:b-pyramid=normal:b-adapt=0", false},
    {"refresh.ts", X264 "-bf 0 -x264-params intra-refresh=1", false},
    {"hevc-forward.ts", X265 ":bframes=0", true},
    {"hevc-b.ts", X265 ":bframes=2:open-gop=0", true},
    {"hevc-open.ts", X265 ":bframes=3:open-gop=1", false},
    {"mpeg2.ts", PICTURES "-c:v mpeg2video -bf 2 -g 12 -b:v 2M", false},
};

typedef struct file {
    uint8_t *data;
    size_t count; /* number of packets */
} file;

static bool is_of_pictures(const uint8_t *packet) {
    return ((packet[1] & 0x1f) << 8 | packet[2]) == PID;
}

/* Writes the stream without up to four picture packets, or runs of packets, after the first pictures. Sets `hit` for
 * each group with losses, by picture number in decode order. */
static void lose(const file *whole, const char *to, bool hit[FRAMES / GROUP]) {
    enum { FIRST = 6 };
    FREED bool *gone = calloc(whole->count, sizeof *gone);
    assert_non_null(gone);
    size_t pictures = 0;
    for (int i = between(1, MOST_LOST); i > 0; i--)
        for (size_t at = (size_t)between(0, (int)whole->count - 1), left = (size_t)between(1, 3);
             left > 0 && at < whole->count; at++)
            if (is_of_pictures(whole->data + at * TS)) {
                gone[at] = true;
                left--;
            }
    FILE *out = fopen(to, "wb");
    assert_non_null(out);
    memset(hit, 0, FRAMES / GROUP * sizeof *hit);
    for (size_t i = 0; i < whole->count; i++) {
        const uint8_t *packet = whole->data + i * TS;
        pictures += is_of_pictures(packet) && packet[1] & 0x40;
        if (!gone[i] || pictures <= FIRST)
            assert_int_equal(fwrite(packet, TS, 1, out), 1);
        else
            hit[(pictures - 1) / GROUP] = true;
    }
    assert_int_equal(fclose(out), 0);
}

static void check(const char *path, size_t stream, const bool hit[FRAMES / GROUP],
                  const char *how, int threads) {
    bool right[FRAMES];
    char decode[64];
    snprintf(decode, sizeof decode, ", threads: %d, damaged: %s", threads, how);
    clip_run(&result, path, "", decode);
    assert_int_equal(result.status, MR_OK);
    clip_find_right(&result, &expected, STEP_NS, right, FRAMES);
    /* If a key is lost, a decoder returns the last pictures before it late. */
    for (size_t i = 0; streams[stream].closed && i < FRAMES; i++) {
        const size_t group = i / GROUP;
        if (!hit[group] && !right[i] && (group + 1 == FRAMES / GROUP || !hit[group + 1]))
            fail_msg("picture %zu is missing", i);
    }
}

CLIP_TEST(what_is_made_of_lost_packets_is_not_given) {
    static uint8_t data[4 << 20];
    char path[CLIP_PATH], lacking[CLIP_PATH], name[64];
    bool hit[FRAMES / GROUP];
    for (size_t stream = 0; stream < sizeof streams / sizeof *streams; stream++) {
        snprintf(name, sizeof name, "lost-%s", streams[stream].name);
        clip_make(path, name, streams[stream].arguments);
        clip_reference(path, &expected);
        assert_int_equal(expected.count, FRAMES);
        const file whole = {data, read_bytes(path, data, sizeof data) / TS};
        snprintf(name, sizeof name, "lacking-%d-%s", getpid(), streams[stream].name);
        clip_path(lacking, name);
        for (int i = 0; i < LOSSES; i++) {
            random_state = seed + (uint64_t)i;
            draw();
            lose(&whole, lacking, hit);
            print_message("    %s %d\n", streams[stream].name, i);
            check(lacking, stream, hit, i % 2 ? "mark" : "drop", 1 + i % 4);
        }
        remove(lacking);
    }
}

/* If reading begins in the middle, the first picture must be right, and none may be missing, for every position. */
CLIP_TEST(pictures_from_the_start_on_are_right) {
    static const int starts[] = {40, 480, 960, 1000, 1440, 2360, 2840};
    char path[CLIP_PATH], name[64], source[64];
    for (size_t stream = 0; stream < 2 * (sizeof streams / sizeof *streams); stream++) {
        const char *of = streams[stream / 2].name;
        snprintf(name, sizeof name, "lost-%s", of);
        if (stream % 2) /* with an index */
            snprintf(name + strlen(name) - 2, 4, "mkv");
        clip_make(path, name, streams[stream / 2].arguments);
        clip_reference(path, &expected);
        for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
            const size_t first = (size_t)starts[i] / 40;
            print_message("    %s from %d ms\n", name, starts[i]);
            snprintf(source, sizeof source, ", start: %dms", starts[i]);
            clip_run(&result, path, source, "");
            clip_expect(&result, &expected, first, 1);
        }
    }
}

RUN_TESTS(NULL, NULL)
