/* The x264 build in packets. Messages have the layout in H.264, 7.3.2.3, whole and truncated. Clips also contain the
 * number as text. */
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stages/media/coded/x264_build.h"
#include "tests/support/clips.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

enum { ROOM = 2048, NUMBER = 16 };

typedef struct packet {
    uint8_t data[ROOM];
    size_t bytes;
} packet;

static void add(packet *to, const void *data, size_t bytes) {
    assert_true(to->bytes + bytes <= ROOM);
    memcpy(to->data + to->bytes, data, bytes);
    to->bytes += bytes;
}

/* Adds a user message after another one with 300 bytes, two of them escaped. */
static void add_unit(packet *to, const char *text) {
    uint8_t other[301], number[NUMBER] = {0xdc, 0x45};
    memset(other, 1, sizeof other);
    memcpy(other + 20, "\0\0\3\1", 4);
    memset(number + 2, 7, NUMBER - 2);
    const size_t bytes = NUMBER + strlen(text);
    const uint8_t head[] = {5, (uint8_t)bytes};
    assert_true(bytes < 255);
    add(to, "\0\0\1\6\4\377\55", 7);
    add(to, other, sizeof other);
    add(to, head, sizeof head);
    add(to, number, NUMBER);
    add(to, text, strlen(text));
    add(to, "\200", 1);
}

static int32_t build_of(const packet *from, size_t bytes, enum AVCodecID id) {
    const AVCodecParameters codec = {.codec_id = id};
    uint8_t *exact = malloc(bytes + 1); /* so that a sanitizer sees any read past the end */
    assert_non_null(exact);
    uint8_t *data = realloc(exact, bytes ? bytes : 1);
    memcpy(data, from->data, bytes);
    const int32_t build = mr_x264_build(&codec, data, bytes);
    free(data);
    return build;
}

TEST(messages_tell_it) {
    static const struct {
        const char *text;
        int32_t build;
    } texts[] = {{"x264 - core 142 r50 dd79a61 - H.264/MPEG-4 AVC codec", 142},
                 {"x264 - core 67", 67},
                 {"x264 - core 0000 - H.264", 0},
                 {"x264 - core 0001 - H.264", 1},
                 {"x264 - core -7", 0},
                 {"x264 - core 99999999999999999999", 999999999},
                 {"x264 - core ", 0},
                 {"x265 - core 142", 0},
                 {"", 0}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        packet one = {0};
        add_unit(&one, texts[i].text);
        assert_int_equal(build_of(&one, one.bytes, AV_CODEC_ID_H264), texts[i].build);
        assert_int_equal(build_of(&one, one.bytes, AV_CODEC_ID_HEVC), 0);
    }
}

TEST(others_may_stand_before_it_but_no_slice) {
    packet one = {0}, late = {0};
    add(&one, "\0\0\1\11\360\0\0\1\147\1\2\3", 12);
    add_unit(&one, "another encoder");
    add_unit(&one, "x264 - core 120");
    add(&one, "\0\0\1\145\210\1", 6);
    assert_int_equal(build_of(&one, one.bytes, AV_CODEC_ID_H264), 120);
    add(&late, "\0\0\1\145\210\1", 6);
    add_unit(&late, "x264 - core 120");
    assert_int_equal(build_of(&late, late.bytes, AV_CODEC_ID_H264), 0);
}

/* The cut can leave the whole build, a part, or none. The parser must not read past the cut. */
TEST(cut_off_packets_are_bounded) {
    packet one = {0};
    add_unit(&one, "x264 - core 142 r50");
    for (size_t bytes = 0; bytes <= one.bytes; bytes++) {
        const int32_t build = build_of(&one, bytes, AV_CODEC_ID_H264);
        assert_true(build == 0 || build == 1 || build == 14 || build == 142);
    }
}

/* Returns the number after "x264 - core " in a file's first bytes. */
static int32_t written_in(const char *path) {
    static char data[1 << 20];
    static const char words[] = "x264 - core ";
    const size_t bytes = read_bytes(path, data, sizeof data);
    const char *at = memmem(data, bytes, words, sizeof words - 1);
    assert_non_null(at);
    return (int32_t)strtol(at + sizeof words - 1, NULL, 10);
}

static void expect_in_clip(const char *name, const char *arguments) {
    char path[CLIP_PATH];
    ENDED_BY(avformat_close_input) AVFormatContext *file = NULL;
    ENDED_BY(av_packet_free) AVPacket *first = av_packet_alloc();
    clip_make(path, name, arguments);
    assert_true(avformat_open_input(&file, path, NULL, NULL) >= 0 && avformat_find_stream_info(file, NULL) >= 0);
    assert_true(av_read_frame(file, first) >= 0);
    const int32_t build = mr_x264_build(file->streams[0]->codecpar, first->data, (size_t)first->size);
    assert_true(build > 0);
    assert_int_equal(build, written_in(path));
}

CLIP_TEST(clips_tell_it) {
    expect_in_clip("build.mp4", "-f lavfi -i testsrc2=size=64x64 -frames:v 3 -c:v libx264");
    expect_in_clip("build.h264", "-f lavfi -i testsrc2=size=64x64 -frames:v 3 -c:v libx264");
}

RUN_TESTS(NULL, NULL)
