#include "stages/live/web/hls_times.h"

/* Pictures that are further apart do not tell how long one lasts. */
static const int64_t most_step_ns = INT64_C(10000000000);

void mr_hls_times_pass(mr_hls_times *times, mr_packet *packet) {
    const int64_t now_ns = packet->dts_ns != MR_NO_TIME ? packet->dts_ns : packet->pts_ns;
    if (now_ns == MR_NO_TIME)
        return;
    const bool beyond = mr_time_bound(now_ns + times->shift_ns) == MR_NO_TIME;
    if ((times->is_anew || beyond) && times->begun)
        times->shift_ns = times->last_ns + times->step_ns - now_ns;
    times->is_anew = false;
    const int64_t shifted_ns = now_ns + times->shift_ns, step_ns = shifted_ns - times->last_ns;
    if (packet->duration_ns > 0)
        times->step_ns = packet->duration_ns;
    else if (times->begun && step_ns > 0 && step_ns < most_step_ns)
        times->step_ns = step_ns;
    packet->pts_ns = mr_time_step(packet->pts_ns, 1, times->shift_ns);
    packet->dts_ns = mr_time_step(packet->dts_ns, 1, times->shift_ns);
    times->last_ns = shifted_ns;
    times->begun = true;
}
