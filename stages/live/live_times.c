#include "stages/live/live_times.h"

#include "engine/base/clock.h"

static const int64_t second_ns = 1000000000, step_ns = 1000;
enum { AHEAD = 10 };

void mr_live_times_begin(mr_live_times *times, mr_live_clock clock) {
    *times = (mr_live_times){.clock = clock};
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Estimates the next packet's time: the last one's plus the distance between arrivals. */
static int64_t expect(const mr_live_times *times, const mr_packet *packet) {
    return times->last_ns + later(packet->arrived_ns - times->arrived_ns, step_ns);
}

/* For a packet without any time. */
static void invent(const mr_live_times *times, mr_packet *packet) {
    packet->pts_ns = times->begun ? expect(times, packet) : 0;
}

static void shift(mr_live_times *times, mr_packet *packet, bool has_dts) {
    int64_t begin = packet->pts_ns != MR_NO_TIME ? packet->pts_ns : packet->dts_ns;
    if (!times->begun)
        times->shift_ns = -begin;
    int64_t now = (has_dts ? packet->dts_ns : packet->pts_ns) + times->shift_ns, expected = expect(times, packet);
    /* Pictures shown before earlier ones step back, by less than a second, unless decoding times are known. */
    bool back = times->begun && now < times->last_ns - second_ns;
    bool ahead = times->begun && now > expected + AHEAD * second_ns;
    if (back || ahead) {
        times->shift_ns += expected - now;
        times->jumps++;
    }
    if (packet->pts_ns != MR_NO_TIME)
        packet->pts_ns = mr_time_bound(packet->pts_ns + times->shift_ns);
    if (has_dts)
        packet->dts_ns += times->shift_ns;
}

/* Replaces stream times by arrival times. */
static void replace(mr_live_times *times, mr_packet *packet, int64_t shown_ns) {
    int64_t came = times->begun ? later(times->shown_ns + step_ns, times->shown_ns + packet->arrived_ns - times->led_ns)
                                : 0;
    bool leads = !times->begun || shown_ns >= times->highest_ns;
    packet->pts_ns = leads ? came : later(times->shown_ns + shown_ns - times->highest_ns, 0);
    packet->dts_ns = MR_NO_TIME;
    if (leads) {
        times->shown_ns = came;
        times->led_ns = packet->arrived_ns;
    }
}

static int64_t date_of(int64_t monotonic_ns) {
    return mr_clock_offset_ns(mr_clock_real(), NULL) + monotonic_ns;
}

void mr_live_times_pass(mr_live_times *times, mr_packet *packet) {
    packet->pts_ns = mr_time_bound(packet->pts_ns);
    packet->dts_ns = mr_time_bound(packet->dts_ns);
    const bool has_dts = packet->dts_ns != MR_NO_TIME;
    if (packet->pts_ns == MR_NO_TIME && !has_dts)
        invent(times, packet);
    else
        shift(times, packet, has_dts);
    const int64_t shown_ns = packet->pts_ns != MR_NO_TIME ? packet->pts_ns : packet->dts_ns;
    const int64_t decoded_ns = has_dts ? packet->dts_ns : shown_ns;
    if (times->clock == MR_LIVE_ARRIVAL)
        replace(times, packet, shown_ns);
    times->arrived_ns = packet->arrived_ns;
    times->highest_ns = times->begun ? later(times->highest_ns, shown_ns) : shown_ns;
    times->last_ns = times->begun ? later(times->last_ns, decoded_ns) : decoded_ns;
    times->begun = true;
    if (times->clock != MR_LIVE_CAMERA)
        packet->captured_ns = times->clock == MR_LIVE_ARRIVAL ? date_of(packet->arrived_ns) : MR_NO_TIME;
}
