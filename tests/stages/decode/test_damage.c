/* Decodes damaged files on any number of threads and compares with ffmpeg's pictures from the whole file. Each wrong
 * picture must be marked, and an undamaged group must lose no picture. Damage is noise, or blocks of zeros as disks
 * leave them. The H.264 and AV1 decoders do not notice all noise, and HEVC's almost none. They do not notice all zeros
 * either, but zeros are found in the packets (stages/media/coded/zeros.h). On ARM64, H.264's CABAC reader stops at a
 * packet's end, and a few zeros in the first packets are not found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "millrace/millrace.h"
#include "tests/support/decoded.h"
#include "tests/support/sanitized.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

static clip_frames expected;
static clip_outcome result;

enum { FRAMES = 72, GROUP = 12, DAMAGES = UNDER_TSAN(2, UNDER_ASAN(3, 12)), MOST_HITS = 3, STEP_NS = 40000000 };
typedef enum fill { ZEROS, NOISE } fill;

#define PICTURES CLIP_PATTERN "-vf noise=alls=12:all_seed=3:allf=t -frames:v 72 "
#define X264 PICTURES "-c:v libx264 -preset veryfast -sc_threshold 0 -pix_fmt yuv420p "
#define X265 PICTURES "-c:v libx265 -preset veryfast -pix_fmt yuv420p -x265-params log-level=none:scenecut=0:"

/* Whether the H.264 decoder misses zeros at the end of CABAC data. */
#ifdef __aarch64__
enum { MISSED = true };
#else
enum { MISSED = false };
#endif

static const struct {
    const char *name, *arguments;
    fill fill;
    bool closed;    /* groups of twelve packets that depend on no other group */
    bool unnoticed; /* the decoder misses some damage: only compare numbers of threads */
    bool apart;     /* do not even compare those: libavcodec's frame threads are late after a recovery point */
    long least;     /* how many bytes zeros cover at least: in the first packets, fewer can be padding */
} streams[] = {
    {"closed.mp4", X264 "-bf 2 -x264-params keyint=12:b-pyramid=none", ZEROS, true, MISSED, false, 1},
    {"pyramid.mp4", X264 "-x264-params keyint=12:bframes=3:b-pyramid=normal:b-adapt=0", ZEROS, true, MISSED, false, 1},
    {"forward.mp4", X264 "-tune zerolatency -x264-params keyint=12", ZEROS, true, MISSED, false, 1},
    {"slices.mp4", X264 "-x264-params keyint=12:slices=4:cabac=0:bframes=2", ZEROS, true, false, false, 1},
    {"open.mp4", X264 "-x264-params keyint=12:cabac=0:open-gop=1:bframes=3:b-pyramid=normal:b-adapt=0", ZEROS, false,
     false, false, 1},
    {"refresh.mp4", X264 "-x264-params keyint=24:intra-refresh=1:bframes=0", ZEROS, false, MISSED, true, 1},
    {"hevc.mp4", X265 "keyint=12:min-keyint=12:open-gop=0:bframes=2", ZEROS, true, false, false, 32},
    {"hevc-forward.mp4", X265 "keyint=12:min-keyint=12:open-gop=0:bframes=0:slices=2", ZEROS, true, false, false,
     32},
    {"mpeg2.mp4", PICTURES "-c:v mpeg2video -bf 2 -g 12 -b:v 1M", NOISE, false, false, false, 1},
    {"mpeg4.mp4", PICTURES "-c:v mpeg4 -bf 2 -g 12 -b:v 1M", NOISE, false, false, false, 1},
    {"msmpeg4.avi", PICTURES "-c:v msmpeg4 -g 12 -b:v 1M", ZEROS, false, false, false, 1},
    {"mjpeg.avi", PICTURES "-c:v mjpeg -q:v 5", ZEROS, true, true, false, 1},
    {"av1.mp4", PICTURES "-c:v libaom-av1 -cpu-used 8 -usage realtime -g 12 -pix_fmt yuv420p", NOISE, false, true,
     false, 1},
};
static const int threads[] = {1, 2, 3, 4, 8, 16};
enum { THREADS = sizeof threads / sizeof *threads };

/* ---- damage ------------------------------------------------------------------------------------------------------ */

typedef struct packets {
    size_t count;
    long at[FRAMES], bytes[FRAMES]; /* in the file */
} packets;

static void find_packets(packets *found, const char *path) {
    FILE *answer = clip_ask("ffprobe -v quiet -select_streams v:0 -show_entries packet=size,pos -of csv=p=0 '%s'",
                            path);
    *found = (packets){0};
    for (size_t i = 0; i < FRAMES && fscanf(answer, "%ld,%ld", &found->bytes[i], &found->at[i]) == 2; i++)
        found->count++;
    pclose(answer);
    assert_int_equal(found->count, FRAMES);
}

/* Overwrites the tail of a packet, at least that many bytes. */
static void overwrite(FILE *file, const packets *whole, size_t number, fill with, long least) {
    const long from = between(0, (int)(whole->bytes[number] - least));
    assert_int_equal(fseek(file, whole->at[number] + from, SEEK_SET), 0);
    for (long i = from; i < whole->bytes[number]; i++)
        fputc(with == NOISE ? between(0, 255) : 0, file);
}

/* Copies the file, damages up to three packets, and sets `hit` for each damaged group. */
static void damage(const char *from, const char *to, const packets *whole, size_t stream, bool hit[FRAMES / GROUP]) {
    clip_shell("cp '%s' '%s'", from, to);
    FILE *file = fopen(to, "r+b");
    assert_non_null(file);
    memset(hit, 0, FRAMES / GROUP * sizeof *hit);
    for (int i = between(1, MOST_HITS); i > 0; i--) {
        const size_t number = (size_t)between(0, FRAMES - 1);
        overwrite(file, whole, number, streams[stream].fill, streams[stream].least);
        hit[number / GROUP] = true;
    }
    fclose(file);
}

/* ---- decoding damage --------------------------------------------------------------------------------------------- */

/* If a key is lost, a decoder returns the last pictures before it late. */
static void expect_whole_groups(const bool right[FRAMES], const bool hit[FRAMES / GROUP]) {
    for (size_t i = 0; i < FRAMES; i++) {
        const size_t group = i / GROUP;
        const bool behind = group + 1 < FRAMES / GROUP && hit[group + 1];
        if (!hit[group] && !behind && !right[i])
            fail_msg("picture %zu is missing", i);
    }
}

static void expect(const char *path, size_t stream, const bool hit[FRAMES / GROUP],
                   const char *how, int count, bool right[FRAMES]) {
    char decode[64];
    snprintf(decode, sizeof decode, ", threads: %d, damaged: %s", count, how);
    clip_run(&result, path, "", decode);
    assert_int_equal(result.status, MR_OK);
    clip_find_right(&result, streams[stream].unnoticed ? NULL : &expected, STEP_NS, right, FRAMES);
    if (streams[stream].closed)
        expect_whole_groups(right, hit);
}

static void expect_same(size_t stream, const bool right[FRAMES], const bool alone[FRAMES]) {
    if (!streams[stream].apart)
        assert_memory_equal(right, alone, FRAMES * sizeof *right);
}

static void try_stream(size_t stream) {
    static packets whole;
    char path[CLIP_PATH], damaged[CLIP_PATH], name[64];
    bool hit[FRAMES / GROUP], alone[FRAMES], right[FRAMES];
    snprintf(name, sizeof name, "whole-%s", streams[stream].name);
    clip_make(path, name, streams[stream].arguments);
    clip_reference(path, &expected);
    assert_int_equal(expected.count, FRAMES);
    find_packets(&whole, path);
    snprintf(name, sizeof name, "damaged-%d-%s", getpid(), streams[stream].name);
    clip_path(damaged, name);
    for (int i = 0; i < DAMAGES; i++) {
        random_state = seed + (uint64_t)i;
        draw();
        damage(path, damaged, &whole, stream, hit);
        print_message("    %s %d\n", streams[stream].name, i);
        expect(damaged, stream, hit, "drop", 1, alone);
        expect(damaged, stream, hit, "drop", threads[1 + i % (THREADS - 1)], right);
        expect_same(stream, right, alone);
        expect(damaged, stream, hit, "mark", threads[i % THREADS], right);
        expect_same(stream, right, alone);
    }
    remove(damaged);
}

CLIP_TEST(what_is_made_of_damaged_pictures_is_not_given) {
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        try_stream(i);
}

/* ---- false headers ----------------------------------------------------------------------------------------------- */

/* Changes a packet; false: it is not one that can be. */
typedef bool change_function(uint8_t *packet, long bytes, long how);

/* Each claims in a reference picture's packet that no picture refers to it. */

static bool lie_h264(uint8_t *packet, long bytes, long how) {
    enum { SLICE = 1, LENGTH = 4, REFERENCE = 0x60 };
    for (long at = 0; at + LENGTH < bytes;) {
        uint8_t *unit = packet + at + LENGTH;
        if ((*unit & 31) == SLICE && *unit & REFERENCE) {
            *unit &= (uint8_t)~REFERENCE;
            return true;
        }
        at += LENGTH + ((long)packet[at] << 24 | packet[at + 1] << 16 | packet[at + 2] << 8 | packet[at + 3]);
    }
    return false;
}

/* Type 2 is a P picture, type 3 a B picture. */
static bool lie_mpeg2(uint8_t *packet, long bytes, long how) {
    static const uint8_t picture[] = {0, 0, 1, 0};
    uint8_t *unit = memmem(packet, (size_t)bytes, picture, sizeof picture);
    const bool lies = unit && (unit[5] >> 3 & 7) == 2;
    if (lies)
        unit[5] ^= 1 << 3;
    return lies;
}

static const struct {
    size_t stream;
    change_function *lie;
} liars[] = {{1, lie_h264}, {2, lie_h264}, {8, lie_mpeg2}};

/* Copies the file and changes a packet in the copy; returns whether it was changed. */
static bool change_packet(const char *from, const char *to, const packets *whole, size_t number,
                          change_function *change, long how) {
    uint8_t packet[65536];
    const long bytes = whole->bytes[number];
    assert_in_range(bytes, 1, sizeof packet);
    clip_shell("cp '%s' '%s'", from, to);
    FILE *file = fopen(to, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, whole->at[number], SEEK_SET), 0);
    assert_int_equal(fread(packet, 1, (size_t)bytes, file), bytes);
    const bool changed = change(packet, bytes, how);
    assert_int_equal(fseek(file, whole->at[number], SEEK_SET), 0);
    assert_int_equal(fwrite(packet, 1, (size_t)bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    return changed;
}

/* If the decoder notices the damage, pictures that depend on the packet must not come. */
static void expect_no_lie(const char *path, int count, int *noticed) {
    bool right[FRAMES];
    char decode[64];
    snprintf(decode, sizeof decode, ", threads: %d", count);
    clip_run(&result, path, "", decode);
    assert_int_equal(result.status, MR_OK);
    *noticed += result.corrupt > 0;
    if (result.corrupt)
        clip_find_right(&result, &expected, STEP_NS, right, FRAMES);
}

CLIP_TEST(what_a_damaged_header_says_is_not_believed) {
    static packets whole;
    char path[CLIP_PATH], lying[CLIP_PATH], name[64];
    for (size_t i = 0; i < sizeof liars / sizeof *liars; i++) {
        const size_t stream = liars[i].stream;
        int lies = 0, noticed = 0;
        snprintf(name, sizeof name, "whole-%s", streams[stream].name);
        clip_make(path, name, streams[stream].arguments);
        clip_reference(path, &expected);
        find_packets(&whole, path);
        snprintf(name, sizeof name, "lying-%d-%s", getpid(), streams[stream].name);
        clip_path(lying, name);
        for (size_t number = 1; number < FRAMES; number += UNDER_TSAN(7, UNDER_ASAN(5, 2))) {
            print_message("    %s, packet %zu\n", streams[stream].name, number);
            if (!change_packet(path, lying, &whole, number, liars[i].lie, 0))
                continue;
            lies++;
            expect_no_lie(lying, threads[number % THREADS], &noticed);
        }
        print_message("    %s: %d of %d were noticed\n", streams[stream].name, noticed, lies);
        assert_true(lies > 0 && 2 * noticed > lies);
        remove(lying);
    }
}

/* ---- zeros from a slice's header on ------------------------------------------------------------------------------ */

/* Clears a packet from that bit in the last unit on. Returns false if the packet ends before it. */
static bool clear(uint8_t *packet, long bytes, long bit) {
    enum { LENGTH = 4 };
    long unit = 0, next = 0;
    while (next + LENGTH < bytes) {
        unit = next + LENGTH;
        next = unit + ((long)packet[next] << 24 | packet[next + 1] << 16 | packet[next + 2] << 8 | packet[next + 3]);
    }
    const long at = unit + bit / 8;
    if (at >= bytes)
        return false;
    packet[at] &= (uint8_t)~(0xff >> bit % 8);
    memset(packet + at + 1, 0, (size_t)(bytes - at - 1));
    return true;
}

/* The decoders take such a slice for one whose blocks are all skipped, if the header's rest is right with zeros too:
 * nothing is logged, in H.264 up to the first bits of the data, in HEVC anywhere. */
CLIP_TEST(zeros_from_a_header_on_are_noticed) {
    enum { FIRST = 8, LAST = 120, STEP = UNDER_ASAN(11, 3), PACKETS = 7 };
    static const size_t some[] = {0, 1, 6, 7}; /* in `streams` */
    static packets whole;
    char path[CLIP_PATH], zeroed[CLIP_PATH], name[64];
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        bool right[FRAMES];
        int changed = 0;
        snprintf(name, sizeof name, "whole-%s", streams[some[i]].name);
        clip_make(path, name, streams[some[i]].arguments);
        clip_reference(path, &expected);
        find_packets(&whole, path);
        snprintf(name, sizeof name, "zeroed-%d-%s", getpid(), streams[some[i]].name);
        clip_path(zeroed, name);
        for (long bit = FIRST, number = 0; bit < LAST; bit += STEP, number = (number + 1) % PACKETS) {
            if (!change_packet(path, zeroed, &whole, (size_t)number, clear, bit))
                continue;
            changed++;
            print_message("    %s, packet %ld from bit %ld on\n", streams[some[i]].name, number, bit);
            clip_run(&result, zeroed, "", number % 2 ? ", threads: 1" : ", threads: 3");
            assert_int_equal(result.status, MR_OK);
            assert_true(result.corrupt > 0);
            clip_find_right(&result, &expected, STEP_NS, right, FRAMES);
        }
        assert_in_range(changed, 5, LAST);
        remove(zeroed);
    }
}

RUN_TESTS(NULL, NULL)
