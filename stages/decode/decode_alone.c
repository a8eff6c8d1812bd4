#include "stages/decode/decode_alone.h"

#include <libavcodec/codec_par.h>

#include "stages/decode/decode_packet.h"

static mr_alone_packet *slot_of(mr_alone *alone, int64_t number) {
    return &alone->packet[number % MR_PENDING_WINDOW];
}

/* NULL: not remembered. */
static mr_alone_packet *find(mr_alone *alone, int64_t number) {
    mr_alone_packet *found = number > 0 ? slot_of(alone, number) : NULL;
    return found && found->number == number ? found : NULL;
}

static bool agrees(const mr_alone_packet *next, unsigned expected) {
    return next->place.known && (next->place.restarts || next->place.number == expected);
}

static int64_t distance_of(int64_t a_ns, int64_t b_ns) {
    return a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns;
}

/* Whether at most a few pictures are missing between these times. */
static bool is_near(const mr_alone *alone, int64_t before_ns, int64_t now_ns) {
    enum { MOST_STEPS = 8, LEAST_GROUP = 16 };
    const bool short_group = alone->least_group && alone->least_group < LEAST_GROUP;
    return before_ns != MR_NO_TIME && now_ns != MR_NO_TIME && alone->step_ns > 0 && !short_group &&
           distance_of(now_ns, before_ns) / MOST_STEPS <= alone->step_ns;
}

/* Records a time and the least distance between two. */
static void note_step(int64_t *last_ns, int64_t *step_ns, int64_t now_ns, bool begun) {
    if (now_ns == MR_NO_TIME)
        return;
    const int64_t distance = begun && *last_ns != MR_NO_TIME ? distance_of(now_ns, *last_ns) : 0;
    if (distance > 0 && (!*step_ns || distance < *step_ns))
        *step_ns = distance;
    *last_ns = now_ns;
}

static void note_group(mr_alone *alone, bool restarts, bool begun) {
    alone->group++;
    if (!restarts)
        return;
    if (begun && (!alone->least_group || alone->group < alone->least_group))
        alone->least_group = alone->group;
    alone->group = 0;
}

/* Whether decoding times show no gap before a packet with `dts_ns`. */
static bool follows(const mr_alone *alone, int64_t dts_ns) {
    return dts_ns != MR_NO_TIME && alone->last_dts_ns != MR_NO_TIME && dts_ns > alone->last_dts_ns &&
           dts_ns - alone->last_dts_ns < alone->dts_step_ns + alone->dts_step_ns / 2;
}

/* Whether the last packet confirms that no picture depends on the one before it. */
static bool confirms(const mr_alone *alone, const mr_alone_packet *here) {
    if (alone->waits && !agrees(here, alone->expected))
        return false;
    if (alone->waits && alone->near_ns != MR_NO_TIME && !is_near(alone, alone->near_ns, here->pts_ns))
        return false;
    return !alone->waits_next || here->follows;
}

bool mr_alone_note(mr_alone *alone, const mr_frame *packet, int64_t number) {
    const mr_packet sent = {.media = packet->media, .data = packet->plane[0].data, .bytes = packet->plane[0].bytes,
                            .flags = packet->flags};
    mr_alone_packet *here = slot_of(alone, number);
    *here = (mr_alone_packet){.number = number, .pts_ns = packet->pts_ns,
                              .latest_ns = alone->begun ? alone->latest_ns : INT64_MIN,
                              .place = mr_recovery_place_of(&alone->headers, &sent)};
    here->follows = alone->begun && follows(alone, packet->dts_ns);
    const bool shown = confirms(alone, here);
    alone->waits = alone->waits_next = false;
    alone->near_ns = MR_NO_TIME;
    note_step(&alone->last_ns, &alone->step_ns, packet->pts_ns, alone->begun);
    note_step(&alone->last_dts_ns, &alone->dts_step_ns, packet->dts_ns, alone->begun);
    note_group(alone, here->place.restarts, alone->begun);
    if (packet->pts_ns != MR_NO_TIME && (!alone->begun || packet->pts_ns > alone->latest_ns)) {
        alone->latest_ns = packet->pts_ns;
        alone->begun = true;
    }
    return shown;
}

/* Finds the last undamaged packet before `number`, and the frame_num that must follow if no reference picture comes
 * between. NULL: not known. */
static const mr_alone_packet *expect(mr_alone *alone, int64_t number, unsigned *expected) {
    const mr_alone_packet *before;
    do
        before = find(alone, --number);
    while (before && before->damaged);
    if (!before || !before->place.known)
        return NULL;
    *expected = (before->place.number + before->place.reference) & ((1u << before->place.bits) - 1);
    return before;
}

/* A decoder that meets an unexpected frame_num invents pictures, and discards others for them. */
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

static bool spares_h264(mr_alone *alone, const mr_frame *packet, int64_t number) {
    const mr_alone_packet *here = find(alone, number);
    unsigned expected;
    const mr_alone_packet *before = expect(alone, number, &expected);
    if (!before || here->place.restarts || !agrees(here, expected) || !is_near(alone, before->pts_ns, here->pts_ns))
        return false;
    if (!here->damaged)
        return true;
    if (!mr_packet_is_alone(packet) || !is_sure_h264(alone, number))
        return false;
    alone->near_ns = before->pts_ns;
    return true;
}

/* A picture that is shown after all pictures decoded so far can be a reference picture. */
static bool spares_by_time(mr_alone *alone, const mr_frame *packet, int64_t number) {
    const mr_alone_packet *here = find(alone, number);
    alone->waits_next = here->damaged && here->follows && packet->pts_ns != MR_NO_TIME &&
                        packet->pts_ns < here->latest_ns && mr_packet_is_alone(packet);
    return alone->waits_next;
}

bool mr_alone_spares(mr_alone *alone, const mr_frame *packet, int64_t number) {
    mr_alone_packet *here = find(alone, number);
    if (!here)
        return false;
    here->damaged = packet->flags & MR_FRAME_CORRUPT;
    switch (((const AVCodecParameters *)packet->media->codec)->codec_id) {
    case AV_CODEC_ID_H264:
        return spares_h264(alone, packet, number);
    case AV_CODEC_ID_HEVC:
    case AV_CODEC_ID_MPEG1VIDEO:
    case AV_CODEC_ID_MPEG2VIDEO:
        return spares_by_time(alone, packet, number);
    default:
        return false;
    }
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
