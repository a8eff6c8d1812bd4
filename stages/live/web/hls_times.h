/* Times of packets over the runs of a stream whose clocks have nothing to do with each other (EXT-X-DISCONTINUITY, a
 * restarted encoder): each run continues where the one before has ended. Pure. */
#ifndef MILLRACE_STAGES_LIVE_WEB_HLS_TIMES_H
#define MILLRACE_STAGES_LIVE_WEB_HLS_TIMES_H

#include "stages/media/media_reader.h"

/* Zeroed: times stay as they are until another clock begins. */
typedef struct mr_hls_times {
    bool begun;
    bool is_anew;             /* the next packet is the first of another clock */
    int64_t shift_ns;         /* added to the stream's times */
    int64_t last_ns, step_ns; /* of the last packet, as given: decoding time, and how long it lasts */
} mr_hls_times;

/* Times begin at 0 where they are `start_ns`. */
void mr_hls_times_begin(mr_hls_times *times, int64_t start_ns);
/* Shifts pts_ns and dts_ns of the next packet. */
void mr_hls_times_pass(mr_hls_times *times, mr_packet *packet);

#endif
