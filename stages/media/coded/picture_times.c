#include "stages/media/coded/picture_times.h"

#include <math.h>
#include <string.h>

/* One tick on the MPEG clock, the coarsest in recordings. It cannot represent times nearer to each other. */
static const int64_t TICK_NS = 11112;

void mr_picture_times_begin(mr_picture_times *times, bool live) {
    mr_picture_times_fini(times);
    *times = (mr_picture_times){.live = live, .floor_ns = MR_NO_TIME, .highest_ns = MR_NO_TIME, .said_ns = MR_NO_TIME,
                                .last_dts_ns = MR_NO_TIME};
}

void mr_picture_times_fini(mr_picture_times *times) {
    mr_picture_order_fini(&times->order);
}

/* ---- facts about the stream -------------------------------------------------------------------------------------- */

/* A duration above one day means a damaged file. */
static int64_t duration_of(const mr_packet *packet) {
    static const int64_t most_ns = INT64_C(86400000000000);
    const bool said = packet->duration_ns > 0 && packet->duration_ns <= most_ns;
    return said ? packet->duration_ns : packet->media ? mr_media_interval_ns(packet->media) : 0;
}

static void note_codec(mr_picture_times *times, const mr_packet *packet) {
    if (!packet->media || !packet->media->codec || times->codec == packet->media->codec)
        return;
    times->codec = packet->media->codec;
    times->depth = mr_picture_order_depth(packet->media->codec, &times->sure);
    times->depth = times->depth < MR_TIMES_DEPTH ? times->depth : MR_TIMES_DEPTH;
    times->seen = times->looked_at = 0;
}

/* For a live stream, arrival times count, since the clock may be wrong. */
static void note_interval(mr_picture_times *times, const mr_packet *packet) {
    enum { SMOOTH = 16 };
    static const int64_t most_ns = 2000000000;
    const int64_t came_ns = packet->arrived_ns - times->arrived_ns, said_ns = duration_of(packet);
    if (!times->live || !times->interval_ns)
        times->interval_ns = said_ns > 0 ? said_ns : times->interval_ns;
    if (times->live && times->begun && came_ns >= 0 && came_ns < most_ns)
        times->interval_ns +=
            times->interval_ns ? (came_ns - times->interval_ns) / SMOOTH : came_ns;
    times->arrived_ns = packet->arrived_ns;
}

/* ---- presentation times ------------------------------------------------------------------------------------------ */

static void forget(mr_picture_times *times, int64_t floor_ns) {
    times->shown_count = 0;
    times->floor_ns = floor_ns;
    times->based = false;
}

/* The time of the packet in this place, if pictures are shown in packet order. A packet that has not come yet is
 * expected at the stream's rate. */
static int64_t time_of_place(const mr_picture_times *times, int64_t place, int64_t decoded_ns) {
    const int64_t ahead = place - times->packets;
    if (ahead > -MR_TIMES_KEPT && ahead <= 0 && place >= 0)
        return times->decoded_ns[place % MR_TIMES_KEPT];
    return mr_time_step(decoded_ns, ahead, times->interval_ns);
}

/* Derives an MPEG-4 picture's time from its clock. The clock counts whole seconds between pictures, so seconds may be
 * missing if reading starts in the middle. */
static int64_t time_by_clock(mr_picture_times *times, int64_t ticks, int64_t decoded_ns) {
    enum { MOST_AWAY = 8 };
    const int64_t most_ns = MOST_AWAY * times->interval_ns;
    const int64_t second_ns = av_rescale(times->order.clock.rate, times->interval_ns, times->order.unit);
    const int64_t since_ns =
        mr_time_bound(av_rescale(ticks - times->base_number, times->interval_ns, times->order.unit));
    int64_t away_ns = mr_time_step(since_ns, 1, times->base_ns - decoded_ns);
    const bool based = times->based && away_ns != MR_NO_TIME;
    if (based && (away_ns > most_ns || away_ns < -most_ns)) {
        const int64_t missed_ns = second_ns > 0 ? llround((double)away_ns / (double)second_ns) * second_ns : 0;
        times->base_ns -= missed_ns;
        away_ns -= missed_ns;
    }
    if (based && away_ns <= most_ns && away_ns >= -most_ns && mr_time_bound(times->base_ns) != MR_NO_TIME)
        return decoded_ns + away_ns;
    times->base_ns = decoded_ns;
    times->base_number = ticks;
    return decoded_ns;
}

/* Derives a picture's time from its number, counted from the last restart or the first picture. */
static void invent(mr_picture_times *times, mr_packet *packet, const mr_picture_place *place) {
    const int64_t decoded_ns = packet->dts_ns != MR_NO_TIME ? packet->dts_ns
                                                              : mr_time_step(0, times->packets, times->interval_ns);
    packet->dts_ns = MR_NO_TIME; /* derived, like the presentation time */
    if (times->order.clocked && decoded_ns != MR_NO_TIME) {
        packet->pts_ns = time_by_clock(times, place->number, decoded_ns);
        times->based = true;
        return;
    }
    if (place->restarts || !times->based || times->order.as_decoded) {
        times->base_place = times->packets;
        times->base_number = place->number - place->leading;
    }
    times->based = true;
    times->decoded_ns[times->packets % MR_TIMES_KEPT] = decoded_ns;
    packet->pts_ns = time_of_place(
        times, times->base_place + (place->number - times->base_number) / times->order.unit, decoded_ns);
}

/* A container that numbers packets starts at 0. If libavformat knows the order, it shifts presentation by the reorder
 * depth. Otherwise decode must do it, which knows the order. */
static void advance(const mr_picture_times *times, mr_packet *packet) {
    packet->pts_ns = mr_time_step(packet->pts_ns, -times->depth, times->interval_ns);
}

/* A time after `lower`: where the picture would be if the clock ran at half pace; at full pace if the clock stands
 * still. */
static int64_t behind(const mr_picture_times *times, int64_t lower_ns, int64_t pts_ns, int64_t pictures) {
    int64_t step_ns = pts_ns == times->said_ns ? times->interval_ns : times->interval_ns / 2;
    step_ns = step_ns > TICK_NS ? step_ns : TICK_NS;
    return lower_ns + step_ns * (pictures < 1 ? 1 : pictures > MR_TIMES_DEPTH ? MR_TIMES_DEPTH : pictures);
}

static int64_t between(const mr_picture_times *times, size_t at, int64_t lower_ns, int64_t number) {
    const struct mr_picture_shown *above = &times->shown[at];
    if (lower_ns == MR_NO_TIME)
        return mr_time_step(above->pts_ns, number - above->number, TICK_NS);
    int64_t part = 1, whole = 2;
    if (at > 0) {
        part = number - above[-1].number;
        whole = above->number - above[-1].number;
    }
    const int64_t pts_ns = lower_ns + av_rescale(above->pts_ns - lower_ns, part, whole);
    return pts_ns > lower_ns ? pts_ns : lower_ns + 1;
}

static void insert(mr_picture_times *times, size_t at, struct mr_picture_shown one) {
    if (times->shown_count == MR_TIMES_KEPT) {
        times->floor_ns = times->shown[0].pts_ns;
        memmove(times->shown, times->shown + 1, --times->shown_count * sizeof *times->shown);
        at = at > 0 ? at - 1 : 0;
    }
    memmove(times->shown + at + 1, times->shown + at, (times->shown_count - at) * sizeof *times->shown);
    times->shown[at] = one;
    times->shown_count++;
}

/* Returns the stream's time for a picture if it lies between its neighbours' times, else a time that does. */
static int64_t fit(mr_picture_times *times, int64_t number, int64_t pts_ns) {
    size_t at = times->shown_count;
    while (at > 0 && times->shown[at - 1].number > number)
        at--;
    /* No stream reorders that far: numbers have restarted without a sign. */
    if (times->shown_count - at > MR_TIMES_DEPTH) {
        forget(times, MR_NO_TIME);
        at = 0;
    }
    if (at > 0 && times->shown[at - 1].number == number)
        return pts_ns; /* the second field */
    const int later = (int)(times->shown_count - at);
    const int64_t lower_ns = at > 0 ? times->shown[at - 1].pts_ns : times->floor_ns;
    const bool early = lower_ns != MR_NO_TIME && pts_ns <= lower_ns, late = later && pts_ns >= times->shown[at].pts_ns;
    int64_t made_ns = MR_NO_TIME;
    times->seen = later > times->seen ? later : times->seen;
    if (later && (early || late))
        made_ns = between(times, at, lower_ns, number);
    else if (early)
        made_ns = behind(times, lower_ns, pts_ns,
                         at > 0 ? (number - times->shown[at - 1].number) / times->order.unit : 1);
    pts_ns = made_ns == MR_NO_TIME ? pts_ns : made_ns;
    insert(times, at, (struct mr_picture_shown){number, pts_ns});
    return pts_ns;
}

/* After enough pictures, the reorder depth is clear even if the stream does not declare it. */
static void settle_depth(mr_picture_times *times) {
    enum { ENOUGH = 48 };
    if (!times->sure && ++times->looked_at == ENOUGH)
        times->depth = times->seen;
    if (times->seen > times->depth)
        times->depth = times->seen;
}

/* For a file whose container gives most presentation times: derives missing ones from the nearest, or after a seam from
 * the decoding time. */
static void complete(mr_picture_times *times, mr_packet *packet, const mr_picture_place *place) {
    const int64_t number = place->number;
    const AVCodecParameters *codec = packet->media->codec;
    size_t at = times->shown_count;
    while (at > 0 && times->shown[at - 1].number > number)
        at--;
    if (packet->pts_ns == MR_NO_TIME && times->shown_count > 0) {
        const struct mr_picture_shown *near = &times->shown[at > 0 ? at - 1 : 0];
        packet->pts_ns = mr_time_step(near->pts_ns, number - near->number, times->interval_ns);
    } else if (packet->pts_ns == MR_NO_TIME && packet->dts_ns != MR_NO_TIME) {
        packet->pts_ns = mr_time_step(packet->dts_ns, codec->video_delay + place->leading, times->interval_ns);
    }
    if (packet->pts_ns != MR_NO_TIME)
        insert(times, at, (struct mr_picture_shown){number, packet->pts_ns});
}

/* Numbers within a group may be wrong if a live stream lost packets. */
static bool looks_into(const mr_picture_times *times, const mr_packet *packet) {
    const bool grouped = packet->media && packet->media->codec && mr_picture_order_is_grouped(packet->media->codec);
    const bool clocked = packet->media && packet->media->codec && mr_picture_order_is_clocked(packet->media->codec);
    return times->live ? !grouped && !clocked : times->lacks || grouped;
}

static void show(mr_picture_times *times, mr_packet *packet) {
    mr_picture_place place = {0};
    if (looks_into(times, packet))
        place = mr_picture_order_next(&times->order, packet);
    /* How many pictures are missing is not known. */
    if (packet->flags & MR_FRAME_SEAM)
        forget(times, MR_NO_TIME);
    if (place.restarts)
        forget(times, times->highest_ns);
    if (place.known && !times->live && !times->lacks) {
        complete(times, packet, &place);
        return;
    }
    if (times->lacks && times->interval_ns > 0 && !place.known)
        advance(times, packet);
    else if (place.known && (times->lacks || packet->pts_ns == MR_NO_TIME) && times->interval_ns > 0)
        invent(times, packet, &place);
    if (packet->pts_ns == MR_NO_TIME)
        return;
    const int64_t said_ns = packet->pts_ns;
    if (place.known) {
        packet->pts_ns = fit(times, place.number, said_ns);
        settle_depth(times);
    }
    times->said_ns = said_ns;
    if (times->highest_ns == MR_NO_TIME || packet->pts_ns > times->highest_ns)
        times->highest_ns = packet->pts_ns;
}

/* ---- decoding times ---------------------------------------------------------------------------------------------- */

/* After the last one, and before `limit_ns` if there is room. */
static int64_t soon(const mr_picture_times *times, int64_t limit_ns) {
    const int64_t last_ns = times->last_dts_ns, room_ns = limit_ns - last_ns;
    const int64_t step_ns = times->interval_ns > TICK_NS ? times->interval_ns : TICK_NS;
    if (room_ns <= 1)
        return last_ns + TICK_NS;
    return last_ns + (step_ns < room_ns ? step_ns : room_ns / 2);
}

/* Returns presentation times delayed by the reorder depth. */
static int64_t hold_back(mr_picture_times *times, int64_t pts_ns) {
    size_t at = times->waiting_count++;
    for (; at > 0 && times->waiting[at - 1] > pts_ns; at--)
        times->waiting[at] = times->waiting[at - 1];
    times->waiting[at] = pts_ns;
    const size_t depth = (size_t)times->depth;
    const int64_t lowest_ns = times->waiting[0];
    if (times->waiting_count <= depth) {
        const int64_t step_ns = times->interval_ns > TICK_NS ? times->interval_ns : TICK_NS;
        return times->last_dts_ns == MR_NO_TIME ? lowest_ns - times->depth * step_ns : soon(times, lowest_ns);
    }
    const size_t gone = times->waiting_count - depth;
    const int64_t dts_ns = times->waiting[gone - 1];
    times->waiting_count = depth;
    memmove(times->waiting, times->waiting + gone, depth * sizeof *times->waiting);
    return times->last_dts_ns == MR_NO_TIME || dts_ns > times->last_dts_ns ? dts_ns : soon(times, lowest_ns);
}

static void decode(mr_picture_times *times, mr_packet *packet) {
    const bool said = packet->dts_ns != MR_NO_TIME;
    if (packet->pts_ns != MR_NO_TIME) {
        const int64_t made_ns = hold_back(times, packet->pts_ns);
        packet->dts_ns = said ? packet->dts_ns : made_ns;
    }
    if (packet->dts_ns == MR_NO_TIME)
        return;
    const int64_t pts_ns = packet->pts_ns != MR_NO_TIME ? packet->pts_ns : packet->dts_ns;
    if (times->live && packet->dts_ns > pts_ns)
        packet->dts_ns = pts_ns;
    if (times->live && times->last_dts_ns != MR_NO_TIME && packet->dts_ns <= times->last_dts_ns)
        packet->dts_ns = soon(times, pts_ns);
    times->last_dts_ns = packet->dts_ns;
}

void mr_picture_times_pass(mr_picture_times *times, mr_packet *packet) {
    packet->duration_ns = mr_time_bound(packet->duration_ns) > 0 ? packet->duration_ns : 0;
    if (!times->begun)
        times->lacks = !times->live && packet->pts_ns == MR_NO_TIME;
    note_codec(times, packet);
    note_interval(times, packet);
    show(times, packet);
    decode(times, packet);
    times->packets++;
    times->begun = true;
}
