/* Makes packet times continuous across a stream's runs, whose clocks can be unrelated (EXT-X-DISCONTINUITY, a restarted
 * encoder). Pure. */
#pragma once

#include "stages/media/media_reader.h"

/* All zero: times stay unchanged until another clock begins. */
typedef struct mr_hls_times {
    bool begun;
    bool is_anew;             /* the next packet starts another clock */
    int64_t shift_ns;         /* added to the stream's times */
    int64_t last_ns, step_ns; /* last packet, as given: decoding time, duration */
} mr_hls_times;

/* Times begin at 0 where they are `start_ns`. */
void mr_hls_times_begin(mr_hls_times *times, int64_t start_ns);
/* Shifts the packet's pts_ns and dts_ns. */
void mr_hls_times_pass(mr_hls_times *times, mr_packet *packet);
