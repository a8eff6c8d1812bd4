#include "stages/media/media_seams.h"

#include <string.h>
#include <unistd.h>

/* A larger step back or ahead means another recording (ffmpeg: a tenth of a second, and dts_delta_threshold). */
static const AVRational most_back = {1, 10};
enum { MOST_AHEAD_S = 10 };

/* ---- packets of transport streams ------------------------------------------------------------------------------- */

/* Scans on, or starts at the packet, until it is known whether the packet is complete. */
static void scan_file(mr_seams *seams, int fd, int pid, const AVPacket *packet) {
    enum { PIECE = 32768, MOST_AHEAD = 1 << 20, MOST_HEAD = 4096 };
    uint8_t data[PIECE];
    int64_t at = mr_ts_scan_end(seams->scan);
    const int64_t most = packet->size + (int64_t)MOST_AHEAD;
    if (packet->pos >= 0 && (packet->pos > at + MOST_AHEAD || packet->pos < seams->scanned_from)) {
        at = seams->scanned_from = packet->pos;
        seams->marks = (mr_ts_marks){0};
    }
    for (int64_t fed = 0; fed < most;) {
        mr_ts_cursor cursor = seams->marks.cursor;
        const mr_ts_found found = mr_ts_scan_find(seams->scan, &cursor, pid, packet->pos, (size_t)packet->size);
        const bool wanted = found.known ? found.open : packet->pos >= 0 && at < packet->pos + MOST_HEAD;
        const ssize_t bytes = wanted ? pread(fd, data, sizeof data, at) : 0;
        if (bytes <= 0)
            return;
        mr_ts_scan_feed(seams->scan, at, data, (size_t)bytes);
        at += bytes;
        fed += bytes;
    }
}

static bool mark(mr_seams *seams, int fd, const AVStream *stream, AVPacket *packet) {
    if (!seams->scan)
        seams->scan = mr_ts_scan_create();
    if (seams->scan)
        scan_file(seams, fd, stream->id, packet);
    return mr_ts_mark(&seams->marks, seams->scan, stream->id, packet);
}

/* ---- times ------------------------------------------------------------------------------------------------------ */

static int64_t duration_of(const AVStream *stream, const AVPacket *packet) {
    AVRational rate = stream->avg_frame_rate;
    if (packet->duration > 0 || rate.num <= 0 || rate.den <= 0)
        return packet->duration;
    return av_rescale_q(1, av_inv_q(rate), stream->time_base);
}

/* Whether a packet belongs to another recording than those before it, which end at `expected`. */
static bool are_apart(const AVStream *stream, int64_t expected, int64_t dts) {
    const int64_t off = av_sat_sub64(dts, expected);
    return off < -av_rescale_q(1, most_back, stream->time_base) ||
           off > av_rescale_q(MOST_AHEAD_S, (AVRational){1, 1}, stream->time_base);
}

/* After a seam, the first picture must follow the latest one. If the latest is unknown, or the first is no key frame
 * (others may be shown before it), decoding order counts instead. */
static bool find_shift(mr_seams *seams, const AVStream *stream, const AVPacket *packet) {
    if (packet->dts == AV_NOPTS_VALUE || seams->next_dts == AV_NOPTS_VALUE)
        return false;
    const bool anew = are_apart(stream, seams->next_dts, av_sat_add64(packet->dts, seams->shift));
    int64_t off = av_sat_sub64(av_sat_add64(packet->dts, seams->shift), seams->next_dts);
    if (packet->flags & AV_PKT_FLAG_KEY && packet->pts != AV_NOPTS_VALUE && !seams->lacks_pts)
        off = av_sat_sub64(av_sat_add64(packet->pts, seams->shift), seams->next_pts);
    seams->shift = av_sat_sub64(seams->shift, anew ? off : 0);
    return anew;
}

static int64_t latest(int64_t a, int64_t b) { /* AV_NOPTS_VALUE is below all times */
    return a > b ? a : b;
}

void mr_seams_date(const mr_seams *seams, const AVStream *stream, AVPacket *key, const AVPacket *next) {
    int64_t expected = key->dts;
    if (expected == AV_NOPTS_VALUE && seams->next_dts != AV_NOPTS_VALUE)
        expected = seams->next_dts - seams->shift;
    if (expected != AV_NOPTS_VALUE && next->dts != AV_NOPTS_VALUE && are_apart(stream, expected, next->dts))
        key->dts = next->dts - duration_of(stream, key);
}

bool mr_seams_shift(mr_seams *seams, const AVFormatContext *format, const AVStream *stream, AVPacket *packet) {
    const bool anew = format->iformat->flags & AVFMT_TS_DISCONT && find_shift(seams, stream, packet);
    const int64_t duration = duration_of(stream, packet);
    if (packet->dts != AV_NOPTS_VALUE) {
        packet->dts = av_sat_add64(packet->dts, seams->shift);
        seams->next_dts = av_sat_add64(packet->dts, duration);
    } else if (seams->next_dts != AV_NOPTS_VALUE) {
        seams->next_dts = av_sat_add64(seams->next_dts, duration);
    }
    seams->lacks_pts |= packet->pts == AV_NOPTS_VALUE;
    if (packet->pts != AV_NOPTS_VALUE) {
        packet->pts = av_sat_add64(packet->pts, seams->shift);
        seams->next_pts = latest(anew ? AV_NOPTS_VALUE : seams->next_pts, av_sat_add64(packet->pts, duration));
    }
    return anew;
}

/* ---- both ------------------------------------------------------------------------------------------------------- */

void mr_seams_begin(mr_seams *seams) {
    *seams = (mr_seams){.scan = seams->scan, .scanned_from = INT64_MAX, .next_dts = AV_NOPTS_VALUE,
                        .next_pts = AV_NOPTS_VALUE};
}

void mr_seams_fini(mr_seams *seams) {
    mr_ts_scan_destroy(&seams->scan);
}

void mr_seams_note_change(mr_seams *seams) {
    seams->marks = (mr_ts_marks){0};
    seams->changes = true;
}

bool mr_seams_pass(mr_seams *seams, int fd, const AVFormatContext *format, const AVStream *stream, AVPacket *packet) {
    bool seam = strcmp(format->iformat->name, "mpegts") == 0 && mark(seams, fd, stream, packet);
    seam |= mr_seams_shift(seams, format, stream, packet);
    seam |= seams->changes;
    seams->changes = false;
    seams->found += seam;
    return seam;
}
