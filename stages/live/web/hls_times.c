#include "stages/live/web/hls_times.h"

/* Pictures that are further apart do not tell how long one lasts. */
static const int64_t most_step_ns = INT64_C(10000000000);
/* About 36 years: times beyond them are none, so that sums of some do not overflow. */
static const int64_t most_ns = INT64_MAX / 8;

static int64_t bounded(int64_t time_ns) {
    return time_ns > most_ns || time_ns < -most_ns ? MR_NO_TIME : time_ns;
}

static int64_t shifted(int64_t time_ns, int64_t shift_ns) {
    return time_ns == MR_NO_TIME ? MR_NO_TIME : bounded(time_ns + shift_ns);
}

void mr_hls_times_begin(mr_hls_times *times, int64_t start_ns) {
    *times = (mr_hls_times){.shift_ns = bounded(start_ns) == MR_NO_TIME ? 0 : -start_ns};
}

void mr_hls_times_pass(mr_hls_times *times, mr_packet *packet) {
    packet->pts_ns = bounded(packet->pts_ns);
    packet->dts_ns = bounded(packet->dts_ns);
    const int64_t now_ns = packet->dts_ns != MR_NO_TIME ? packet->dts_ns : packet->pts_ns;
    if (now_ns == MR_NO_TIME)
        return;
    if (times->is_anew && times->begun)
        times->shift_ns = times->last_ns + times->step_ns - now_ns;
    times->is_anew = false;
    packet->pts_ns = shifted(packet->pts_ns, times->shift_ns);
    packet->dts_ns = shifted(packet->dts_ns, times->shift_ns);
    const int64_t shown_ns = shifted(now_ns, times->shift_ns);
    if (shown_ns == MR_NO_TIME)
        return;
    const int64_t step_ns = shown_ns - times->last_ns;
    if (packet->duration_ns > 0 && packet->duration_ns < most_ns)
        times->step_ns = packet->duration_ns;
    else if (times->begun && step_ns > 0 && step_ns < most_step_ns)
        times->step_ns = step_ns;
    times->last_ns = shown_ns;
    times->begun = true;
}
