#include "stages/decode/decode_alone.h"

#include <libavcodec/codec_par.h>

#include "stages/decode/decode_packet.h"

static mr_alone_packet *slot_of(mr_alone *alone, int64_t number) {
    return &alone->packet[number % MR_PENDING_WINDOW];
}

/* NULL: it is none of those that are remembered. */
static mr_alone_packet *find(mr_alone *alone, int64_t number) {
    mr_alone_packet *found = number > 0 ? slot_of(alone, number) : NULL;
    return found && found->number == number ? found : NULL;
}

static bool agrees(const mr_alone_packet *next, unsigned expected) {
    return next->place.known && (next->place.restarts || next->place.number == expected);
}

bool mr_alone_note(mr_alone *alone, const mr_frame *packet, int64_t number) {
    const mr_packet sent = {.media = packet->media, .data = packet->plane[0].data, .bytes = packet->plane[0].bytes,
                            .flags = packet->flags};
    mr_alone_packet *here = slot_of(alone, number);
    const bool waited = alone->waits;
    *here = (mr_alone_packet){.number = number, .latest_ns = alone->begun ? alone->latest_ns : INT64_MIN,
                              .place = mr_recovery_place_of(&alone->headers, &sent)};
    if (packet->pts_ns != MR_NO_TIME && (!alone->begun || packet->pts_ns > alone->latest_ns)) {
        alone->latest_ns = packet->pts_ns;
        alone->begun = true;
    }
    alone->waits = false;
    return !waited || agrees(here, alone->expected);
}

/* The frame_num of the next picture if none from behind the last whole packet before `number` on is referred to. */
static bool expect(mr_alone *alone, int64_t number, unsigned *expected) {
    const mr_alone_packet *before;
    do
        before = find(alone, --number);
    while (before && before->damaged);
    if (!before || !before->place.known)
        return false;
    *expected = (before->place.number + before->place.reference) & ((1u << before->place.bits) - 1);
    return true;
}

/* A decoder that meets another frame_num than the expected one makes up pictures, for which others have to go. */
static bool is_sure_h264(mr_alone *alone, int64_t number) {
    unsigned expected;
    const mr_alone_packet *next = find(alone, number);
    if (!expect(alone, number, &expected) || !next || next->place.restarts || !agrees(next, expected))
        return false;
    do
        next = find(alone, ++number);
    while (next && next->damaged);
    alone->waits = !next;
    alone->expected = expected;
    return !next || agrees(next, expected);
}

bool mr_alone_is_sure(mr_alone *alone, const mr_frame *packet, int64_t number) {
    mr_alone_packet *here = find(alone, number);
    if (here)
        here->damaged = true;
    if (!mr_packet_is_alone(packet))
        return false;
    if (packet->media->still)
        return true;
    switch (((const AVCodecParameters *)packet->media->codec)->codec_id) {
    case AV_CODEC_ID_H264:
        return is_sure_h264(alone, number);
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
    case AV_CODEC_ID_MPEG4:
        return here && packet->pts_ns != MR_NO_TIME && packet->pts_ns < here->latest_ns;
    default:
        return true;
    }
}
