/* libavformat makes RTP packets from clips. The pictures from these packets are compared with the clips' pictures. */
#include <libavcodec/avcodec.h>
#include <libavcodec/bsf.h>
#include <libavformat/avformat.h>
#include <string.h>
#include <xxhash.h>

#include "millrace/status.h"
#include "stages/live/rtsp/depacketize.h"
#include "stages/media/coded/recovery.h"
#include "tests/support/clips.h"
#include "tests/support/sanitized.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum {
    MOST_PACKETS = 16384,
    MOST_PICTURES = 1024,
    MOST_BYTES = 4 << 20,
    PAYLOAD = 1000,
    EVERY = UNDER_TSAN(3, 1), /* losses to try */
};

typedef struct blob {
    uint8_t *data;
    size_t bytes;
} blob;

/* A clip as RTP packets, with the original pictures. */
typedef struct clip {
    mr_rtp_codec codec;
    size_t count, packet_count;
    blob pictures[MOST_PICTURES]; /* Annex B or JPEG, in decode order */
    bool key[MOST_PICTURES];
    int64_t ticks[MOST_PICTURES]; /* presentation times, from the first picture */
    blob packets[MOST_PACKETS];
    size_t packets_of[MOST_PICTURES]; /* packets up to the end of each picture */
    uint8_t extra[4096];
    size_t extra_bytes;
} clip;

static clip the_clip;

static blob copy_of(const uint8_t *data, size_t bytes) {
    blob made = {malloc(bytes + 64), bytes};
    assert_non_null(made.data);
    memcpy(made.data, data, bytes);
    memset(made.data + bytes, 0, 64);
    return made;
}

static void forget_clip(clip *of) {
    for (size_t i = 0; i < of->count; i++)
        free(of->pictures[i].data);
    for (size_t i = 0; i < of->packet_count; i++)
        free(of->packets[i].data);
    memset(of, 0, sizeof *of);
}

/* ---- clips as RTP ------------------------------------------------------------------------------------------------ */

/* Keeps a packet that libavformat would send to the network, unless it is an RTCP report. */
static int keep_packet(void *context, uint8_t *data, int bytes) {
    clip *of = context;
    if (bytes >= 12 && (data[1] < 200 || data[1] > 204)) {
        assert_in_range(of->packet_count, 0, MOST_PACKETS - 1);
        of->packets[of->packet_count++] = copy_of(data, (size_t)bytes);
    }
    return bytes;
}

static AVFormatContext *open_sender(clip *of, const AVStream *from) {
    AVFormatContext *sender = NULL;
    AVDictionary *options = NULL;
    assert_true(avformat_alloc_output_context2(&sender, NULL, "rtp", NULL) >= 0);
    AVStream *to = avformat_new_stream(sender, NULL);
    assert_non_null(to);
    assert_true(avcodec_parameters_copy(to->codecpar, from->codecpar) >= 0);
    to->codecpar->codec_tag = 0;
    uint8_t *room = av_malloc(PAYLOAD);
    sender->pb = avio_alloc_context(room, PAYLOAD, 1, of, NULL, keep_packet, NULL);
    sender->pb->max_packet_size = PAYLOAD;
    sender->packet_size = PAYLOAD;
    sender->flags |= AVFMT_FLAG_FLUSH_PACKETS;
    av_dict_set(&options, "seq", "65000", 0); /* so that numbers wrap */
    assert_true(avformat_write_header(sender, &options) >= 0);
    av_dict_free(&options);
    return sender;
}

/* Converts to Annex B, as decoders take it. */
static AVBSFContext *open_filter(const AVStream *from) {
    AVBSFContext *filter;
    const bool h264 = from->codecpar->codec_id == AV_CODEC_ID_H264, hevc = from->codecpar->codec_id == AV_CODEC_ID_HEVC;
    const char *name = h264 ? "h264_mp4toannexb" : hevc ? "hevc_mp4toannexb" : "null";
    assert_true(av_bsf_alloc(av_bsf_get_by_name(name), &filter) >= 0);
    assert_true(avcodec_parameters_copy(filter->par_in, from->codecpar) >= 0);
    assert_true(av_bsf_init(filter) >= 0);
    return filter;
}

static void add_picture(clip *of, AVBSFContext *filter, AVFormatContext *sender, const AVStream *from,
                        AVPacket *packet) {
    AVPacket *original = av_packet_clone(packet);
    const int64_t ticks = av_rescale_q(packet->pts, from->time_base, (AVRational){1, 90000});
    assert_in_range(of->count, 0, MOST_PICTURES - 1);
    assert_true(av_bsf_send_packet(filter, original) >= 0 && av_bsf_receive_packet(filter, original) >= 0);
    of->pictures[of->count] = copy_of(original->data, (size_t)original->size);
    of->key[of->count] = packet->flags & AV_PKT_FLAG_KEY;
    of->ticks[of->count] = ticks;
    av_packet_free(&original);
    packet->stream_index = 0;
    av_packet_rescale_ts(packet, from->time_base, sender->streams[0]->time_base);
    assert_true(av_write_frame(sender, packet) >= 0);
    of->packets_of[of->count++] = of->packet_count;
}

static void read_clip(clip *of, mr_rtp_codec codec, const char *path) {
    ENDED_BY(avformat_close_input) AVFormatContext *file = NULL;
    ENDED_BY(av_packet_free) AVPacket *packet = av_packet_alloc();
    assert_true(avformat_open_input(&file, path, NULL, NULL) >= 0);
    assert_true(avformat_find_stream_info(file, NULL) >= 0);
    const AVStream *stream = file->streams[0];
    of->codec = codec;
    AVFormatContext *sender = open_sender(of, stream);
    ENDED_BY(av_bsf_free) AVBSFContext *filter = open_filter(stream);
    if (codec != MR_RTP_JPEG) {
        of->extra_bytes = (size_t)filter->par_out->extradata_size;
        assert_in_range(of->extra_bytes, 1, sizeof of->extra);
        memcpy(of->extra, filter->par_out->extradata, of->extra_bytes);
    }
    while (av_read_frame(file, packet) >= 0) {
        add_picture(of, filter, sender, stream, packet);
        av_packet_unref(packet);
    }
    av_write_trailer(sender);
    av_freep(&sender->pb->buffer);
    avio_context_free(&sender->pb);
    avformat_free_context(sender);
}

/* ---- NAL units --------------------------------------------------------------------------------------------------- */

/* The next start code (0, 0, 1) from `at` on, or the end. */
static size_t start_code(const blob *of, size_t at) {
    const uint8_t *one;
    for (size_t i = at + 2; i < of->bytes; i = (size_t)(one - of->data) + 1) {
        if (!(one = memchr(of->data + i, 1, of->bytes - i)))
            break;
        if (one[-1] == 0 && one[-2] == 0)
            return (size_t)(one - of->data) - 2;
    }
    return of->bytes;
}

/* Finds the next Annex B NAL unit at *at, without trailing zeros. Returns false at the end. */
static bool next_nal(const blob *of, size_t *at, const uint8_t **nal, size_t *bytes) {
    const size_t begin = start_code(of, *at) + 3;
    if (begin > of->bytes)
        return false;
    size_t end = *at = start_code(of, begin);
    while (end > begin && of->data[end - 1] == 0)
        end--;
    *nal = of->data + begin;
    *bytes = end - begin;
    return true;
}

static bool is_set(mr_rtp_codec codec, const uint8_t *nal) {
    const int type = codec == MR_RTP_H264 ? nal[0] & 31 : nal[0] >> 1 & 63;
    return codec == MR_RTP_H264 ? type == 7 || type == 8 : type >= 32 && type <= 34;
}

static bool is_slice(mr_rtp_codec codec, const uint8_t *nal) {
    return codec == MR_RTP_H264 ? (nal[0] & 31) <= 5 : (nal[0] >> 1 & 63) <= 31;
}

/* Joins all NAL units except parameter sets, or only slices. Counts the sets. */
static blob without_sets(mr_rtp_codec codec, const blob *from, bool slices, int *sets) {
    blob to = {calloc(1, from->bytes + 64), 0};
    const uint8_t *nal;
    size_t bytes;
    *sets = 0;
    for (size_t at = 0; next_nal(from, &at, &nal, &bytes);) {
        *sets += is_set(codec, nal);
        if (is_set(codec, nal) || (slices && !is_slice(codec, nal)))
            continue;
        memcpy(to.data + to.bytes, nal, bytes);
        if (slices && codec == MR_RTP_HEVC && (nal[0] >> 1 & 63) == 16) /* a CRA after a gap becomes a BLA */
            to.data[to.bytes] = 21 << 1;
        to.data[to.bytes + bytes] = 0xfe; /* a separator */
        to.bytes += bytes + 1;
    }
    return to;
}

/* Decodes a JPEG, as the receiver would. */
static blob decode_jpeg(const uint8_t *data, size_t bytes) {
    AVCodecContext *decoder = avcodec_alloc_context3(avcodec_find_decoder(AV_CODEC_ID_MJPEG));
    AVPacket *packet = av_packet_alloc();
    AVFrame *frame = av_frame_alloc();
    blob made = {calloc(1, 1 << 20), 0};
    assert_true(avcodec_open2(decoder, NULL, NULL) >= 0);
    packet->data = (uint8_t *)(uintptr_t)data;
    packet->size = (int)bytes;
    assert_true(avcodec_send_packet(decoder, packet) >= 0);
    assert_true(avcodec_receive_frame(decoder, frame) >= 0);
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < (plane ? (frame->height + 1) / 2 : frame->height); y++) {
            const int width = plane ? (frame->width + 1) / 2 : frame->width;
            memcpy(made.data + made.bytes, frame->data[plane] + (ptrdiff_t)y * frame->linesize[plane], (size_t)width);
            made.bytes += (size_t)width;
        }
    av_frame_free(&frame);
    av_packet_free(&packet);
    avcodec_free_context(&decoder);
    return made;
}

/* Returns whether a unit is that picture. Packet loss may remove a delimiter or a message (SEI), which no picture
 * needs. */
static bool same(const clip *of, const mr_rtp_unit *unit, size_t index, bool lossy) {
    int sets = 3, wanted = of->codec == MR_RTP_H264 ? 2 : 3, ignored;
    const blob whole = {(uint8_t *)(uintptr_t)unit->data, unit->bytes};
    const bool jpeg = of->codec == MR_RTP_JPEG;
    blob mine = jpeg ? decode_jpeg(unit->data, unit->bytes) : without_sets(of->codec, &whole, lossy, &sets);
    blob theirs = jpeg ? decode_jpeg(of->pictures[index].data, of->pictures[index].bytes)
                       : without_sets(of->codec, &of->pictures[index], lossy, &ignored);
    const bool equal = mine.bytes == theirs.bytes && memcmp(mine.data, theirs.data, mine.bytes) == 0;
    if (unit->key && !jpeg)
        assert_int_equal(sets, wanted);
    free(mine.data);
    free(theirs.data);
    return equal;
}

/* ---- without loss ------------------------------------------------------------------------------------------------ */

static mr_depacketizer *make(const clip *of) {
    mr_depacketizer *made;
    const blob extra = {(uint8_t *)(uintptr_t)of->extra, of->extra_bytes};
    const uint8_t *nal;
    size_t bytes;
    assert_int_equal(mr_depacketizer_create(&made, of->codec, MOST_BYTES), MR_OK);
    for (size_t at = 0; next_nal(&extra, &at, &nal, &bytes);)
        if (is_set(of->codec, nal))
            mr_depacketizer_add_set(made, nal, bytes);
    return made;
}

static void check_zeros(const mr_rtp_unit *unit) {
    for (int i = 0; i < 64; i++)
        assert_int_equal(unit->data[unit->bytes + (size_t)i], 0);
}

/* All packets in order, with or without markers. Without them, the next picture's first packet completes a picture. */
static void check_whole(const clip *of, bool markers) {
    ENDED_BY(mr_rtp_order_destroy) mr_rtp_order *order;
    mr_rtp_packet packet;
    mr_rtp_unit unit;
    size_t given = 0;
    int64_t first = 0;
    ENDED_BY(mr_depacketizer_destroy) mr_depacketizer *units = make(of);
    assert_int_equal(mr_rtp_order_create(&order, 0, 90000), MR_OK);
    for (size_t i = 0; i <= of->packet_count; i++) {
        if (i < of->packet_count) {
            assert_true(mr_rtp_parse(&packet, of->packets[i].data, of->packets[i].bytes));
            assert_int_equal(mr_rtp_order_put(order, &packet, 0), MR_RTP_TAKEN);
            assert_true(mr_rtp_order_take(order, &packet, 0));
            packet.marker = packet.marker && markers;
            mr_depacketizer_put(units, &packet);
        } else {
            mr_depacketizer_end(units);
        }
        while (mr_depacketizer_take(units, &unit)) {
            assert_in_range(given, 0, of->count - 1);
            first = given ? first : unit.time - of->ticks[0];
            check_zeros(&unit);
            assert_int_equal(unit.gap, given == 0);
            assert_false(unit.damaged);
            assert_int_equal(unit.key, of->codec == MR_RTP_JPEG || of->key[given]);
            assert_int_equal(unit.time - first, of->ticks[given]);
            /* The last packet suffices, except for the first unit: the next packet shows how the sender uses
             * markers. */
            const bool held = given == 0 && of->codec != MR_RTP_JPEG;
            assert_int_equal(i + 1, of->packets_of[given] + (held || !markers));
            assert_true(same(of, &unit, given++, false));
        }
    }
    assert_int_equal(given, of->count);
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

/* Decodes units in sequence and hashes the pictures. */
typedef struct decoding {
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *frame;
    uint64_t hash[MOST_PICTURES]; /* by number in the clip; 0: not decoded, or tainted */
    size_t count, tainted;
} decoding;

static void begin_decoding(decoding *to, mr_rtp_codec codec) {
    const enum AVCodecID id = codec == MR_RTP_H264 ? AV_CODEC_ID_H264 : codec == MR_RTP_HEVC ? AV_CODEC_ID_HEVC
                                                                                            : AV_CODEC_ID_MJPEG;
    *to = (decoding){.decoder = avcodec_alloc_context3(avcodec_find_decoder(id)), .packet = av_packet_alloc(),
                     .frame = av_frame_alloc()};
    to->decoder->thread_count = 1;
    assert_true(avcodec_open2(to->decoder, NULL, NULL) >= 0);
}

static uint64_t hash_of(const AVFrame *frame) {
    uint64_t hash = 1;
    for (int plane = 0; plane < 3; plane++)
        for (int y = 0; y < (plane ? frame->height / 2 : frame->height); y++)
            hash = XXH64(frame->data[plane] + (ptrdiff_t)y * frame->linesize[plane],
                         (size_t)(plane ? frame->width / 2 : frame->width), hash);
    return hash;
}

/* bytes 0: the end. */
static void decode(decoding *to, const uint8_t *data, size_t bytes, size_t index, bool tainted) {
    to->packet->data = bytes ? (uint8_t *)(uintptr_t)data : NULL;
    to->packet->size = (int)bytes;
    to->packet->pts = (int64_t)index;
    to->decoder->reordered_opaque = tainted;
    avcodec_send_packet(to->decoder, to->packet);
    while (avcodec_receive_frame(to->decoder, to->frame) >= 0) {
        assert_in_range(to->frame->pts, 0, MOST_PICTURES - 1);
        to->count++;
        to->tainted += to->frame->reordered_opaque != 0;
        if (!to->frame->reordered_opaque)
            to->hash[to->frame->pts] = hash_of(to->frame);
    }
}

static void end_decoding(decoding *to) {
    decode(to, NULL, 0, 0, false);
    av_frame_free(&to->frame);
    av_packet_free(&to->packet);
    avcodec_free_context(&to->decoder);
}

static decoding clean;

static void decode_clip(const clip *of) {
    begin_decoding(&clean, of->codec);
    for (size_t i = 0; i < of->count; i++)
        decode(&clean, of->pictures[i].data, of->pictures[i].bytes, i, false);
    end_decoding(&clean);
    assert_int_equal(clean.count, of->count);
}

/* ---- with losses ------------------------------------------------------------------------------------------------- */

/* Returns the index of the picture with this time. */
static size_t index_of(const clip *of, int64_t ticks) {
    for (size_t i = 0; i < of->count; i++)
        if (of->ticks[i] == ticks)
            return i;
    fail_msg("a picture of no time");
    return 0;
}

typedef struct tally {
    size_t next, given, damaged, whole, gaps;
    mr_recovery recovery;
    decoding *decoded; /* NULL: do not decode */
} tally;

/* Applies the rules of a live source. */
static bool is_wrong(const clip *of, const mr_rtp_unit *unit, size_t index, tally *so_far) {
    AVCodecParameters codec = {.codec_id = of->codec == MR_RTP_H264   ? AV_CODEC_ID_H264
                                           : of->codec == MR_RTP_HEVC ? AV_CODEC_ID_HEVC
                                                                      : AV_CODEC_ID_MJPEG,
                               .extradata = (uint8_t *)(uintptr_t)of->extra, .extradata_size = (int)of->extra_bytes};
    mr_media media = {.codec = &codec};
    const mr_packet packet = {.media = &media, .data = (uint8_t *)(uintptr_t)unit->data, .bytes = unit->bytes,
                              .pts_ns = of->ticks[index],
                              .flags = (unit->key ? MR_FRAME_KEY : 0) | (unit->gap ? MR_FRAME_SEAM : 0) |
                                       (unit->damaged ? MR_FRAME_CORRUPT : 0)};
    return mr_recovery_pass(&so_far->recovery, &packet);
}

/* A unit not marked as damaged must equal the original. A missing unit must show as a gap. */
static void check_unit(const clip *of, const mr_rtp_unit *unit, int64_t first, tally *so_far) {
    const size_t index = index_of(of, unit->time - first);
    assert_true(unit->bytes > 0); /* decoders would take it for the end */
    assert_in_range(index, so_far->next, of->count - 1);
    if (index > so_far->next)
        assert_true(unit->gap);
    so_far->next = index + 1;
    so_far->given++;
    so_far->gaps += unit->gap;
    so_far->damaged += unit->damaged;
    so_far->whole += !unit->damaged;
    check_zeros(unit);
    if (!unit->damaged)
        assert_true(same(of, unit, index, true));
    else
        assert_false(unit->key);
    if (so_far->decoded)
        decode(so_far->decoded, unit->data, unit->bytes, index, is_wrong(of, unit, index, so_far));
}

/* Decides whether to lose a packet: a given one, or some per mille. */
static bool is_lost(size_t packet, int per_mille, size_t one) {
    return one ? packet == one : packet > 0 && between(0, 999) < per_mille;
}

static tally run_lossy(const clip *of, int per_mille, size_t one, bool markers, decoding *decoded) {
    mr_rtp_order *order;
    mr_rtp_packet packet;
    mr_rtp_unit unit;
    tally so_far = {.decoded = decoded};
    uint32_t base;
    mr_recovery_begin(&so_far.recovery);
    mr_depacketizer *units = make(of);
    assert_int_equal(mr_rtp_order_create(&order, 0, 90000), MR_OK);
    assert_true(mr_rtp_parse(&packet, of->packets[0].data, of->packets[0].bytes));
    base = packet.timestamp - (uint32_t)of->ticks[0];
    for (size_t i = 0; i < of->packet_count; i++) {
        if (is_lost(i, per_mille, one))
            continue;
        assert_true(mr_rtp_parse(&packet, of->packets[i].data, of->packets[i].bytes));
        assert_int_equal(mr_rtp_order_put(order, &packet, 0), MR_RTP_TAKEN);
        assert_true(mr_rtp_order_take(order, &packet, 0));
        packet.marker = packet.marker && markers;
        mr_depacketizer_put(units, &packet);
        while (mr_depacketizer_take(units, &unit))
            check_unit(of, &unit, unit.time - (int64_t)(int32_t)(unit.timestamp - base), &so_far);
    }
    mr_depacketizer_end(units);
    while (mr_depacketizer_take(units, &unit))
        check_unit(of, &unit, unit.time - (int64_t)(int32_t)(unit.timestamp - base), &so_far);
    mr_depacketizer_destroy(&units);
    mr_rtp_order_destroy(&order);
    return so_far;
}

/* No wrong picture may pass as right. */
static void check_decoded(const clip *of, int per_mille) {
    static decoding lossy;
    size_t right = 0;
    begin_decoding(&lossy, of->codec);
    run_lossy(of, per_mille, 0, true, &lossy);
    end_decoding(&lossy);
    for (size_t i = 0; i < of->count; i++) {
        right += lossy.hash[i] != 0;
        if (lossy.hash[i] && lossy.hash[i] != clean.hash[i])
            fail_msg("picture %zu is wrong and nobody says so", i);
    }
    print_message("%d of 1000 packets lost: %zu pictures decoded, %zu of them tainted, %zu right\n", per_mille,
                  lossy.count, lossy.tainted, right);
    assert_in_range(right, 1, of->count);
}

/* Loses one packet. Pictures from there on may be wrong only if marked; later ones must be right until the end. */
static void check_recovers(const clip *of, size_t picture, size_t most) {
    static decoding lossy;
    size_t from = 0;
    begin_decoding(&lossy, of->codec);
    run_lossy(of, 0, of->packets_of[picture] - 1, true, &lossy);
    end_decoding(&lossy);
    for (size_t i = 0; i < of->count; i++) {
        if (lossy.hash[i] && lossy.hash[i] != clean.hash[i])
            fail_msg("a packet of picture %zu is lost: picture %zu is wrong and nobody says so", picture, i);
        if (!lossy.hash[i])
            from = i + 1;
    }
    print_message("a packet of picture %zu is lost: all are right from picture %zu on\n", picture, from);
    assert_in_range(from, picture, picture + most);
}

static void check_lossy(const clip *of) {
    decode_clip(of);
    for (int i = 0; i < 12; i += EVERY) {
        random_state = seed + (uint64_t)i;
        const int per_mille = i < 4 ? 3 : i < 8 ? 20 : 200;
        const tally found = run_lossy(of, per_mille, 0, i % 4 != 3, NULL);
        print_message("%d of 1000 packets lost: %zu of %zu pictures given, %zu of them damaged, %zu with a gap "
                      "before\n",
                      per_mille, found.given, of->count, found.damaged, found.gaps);
        assert_true(found.damaged > 0 || found.given < of->count || per_mille < 20);
        if (per_mille == 3)
            assert_in_range(found.whole, of->count / 2, of->count);
    }
    for (int i = 0; i < 6; i += EVERY) {
        random_state = seed + 100 + (uint64_t)i;
        check_decoded(of, i < 3 ? 4 : 10);
    }
}

/* ---- odd senders ------------------------------------------------------------------------------------------------- */

/* Returns whether a packet ends a slice. */
static bool ends_slice(mr_rtp_codec codec, const mr_rtp_packet *packet) {
    const uint8_t *at = packet->payload;
    return codec == MR_RTP_H264 ? (at[0] & 31) != 28 || at[1] & 0x40 : (at[0] >> 1 & 63) != 49 || at[2] & 0x40;
}

/* The sender marks every packet, or the last one in each slice. A picture is then complete when the time changes. All
 * must be whole from the first one on. */
static void check_marked_often(const clip *of, bool slices) {
    mr_rtp_unit unit;
    mr_rtp_packet packet;
    size_t whole = 0;
    ENDED_BY(mr_depacketizer_destroy) mr_depacketizer *units = make(of);
    assert_true(mr_rtp_parse(&packet, of->packets[0].data, of->packets[0].bytes));
    const uint32_t base = packet.timestamp - (uint32_t)of->ticks[0];
    for (size_t i = 0; i <= of->packet_count; i++) {
        if (i < of->packet_count) {
            assert_true(mr_rtp_parse(&packet, of->packets[i].data, of->packets[i].bytes));
            packet.time = packet.timestamp;
            packet.marker = !slices || ends_slice(of->codec, &packet);
            mr_depacketizer_put(units, &packet);
        } else {
            mr_depacketizer_end(units);
        }
        while (mr_depacketizer_take(units, &unit)) {
            assert_false(unit.damaged);
            assert_true(same(of, &unit, index_of(of, (int32_t)(unit.timestamp - base)), true));
            whole++;
        }
    }
    assert_int_equal(whole, of->count);
}

static void put(mr_depacketizer *units, int64_t time, bool marker, const char *payload, size_t bytes) {
    const mr_rtp_packet packet = {.time = time, .timestamp = (uint32_t)time, .marker = marker,
                                  .payload = (const uint8_t *)payload, .bytes = bytes};
    mr_depacketizer_put(units, &packet);
}

#define PUT(time, marker, payload) put(units, time, marker, payload, sizeof payload - 1)

static void expect_unit(mr_depacketizer *units, int64_t time, bool key, bool damaged, const char *data, size_t bytes) {
    mr_rtp_unit unit;
    assert_true(mr_depacketizer_take(units, &unit));
    assert_int_equal(unit.time, time);
    assert_int_equal(unit.key, key);
    assert_int_equal(unit.damaged, damaged);
    assert_int_equal(unit.bytes, bytes);
    assert_memory_equal(unit.data, data, bytes);
}

#define EXPECT(time, key, damaged, data) expect_unit(units, time, key, damaged, data, sizeof data - 1)
#define NAL "\0\0\0\1"

TEST(test_single_packets) {
    ENDED_BY(mr_depacketizer_destroy) mr_depacketizer *units;
    mr_rtp_unit unit;
    size_t bytes;
    uint64_t version, before, refused;
    assert_int_equal(mr_depacketizer_create(&units, MR_RTP_H264, 200), MR_OK);
    /* Parameter sets with other times and markers belong to the next picture. */
    PUT(100, true, "\x67S");
    PUT(101, true, "\x68P");
    assert_false(mr_depacketizer_take(units, &unit));
    PUT(102, true, "\x65\x80i");
    /* The first marker may only end a slice; the next packet decides. */
    assert_false(mr_depacketizer_take(units, &unit));
    assert_true(mr_depacketizer_is_held(units));
    mr_depacketizer_release(units);
    assert_false(mr_depacketizer_is_held(units));
    EXPECT(102, true, false, NAL "\x67S" NAL "\x68P" NAL "\x65\x80i");
    (void)mr_depacketizer_sets(units, &bytes, &before);
    assert_int_equal(bytes, 12);
    /* A key without parameter sets gets them, after the delimiter. */
    PUT(200, false, "\x09\x10");
    PUT(200, true, "\x65\x80j");
    EXPECT(200, true, false, NAL "\x09\x10" NAL "\x67S" NAL "\x68P" NAL "\x65\x80j");
    (void)mr_depacketizer_sets(units, &bytes, &version);
    assert_int_equal(version, before);
    /* Newer sets replace them. */
    PUT(300, false, "\x18\0\2\x67T\0\2\x68P");
    PUT(300, true, "\x65\x80k");
    EXPECT(300, true, false, NAL "\x67T" NAL "\x68P" NAL "\x65\x80k");
    (void)mr_depacketizer_sets(units, &bytes, &version);
    assert_int_not_equal(version, before);
    /* Damaged: a truncated aggregate, a fragment without an end, one without a start. */
    PUT(400, true, "\x18\0\3\x41\x9ax\0\xff\x41");
    EXPECT(400, false, true, NAL "\x41\x9ax");
    PUT(500, true, "\x5c\x81\x9ax");
    EXPECT(500, false, true, NAL "\x41\x9ax");
    PUT(600, true, "\x5c\x41yy");
    assert_false(mr_depacketizer_take(units, &unit)); /* nothing in it is usable */
    PUT(700, true, "\x41\x9az");
    assert_true(mr_depacketizer_take(units, &unit));
    assert_true(unit.gap && !unit.damaged && !unit.disposable);
    PUT(750, true, "\x01\x9az");
    assert_true(mr_depacketizer_take(units, &unit));
    assert_true(!unit.gap && unit.disposable);
    /* Packet kinds that the depacketizer skips. */
    PUT(800, false, "\x1d\x81zz");
    PUT(800, true, "\x41\x9az");
    EXPECT(800, false, true, NAL "\x41\x9az");
    assert_string_equal(mr_depacketizer_refused(units, &refused), "H.264 packets of type 29");
    assert_int_equal(refused, 1);
    /* Oversized units are dropped. */
    for (int i = 0; i < 60; i++)
        PUT(900, i == 59, "\x41\x9a????");
    assert_false(mr_depacketizer_take(units, &unit));
    PUT(1000, true, "\x41\x9az");
    assert_true(mr_depacketizer_take(units, &unit));
    assert_true(unit.gap && !unit.damaged);
}

/* Some senders leave start codes in. A packet may have one before each NAL unit, or a whole picture with sets.
 * Fragments may look like a parameter set (V380 cameras). */
TEST(test_start_codes) {
    static const char whole[] = NAL "\x67S" NAL "\x68P" NAL "\x65\x80i", hevc[] = NAL "\x40\1V" NAL "\x26\1\x80i";
    ENDED_BY(mr_depacketizer_destroy) mr_depacketizer *units;
    uint64_t refused;
    assert_int_equal(mr_depacketizer_create(&units, MR_RTP_H264, 200), MR_OK);
    PUT(100, false, NAL "\x67S");
    PUT(100, false, NAL "\x68P");
    PUT(100, true, NAL "\x65\x80i");
    mr_depacketizer_release(units);
    EXPECT(100, true, false, whole);
    PUT(200, true, "\x67S" NAL "\x68P" NAL "\x65\x80i");
    EXPECT(200, true, false, whole);
    PUT(300, false, "\x7c\x87S" NAL "\x68");
    PUT(300, false, "\x7c\x07P" "\0\0");
    PUT(300, true, "\x7c\x47\0\1\x65\x80i");
    EXPECT(300, true, false, whole);
    PUT(400, false, "\x7c\x80\0\0\1\x67S" NAL);
    PUT(400, true, "\x7c\x40\x68P" NAL "\x65\x80i");
    EXPECT(400, true, false, whole);
    /* The sets are known now: a key without them gets them. */
    PUT(500, true, NAL "\x65\x80i");
    EXPECT(500, true, false, whole);
    assert_null(mr_depacketizer_refused(units, &refused));
    /* Zeros without a NAL unit after them. */
    PUT(600, true, "\x7c\xc0zz");
    PUT(700, true, "\0\0zz");
    PUT(700, true, "\x41\x9az");
    EXPECT(700, false, true, NAL "\x41\x9az");
    mr_depacketizer_destroy(&units);
    /* Sets from a description, with start codes or joined by them. */
    assert_int_equal(mr_depacketizer_create(&units, MR_RTP_H264, 200), MR_OK);
    mr_depacketizer_add_set(units, (const uint8_t *)NAL "\x67S" NAL "\x68P", 12);
    PUT(100, true, "\x65\x80i");
    mr_depacketizer_release(units);
    EXPECT(100, true, false, whole);
    mr_depacketizer_destroy(&units);
    assert_int_equal(mr_depacketizer_create(&units, MR_RTP_HEVC, 200), MR_OK);
    PUT(100, true, NAL "\x40\1V" NAL "\x26\1\x80i");
    mr_depacketizer_release(units);
    EXPECT(100, true, false, hevc);
    PUT(200, true, "\x40\1V" NAL "\x26\1\x80i");
    EXPECT(200, true, false, hevc);
    PUT(300, false, "\x62\0\x80\0\1\x40\1V" NAL);
    PUT(300, true, "\x62\0\x40\x26\1\x80i");
    EXPECT(300, true, false, hevc);
}

/* ---- suites ------------------------------------------------------------------------------------------------------ */

#define SOURCE "-f lavfi -i testsrc2=size=400x226:rate=25 -frames:v 150 "

static const struct {
    const char *name, *arguments;
    mr_rtp_codec codec;
} clips[] = {
    {"rtp-226-h264.mkv", SOURCE "-c:v libx264 -preset veryfast -bf 2 -g 25 -b:v 3M -pix_fmt yuv420p", MR_RTP_H264},
    {"rtp-226-h264-slices.mkv", SOURCE "-c:v libx264 -preset veryfast -g 25 -b:v 3M -slices 4 -aud 1 -pix_fmt yuv420p",
     MR_RTP_H264},
    /* Pictures after a key, but shown before it and predicted from earlier ones (RASL). */
    {"rtp-226-hevc-open.mkv", SOURCE "-c:v libx265 -preset ultrafast -b:v 2M -pix_fmt yuv420p -x265-params "
     "log-level=none:info=0:aud=1:keyint=24:min-keyint=24:open-gop=1:bframes=3:b-adapt=0:scenecut=0:rc-lookahead=30",
     MR_RTP_HEVC},
    {"rtp-jpeg.mkv", "-f lavfi -i testsrc2=size=640x360:rate=25 -frames:v 60 "
     "-c:v mjpeg -huffman default -q:v 6 -pix_fmt yuvj420p", MR_RTP_JPEG},
    /* Only the first picture is whole; each later one renews a part. */
    {"rtp-226-h264-refresh.mkv", SOURCE "-c:v libx264 -preset veryfast -b:v 3M -pix_fmt yuv420p -x264-params "
     "intra-refresh=1:keyint=25:bframes=0", MR_RTP_H264},
    /* I pictures that are not IDR, followed by pictures shown before them. */
    {"rtp-226-h264-open.mkv", SOURCE "-c:v libx264 -preset veryfast -b:v 3M -pix_fmt yuv420p -x264-params "
     "open-gop=1:keyint=25:bframes=3:b-adapt=0:scenecut=0", MR_RTP_H264},
};

static void make_clip(int index) {
    char path[CLIP_PATH];
    need_clips();
    forget_clip(&the_clip); /* if the previous test failed */
    clip_make(path, clips[index].name, clips[index].arguments);
    read_clip(&the_clip, clips[index].codec, path);
    print_message("%s: %zu pictures in %zu packets\n", clips[index].name, the_clip.count, the_clip.packet_count);
    assert_in_range(the_clip.packet_count, 1000, MOST_PACKETS);
}

static void test_clip(int index) {
    make_clip(index);
    check_whole(&the_clip, true);
    check_whole(&the_clip, false);
    check_lossy(&the_clip);
    for (int i = 0; i < 2 && the_clip.codec != MR_RTP_JPEG; i++)
        check_marked_often(&the_clip, i == 1);
    forget_clip(&the_clip);
}

/* After the first picture, the stream only has recovery points: one every 25 pictures, complete up to 24 pictures
 * later. */
static void test_recovery(int index) {
    make_clip(index);
    check_whole(&the_clip, true);
    decode_clip(&the_clip);
    for (size_t picture = 30; picture < 60; picture += 12)
        check_recovers(&the_clip, picture, 50);
    random_state = seed;
    check_decoded(&the_clip, 4);
    forget_clip(&the_clip);
}

TEST(test_h264) {
    test_clip(0);
}

TEST(test_h264_slices) {
    test_clip(1);
}

TEST(test_hevc) {
    test_clip(2);
}

TEST(test_h264_refresh) {
    test_recovery(4);
}

TEST(test_h264_open) {
    test_recovery(5);
}

TEST(test_jpeg) {
    test_clip(3);
}

int main(void) {
    av_log_set_level(AV_LOG_QUIET);
    return run_suite(NULL, NULL);
}
