#include "stages/live/web/hls_times.h"

/* A longer distance between pictures says nothing about their duration. */
static const int64_t most_step_ns = INT64_C(10000000000);

void mr_hls_times_begin(mr_hls_times *times, int64_t start_ns) {
    *times = (mr_hls_times){.shift_ns = mr_time_bound(start_ns) == MR_NO_TIME ? 0 : -start_ns};
}

/* A clock beyond the bounds counts as another clock. */
void mr_hls_times_pass(mr_hls_times *times, mr_packet *packet) {
    packet->pts_ns = mr_time_bound(packet->pts_ns);
    packet->dts_ns = mr_time_bound(packet->dts_ns);
    const int64_t now_ns = packet->dts_ns != MR_NO_TIME ? packet->dts_ns : packet->pts_ns;
    if (now_ns == MR_NO_TIME)
        return;
    const bool beyond = mr_time_step(now_ns, 1, times->shift_ns) == MR_NO_TIME;
    if ((times->is_anew || beyond) && times->begun)
        times->shift_ns = times->last_ns + times->step_ns - now_ns;
    times->is_anew = false;
    packet->pts_ns = mr_time_step(packet->pts_ns, 1, times->shift_ns);
    packet->dts_ns = mr_time_step(packet->dts_ns, 1, times->shift_ns);
    const int64_t shown_ns = mr_time_step(now_ns, 1, times->shift_ns);
    if (shown_ns == MR_NO_TIME)
        return;
    const int64_t step_ns = shown_ns - times->last_ns;
    if (mr_time_bound(packet->duration_ns) > 0)
        times->step_ns = packet->duration_ns;
    else if (times->begun && step_ns > 0 && step_ns < most_step_ns)
        times->step_ns = step_ns;
    times->last_ns = shown_ns;
    times->begun = true;
}
