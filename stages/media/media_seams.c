#include "stages/media/media_seams.h"

#include <string.h>
#include <unistd.h>

/* ISO/IEC 13818-1. */
enum { TS_BYTES = 188, TS_HEAD = 4, TS_SYNC = 0x47, PES_START = 6 };

/* Times that go back by more, or ahead by more, are those of another recording (ffmpeg: a tenth of a second, and
 * dts_delta_threshold). */
static const AVRational most_back = {1, 10};
enum { MOST_AHEAD_S = 10 };

/* ---- packets of transport streams ------------------------------------------------------------------------------- */

/* A walk over the packets of one stream. */
typedef struct ts_walk {
    int fd;
    int64_t at;       /* of the next packet */
    int raw_bytes;    /* of a packet with its surrounding bytes: 188, 192 or 204 */
    int lead;         /* bytes before its sync byte */
    int pid;
    uint8_t packet[TS_BYTES];
    const uint8_t *payload;
    int payload_bytes;
    bool begins;      /* a PES packet */
    bool jumps;       /* its number does not follow the last one's, and its discontinuity flag is not set */
    bool erroneous;   /* its transport error flag is set */
    int last_number;  /* below 0: none yet */
} ts_walk;

static bool is_sync(int fd, int64_t at) {
    uint8_t byte;
    return pread(fd, &byte, 1, at) == 1 && byte == TS_SYNC;
}

/* Finds the size of packets and the position of the sync byte. */
static bool begin_walk(ts_walk *walk, int fd, int64_t at, int pid) {
    static const int sizes[][2] = {{188, 0}, {192, 4}, {192, 0}, {204, 0}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        *walk = (ts_walk){.fd = fd, .at = at, .raw_bytes = sizes[i][0], .lead = sizes[i][1], .pid = pid,
                          .last_number = -1};
        int64_t first = at + walk->lead;
        if (is_sync(fd, first) && is_sync(fd, first + walk->raw_bytes))
            return true;
    }
    return false;
}

/* Parses the packet; false if it is not of the stream. */
static bool take(ts_walk *walk) {
    const uint8_t *data = walk->packet;
    if (data[0] != TS_SYNC || ((data[1] & 0x1f) << 8 | data[2]) != walk->pid)
        return false;
    bool has_field = data[3] & 0x20, has_payload = data[3] & 0x10, meant = has_field && data[4] && data[5] & 0x80;
    int head = TS_HEAD + (has_field ? 1 + data[4] : 0), number = data[3] & 15;
    int expected = has_payload ? (walk->last_number + 1) & 15 : walk->last_number;
    walk->payload_bytes = has_payload && head < TS_BYTES ? TS_BYTES - head : 0;
    walk->payload = data + TS_BYTES - walk->payload_bytes;
    walk->begins = data[1] & 0x40;
    walk->erroneous = data[1] & 0x80;
    walk->jumps = walk->last_number >= 0 && !meant && number != expected;
    walk->last_number = number;
    return true;
}

/* The next packet of the stream; false at the end of the file. */
static bool step(ts_walk *walk) {
    do {
        if (pread(walk->fd, walk->packet, TS_BYTES, walk->at + walk->lead) != TS_BYTES)
            return false;
        walk->at += walk->raw_bytes;
    } while (!take(walk));
    return true;
}

/* Whether its decoder reports a picture that lacks its end. For others the last packet of a picture must be one that
 * was filled up with stuffing, as nearly all are. */
static bool is_noticed(enum AVCodecID codec) {
    return codec == AV_CODEC_ID_H264 || codec == AV_CODEC_ID_MPEG2VIDEO || codec == AV_CODEC_ID_MPEG1VIDEO ||
           codec == AV_CODEC_ID_MPEG4 || codec == AV_CODEC_ID_VC1;
}

typedef enum finding { WHOLE, LACKING, UNKNOWN } finding;

/* Whether all packets are there that a picture came in, `bytes` long and beginning in the PES packet at `from`. The
 * offset of a jump goes to *jump. */
static finding examine(int fd, int64_t from, const AVStream *stream, int64_t bytes, int64_t *jump) {
    ts_walk walk;
    bool filled;
    int64_t taken = 0, announced = 0;
    if (from < 0 || !begin_walk(&walk, fd, from, stream->id) || !step(&walk) || !walk.begins)
        return UNKNOWN;
    if (walk.payload_bytes >= PES_START)
        announced = walk.payload[4] << 8 | walk.payload[5];
    do {
        taken += walk.payload_bytes;
        filled = walk.payload_bytes == TS_BYTES - TS_HEAD;
        if (walk.erroneous)
            return LACKING;
        if (!step(&walk))
            break;
        if (walk.jumps)
            *jump = walk.at;
        if (walk.jumps && (!walk.begins || (filled && !is_noticed(stream->codecpar->codec_id))))
            return LACKING;
        /* The bytes behind the header of PES packets belong to pictures. */
    } while (!walk.begins || (taken < bytes && !walk.jumps));
    return announced && taken < announced + PES_START ? LACKING : WHOLE;
}

/* libavformat marks the picture that it gives next when the numbers jump, which may be the one before that in which
 * they do: those behind it are looked at as well. */
static void judge(mr_seams *seams, int fd, const AVStream *stream, AVPacket *packet, int64_t *jump) {
    enum { BEHIND = 2 };
    if (packet->flags & AV_PKT_FLAG_CORRUPT)
        seams->suspects = BEHIND + 1;
    if (seams->suspects == 0)
        return;
    seams->suspects--;
    finding found = examine(fd, packet->pos, stream, packet->size, jump);
    if (found == WHOLE)
        packet->flags &= ~AV_PKT_FLAG_CORRUPT;
    else if (found == LACKING)
        packet->flags |= AV_PKT_FLAG_CORRUPT;
}

/* ---- times ------------------------------------------------------------------------------------------------------ */

static int64_t duration_of(const AVStream *stream, const AVPacket *packet) {
    AVRational rate = stream->avg_frame_rate;
    if (packet->duration > 0 || rate.num <= 0 || rate.den <= 0)
        return packet->duration;
    return av_rescale_q(1, av_inv_q(rate), stream->time_base);
}

static bool find_shift(mr_seams *seams, const AVStream *stream, const AVPacket *packet) {
    if (packet->dts == AV_NOPTS_VALUE || seams->next_dts == AV_NOPTS_VALUE)
        return false;
    int64_t off = packet->dts + seams->shift - seams->next_dts;
    bool anew = off < -av_rescale_q(1, most_back, stream->time_base) ||
                off > av_rescale_q(MOST_AHEAD_S, (AVRational){1, 1}, stream->time_base);
    seams->shift -= anew ? off : 0;
    return anew;
}

bool mr_seams_shift(mr_seams *seams, const AVFormatContext *format, const AVStream *stream, AVPacket *packet) {
    const bool anew = format->iformat->flags & AVFMT_TS_DISCONT && find_shift(seams, stream, packet);
    if (packet->dts != AV_NOPTS_VALUE) {
        packet->dts += seams->shift;
        seams->next_dts = packet->dts + duration_of(stream, packet);
    }
    if (packet->pts != AV_NOPTS_VALUE)
        packet->pts += seams->shift;
    return anew;
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

void mr_seams_begin(mr_seams *seams) {
    *seams = (mr_seams){.next_dts = AV_NOPTS_VALUE, .last = -1, .broken_at = -1};
}

/* A seam is noticed by its numbers, by its times, or by both, then within a few packets. */
static bool count(mr_seams *seams) {
    enum { NEAR = 4 };
    bool same = seams->last >= 0 && seams->packets - seams->last < NEAR;
    seams->last = seams->packets;
    seams->found += !same;
    return !same;
}

bool mr_seams_pass(mr_seams *seams, int fd, const AVFormatContext *format, const AVStream *stream, AVPacket *packet) {
    bool seam = false;
    int64_t jump = -1;
    if (!(format->iformat->flags & AVFMT_TS_DISCONT))
        return false;
    if (strcmp(format->iformat->name, "mpegts") == 0)
        judge(seams, fd, stream, packet, &jump);
    if (jump >= 0 && jump != seams->broken_at) {
        seams->broken_at = jump;
        seam = count(seams);
    }
    if (mr_seams_shift(seams, format, stream, packet))
        seam |= count(seams);
    seams->packets++;
    return seam;
}
