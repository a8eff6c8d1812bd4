/* Recovery points in H.264 and HEVC streams where only the first picture is IDR. The test inserts a message before each
 * independent picture. Pictures that pass as right must equal those from the whole stream. */
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <stdlib.h>
#include <string.h>

#include "stages/media/coded/recovery.h"
#include "tests/support/clips.h"
#include "tests/support/suite.h"

/* Every ten pictures, the scene changes (x264), or the test requests an I picture (x265). From FIRST on these are I
 * pictures, but not IDR. */
enum { MOST = 60, EVERY = 10, FIRST = 25, ROOM = 1 << 16 };

#define SOURCE "-f lavfi -i \"testsrc2=size=320x192:rate=25,negate=enable='mod(floor((n+5)/10),2)'\" -frames:v 60 "
#define KEYS "ref=1:bframes=0:keyint=1000:min-keyint=500:scenecut=90"
#define X264 "-c:v libx264 -preset veryfast -pix_fmt yuv420p -x264-params cqm=jvt:" KEYS
#define X265                                                                                                           \
    "-c:v libx265 -preset ultrafast -pix_fmt yuv420p -force_key_frames 'expr:eq(mod(n,10),5)' -forced-idr 0 "          \
    "-x265-params log-level=none:info=0:open-gop=0:" KEYS

static const struct {
    const char *name, *arguments;
    bool hevc;
} streams[] = {
    {"recovery-avc.mkv", SOURCE X264, false},
    {"recovery-avc.h264", SOURCE X264, false},
    {"recovery-hevc.mkv", SOURCE X265, true},
    {"recovery-hevc.ts", SOURCE X265, true},
};

typedef struct stream {
    bool hevc, lengths; /* lengths precede NAL units */
    AVCodecParameters *codec;
    AVPacket *packets[MOST];
    uint64_t hash[MOST];
    size_t count;
} stream;

static stream the_stream;

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const AVFrame *frame) {
    uint64_t hash = 14695981039346656037u;
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < frame->height >> (plane > 0); y++)
            for (int x = 0; x < frame->width >> (plane > 0); x++)
                hash = (hash ^ frame->data[plane][(ptrdiff_t)y * frame->linesize[plane] + x]) * 1099511628211u;
    return hash;
}

static bool is_intra(size_t picture) {
    return picture >= FIRST && (picture - FIRST) % EVERY == 0;
}

/* Decodes all packets but `lost`. 0: that picture is missing. */
static void decode(const stream *of, size_t lost, uint64_t hash[MOST]) {
    AVCodecContext *decoder = avcodec_alloc_context3(avcodec_find_decoder(of->codec->codec_id));
    AVFrame *frame = av_frame_alloc();
    assert_true(avcodec_parameters_to_context(decoder, of->codec) >= 0);
    decoder->thread_count = 1;
    assert_true(avcodec_open2(decoder, NULL, NULL) >= 0);
    memset(hash, 0, MOST * sizeof *hash);
    for (size_t i = 0; i <= of->count; i++) {
        if (i == lost)
            continue;
        if (i < of->count)
            of->packets[i]->pts = (int64_t)i;
        avcodec_send_packet(decoder, i < of->count ? of->packets[i] : NULL);
        while (avcodec_receive_frame(decoder, frame) >= 0) {
            if (is_intra((size_t)frame->pts))
                assert_int_equal(frame->pict_type, AV_PICTURE_TYPE_I);
            hash[frame->pts] = hash_of(frame);
        }
    }
    av_frame_free(&frame);
    avcodec_free_context(&decoder);
}

static void read_stream(stream *of, int index) {
    char path[CLIP_PATH];
    AVFormatContext *file = NULL;
    clip_make(path, streams[index].name, streams[index].arguments);
    assert_true(avformat_open_input(&file, path, NULL, NULL) >= 0 && avformat_find_stream_info(file, NULL) >= 0);
    of->hevc = streams[index].hevc;
    of->codec = avcodec_parameters_alloc();
    assert_true(avcodec_parameters_copy(of->codec, file->streams[0]->codecpar) >= 0);
    of->lengths = of->codec->extradata[0] == 1;
    for (of->count = 0; of->count < MOST; of->count++) {
        AVPacket *packet = of->packets[of->count] = av_packet_alloc();
        if (av_read_frame(file, packet) < 0)
            break;
    }
    assert_int_equal(of->count, MOST);
    avformat_close_input(&file);
    decode(of, MOST + 1, of->hash);
}

static void forget_stream(stream *of) {
    for (size_t i = 0; i < MOST; i++)
        av_packet_free(&of->packets[i]);
    avcodec_parameters_free(&of->codec);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef struct writing {
    uint8_t *to;
    size_t bits;
} writing;

static void put(writing *to, unsigned value, int count) {
    for (int i = count - 1; i >= 0; i--, to->bits++)
        to->to[to->bits / 8] |= (uint8_t)((value >> i & 1) << (7 - to->bits % 8));
}

static void put_golomb(writing *to, unsigned value) {
    int length = 0;
    while ((value + 1) >> (length + 1))
        length++;
    put(to, 0, length);
    put(to, value + 1, length + 1);
}

/* Writes a NAL unit with two messages. The first is all zeros and needs escaping: 00 00 03. */
static size_t write_messages(uint8_t *data, bool hevc, int count, bool broken) {
    uint8_t payload[16] = {0};
    writing to = {payload, 0};
    size_t at = 0;
    if (hevc)
        data[at++] = 39 << 1;
    data[at++] = hevc ? 1 : 6;
    memcpy(data + at, "\5\4\0\0\3\0\0", 7); /* four bytes, zeros */
    at += 7;
    put_golomb(&to, hevc ? count > 0 ? 2 * (unsigned)count - 1 : 2 * (unsigned)-count : (unsigned)count);
    put(&to, 1, 1);
    put(&to, broken, 1);
    put(&to, 0, 2); /* changing_slice_group_idc, which HEVC does not have */
    const size_t bytes = (to.bits + 7) / 8;
    data[at++] = 6;
    data[at++] = (uint8_t)bytes;
    memcpy(data + at, payload, bytes);
    at += bytes;
    data[at++] = 0x80;
    return at;
}

typedef struct wish {
    int ahead;   /* pictures between the message and the independent picture */
    size_t lost; /* the missing packet; 0: none */
    bool broken, marked; /* broken_link_flag; a key in the container */
} wish;

static size_t add_nal(const stream *of, uint8_t room[ROOM], size_t at, const uint8_t *data, size_t bytes) {
    assert_in_range(at + 4 + bytes, 1, ROOM);
    for (int i = 0; i < 4; i++)
        room[at + (size_t)i] = (uint8_t)(of->lengths ? bytes >> (24 - 8 * i) : (size_t)(i == 3));
    memcpy(room + at + 4, data, bytes);
    return at + 4 + bytes;
}

/* Copies the packet without the encoder's messages, and adds ours where one belongs. */
static mr_packet packet_of(const stream *of, size_t i, const wish *wanted, uint8_t room[ROOM], mr_media *media) {
    const AVPacket *from = of->packets[i];
    mr_packet packet = {.media = media, .data = room, .pts_ns = (int64_t)i * 40000000};
    const bool point = is_intra(i + (size_t)wanted->ahead);
    uint8_t messages[64] = {0};
    if (point)
        packet.bytes = add_nal(of, room, 0, messages,
                               write_messages(messages, of->hevc, wanted->ahead, wanted->broken));
    mr_nals all = {from->data, from->data + from->size, of->lengths ? 4 : 0};
    for (mr_nal one; mr_nal_next(&all, &one);)
        if (one.bytes && (of->hevc ? one.data[0] >> 1 != 39 : (one.data[0] & 31) != 6))
            packet.bytes = add_nal(of, room, packet.bytes, one.data, one.bytes);
    packet.flags = i == 0 || (point && wanted->marked) ? MR_FRAME_KEY : 0;
    packet.flags |= wanted->lost && i == wanted->lost + 1 ? MR_FRAME_SEAM : 0;
    if (!packet.flags)
        assert_int_equal(mr_recovery_begins(&packet), point);
    return packet;
}

/* Checks that exactly the pictures from `wrong` up to `right` are marked wrong. */
static void check(const stream *of, wish wanted, size_t wrong, size_t right) {
    static mr_recovery recovery;
    static uint8_t room[ROOM];
    uint64_t hash[MOST];
    mr_media media = {.codec = of->codec};
    decode(of, wanted.lost ? wanted.lost : MOST + 1, hash);
    mr_recovery_begin(&recovery);
    for (size_t i = 0; i < of->count; i++) {
        if (wanted.lost && i == wanted.lost)
            continue;
        const mr_packet packet = packet_of(of, i, &wanted, room, &media);
        const bool is_wrong = mr_recovery_pass(&recovery, &packet);
        if (is_wrong != (i >= wrong && i < right))
            fail_msg("picture %zu is said to be %s", i, is_wrong ? "wrong" : "right");
        if (!is_wrong && hash[i] != of->hash[i])
            fail_msg("picture %zu is wrong and nobody says so (%zu is lost, the message %d ahead)", i, wanted.lost,
                     wanted.ahead);
    }
}

/* Runs the check on each stream. */
static void for_each(void (*check_stream)(void)) {
    for (int i = 0; i < (int)(sizeof streams / sizeof *streams); i++) {
        print_message("%s\n", streams[i].name);
        read_stream(&the_stream, i);
        check_stream();
        forget_stream(&the_stream);
    }
}

static void check_losses(void) {
    for (int marked = 0; marked < 2; marked++) {
        check(&the_stream, (wish){.lost = 17, .marked = marked}, 18, 25);
        check(&the_stream, (wish){.lost = 17, .ahead = 3, .marked = marked}, 18, 25);
        check(&the_stream, (wish){.lost = 24, .marked = marked}, 25, 25);
        /* Between the message and the point that it announces: the next message counts. */
        check(&the_stream, (wish){.lost = 23, .ahead = 3, .marked = marked}, 24, 35);
        check(&the_stream, (wish){.lost = 22, .ahead = 3, .marked = marked}, 23, 35);
    }
}

CLIP_TEST(test_streams) {
    for_each(check_losses);
}

/* Returns the pictures from `begin` on that are marked wrong; bit k is picture k. */
static uint64_t wrong_from(size_t begin, const wish *wanted) {
    static mr_recovery recovery;
    static uint8_t room[ROOM];
    mr_media media = {.codec = the_stream.codec};
    uint64_t wrong = 0;
    mr_recovery_begin(&recovery);
    for (size_t k = begin; k < the_stream.count; k++) {
        const mr_packet packet = packet_of(&the_stream, k, wanted, room, &media);
        wrong |= (uint64_t)mr_recovery_pass(&recovery, &packet) << k;
    }
    return wrong;
}

static void check_joined(void) {
    enum { AHEAD = 3, MESSAGE = FIRST - AHEAD };
    for (size_t begin = MESSAGE - 1; begin <= MESSAGE; begin++) {
        const size_t right = begin < MESSAGE || the_stream.hevc ? FIRST : FIRST + EVERY;
        const uint64_t wrong = wrong_from(begin, &(wish){.ahead = AHEAD, .marked = true});
        assert_true(wrong == (UINT64_C(1) << right) - (UINT64_C(1) << begin));
    }
}

/* Joins at a message, or one picture before it. An H.264 decoder drops the first picture if that needs others. The part
 * that it would renew is lost too, so the next message counts. */
CLIP_TEST(test_joined) {
    for_each(check_joined);
}

static void check_broken(void) {
    const uint64_t wrong = wrong_from(0, &(wish){.ahead = 3, .broken = true, .marked = true});
    for (size_t k = 0; k < the_stream.count; k++)
        assert_int_equal(wrong >> k & 1, k + 3 >= FIRST && (k + 3 - FIRST) % EVERY < 3);
}

/* No packet is missing, but the two joined parts do not match. */
CLIP_TEST(test_broken_links) {
    for_each(check_broken);
}

/* ---- bits -------------------------------------------------------------------------------------------------------- */

TEST(test_bits) {
    const uint8_t data[] = {0xa6, 0x42, 0x98, 0xe2, 0x04, 0x8a};
    mr_bits bits = {.data = data, .bytes = sizeof data};
    for (unsigned i = 0; i < 9; i++) /* H.264, table 9-2 */
        assert_int_equal(mr_bits_golomb(&bits), i);
    bits.at = 0;
    const int values[] = {0, 1, -1, 2, -2, 3, -3, 4, -4};
    for (int i = 0; i < 9; i++)
        assert_int_equal(mr_bits_signed_golomb(&bits), values[i]);
    assert_false(bits.short_of);
    mr_bits_read(&bits, 32);
    assert_true(bits.short_of);
    const uint8_t large[] = {0, 0, 0, 1, 0, 0, 0, 0x0a}, largest[9] = {[4] = 0x80};
    bits = (mr_bits){.data = large, .bytes = sizeof large};
    assert_true(mr_bits_golomb(&bits) == 0x80000004u);
    bits = (mr_bits){.data = largest, .bytes = sizeof largest};
    assert_true(mr_bits_golomb(&bits) == 0xffffffffu);
    assert_false(bits.short_of);
    const uint8_t escaped[] = {1, 0, 0, 3, 1, 0, 0, 3};
    mr_bits few = {.data = escaped, .bytes = sizeof escaped, .escaped = true};
    assert_int_equal(mr_bits_read(&few, 32), 0x01000001);
    assert_int_equal(mr_bits_read(&few, 16), 0);
    assert_false(few.short_of);
}

/* Truncated messages and random bytes give no recovery points. No read may go past the end. */
TEST(test_malformed) {
    static mr_recovery recovery;
    mr_recovery_point point;
    uint8_t whole[64] = {0};
    for (int hevc = 0; hevc < 2; hevc++) {
        memset(whole, 0, sizeof whole);
        const size_t bytes = write_messages(whole, hevc, 600, false);
        assert_true(mr_recovery_point_read(&point, hevc, (mr_nal){whole, bytes}));
        assert_int_equal(point.count, 600);
        for (size_t cut = 1; cut + 3 < bytes; cut++) {
            FREED uint8_t *part = malloc(cut);
            assert_non_null(part);
            memcpy(part, whole, cut);
            assert_false(mr_recovery_point_read(&point, hevc, (mr_nal){part, cut}));
        }
    }
    AVCodecParameters codec = {.codec_id = AV_CODEC_ID_HEVC};
    mr_media media = {.codec = &codec};
    srand(1);
    mr_recovery_begin(&recovery);
    for (int i = 0; i < 20000; i++) {
        const size_t bytes = 1 + (size_t)rand() % 64;
        FREED uint8_t *data = malloc(bytes);
        assert_non_null(data);
        for (size_t k = 0; k < bytes; k++)
            data[k] = (uint8_t)(rand() % 3 ? rand() : k == 2);
        codec.codec_id = i % 2 ? AV_CODEC_ID_HEVC : AV_CODEC_ID_H264;
        codec.extradata = i % 3 ? data : NULL;
        codec.extradata_size = i % 3 ? (int)bytes : 0;
        const mr_packet packet = {.media = &media, .data = data, .bytes = bytes, .flags = (uint32_t)rand() % 32};
        (void)mr_recovery_pass(&recovery, &packet);
        (void)mr_recovery_begins(&packet);
    }
}

int main(void) {
    av_log_set_level(AV_LOG_QUIET);
    return run_suite(NULL, NULL);
}
