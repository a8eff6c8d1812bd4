#include "stages/decode/stream.h"

#include "stages/decode/selection.h"

void mr_decode_stream_init(mr_decode_stream *stream) {
    *stream = (mr_decode_stream){.time_ns = MR_NO_TIME};
}

bool mr_decode_stream_is_at(const mr_decode_stream *stream, uint32_t epoch) {
    return stream->epoch == epoch;
}

mr_identity mr_decode_stream_begin(mr_decode_stream *stream, uint32_t epoch) {
    const mr_identity rest = {.epoch = stream->epoch, .seq = stream->seq};
    *stream = (mr_decode_stream){.epoch = epoch, .time_ns = MR_NO_TIME};
    return rest;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static int64_t interval_of(const mr_frame *packet) {
    return packet->duration_ns > 0 ? packet->duration_ns : mr_media_interval_ns(packet->media);
}

/* The next picture after `number` in decode order with a later time, if it is shown as soon as it is decoded;
 * MR_NO_TIME: none known. */
static int64_t shown_next(const mr_pending *pending, int64_t number, int64_t time_ns) {
    int64_t first_ns = MR_NO_TIME;
    for (int64_t next = number + 1; next < mr_pending_next(pending); next++) {
        const mr_frame *packet = mr_pending_find(pending, next);
        if (packet && (packet->pts_ns == MR_NO_TIME || packet->pts_ns > packet->dts_ns))
            break;
        if (packet && (time_ns == MR_NO_TIME || packet->pts_ns > time_ns) &&
            (first_ns == MR_NO_TIME || packet->pts_ns < first_ns))
            first_ns = packet->pts_ns;
    }
    return first_ns;
}

/* The latest picture known to be shown before an undated packet's picture: one that was emitted, or one decoded later
 * and shown immediately. The picture belongs where one is missing. */
static int64_t shown_before(const mr_decode_stream *stream, const mr_pending *pending, int64_t number,
                            int64_t interval_ns) {
    int64_t latest_ns = stream->time_ns, next_ns;
    while (pending && (next_ns = shown_next(pending, number, latest_ns)) != MR_NO_TIME &&
           (latest_ns == MR_NO_TIME || !interval_ns || next_ns - latest_ns < interval_ns + interval_ns / 2))
        latest_ns = next_ns;
    return latest_ns;
}

/* Derives a time for a picture whose packet has none; MR_NO_TIME: the stream has neither times nor a rate. */
static int64_t invent_time(const mr_decode_stream *stream, const mr_pending *pending, const mr_frame *packet,
                           int64_t number) {
    const int64_t interval_ns = interval_of(packet), before_ns = shown_before(stream, pending, number, interval_ns);
    if (before_ns != MR_NO_TIME)
        return interval_ns ? before_ns + interval_ns : MR_NO_TIME;
    if (packet->dts_ns != MR_NO_TIME)
        return packet->dts_ns;
    return interval_ns ? (int64_t)stream->seq * interval_ns : MR_NO_TIME;
}

/* Presentation times must rise. Packet times do (media/coded/picture_times.h), unless their order was not known there,
 * or damage confused it. */
int64_t mr_decode_stream_place(mr_decode_stream *stream, const mr_pending *pending, const mr_frame *packet,
                               int64_t number) {
    static const int64_t tick_ns = 11112; /* one tick on the MPEG clock */
    int64_t time_ns = packet->pts_ns != MR_NO_TIME ? packet->pts_ns : invent_time(stream, pending, packet, number);
    if (time_ns != MR_NO_TIME && stream->time_ns != MR_NO_TIME && time_ns <= stream->time_ns)
        time_ns = stream->time_ns + tick_ns;
    stream->numbered = mr_selection_has_begun(packet->media, time_ns);
    stream->time_ns = time_ns;
    return time_ns;
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

void mr_decode_stream_stamp(const mr_decode_stream *stream, mr_frame *frame) {
    frame->identity.seq = stream->seq;
    frame->pts_ns = stream->time_ns;
    frame->dts_ns = MR_NO_TIME;
}

bool mr_decode_stream_settle(mr_decode_stream *stream, bool emitted) {
    stream->seq += stream->numbered && emitted;
    return stream->numbered && !emitted;
}

mr_identity mr_decode_stream_skip(mr_decode_stream *stream) {
    return (mr_identity){.epoch = stream->epoch, .seq = stream->seq++};
}
