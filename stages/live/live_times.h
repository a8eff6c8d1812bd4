/* One live connection's clock, which starts at 0. It removes jumps, or uses arrival times if the stream has no usable
 * clock. picture_times.h must then make times rise in presentation and decode order. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "stages/media/media_reader.h"

/* STREAM: the sender's times. ARRIVAL: when packets came; a picture that is shown before an earlier packet keeps its
 * distance from it. CAMERA: like STREAM, and also gives the time when the camera took the picture. */
typedef enum mr_live_clock { MR_LIVE_STREAM, MR_LIVE_ARRIVAL, MR_LIVE_CAMERA } mr_live_clock;

typedef struct mr_live_times {
    mr_live_clock clock;
    bool begun;
    int64_t shift_ns;   /* added to the stream's times */
    int64_t last_ns;    /* the latest decoding time; without any, presentation time */
    int64_t highest_ns; /* highest pts_ns from the stream, shifted */
    int64_t shown_ns;   /* what that packet's time became */
    int64_t led_ns;     /* when that packet arrived */
    int64_t arrived_ns; /* last packet's arrival */
    uint64_t jumps;     /* how often the stream's clock jumped */
} mr_live_times;

void mr_live_times_begin(mr_live_times *times, mr_live_clock clock);
/* Sets pts_ns, dts_ns and captured_ns in the next packet; its arrived_ns must be known. The clock has jumped if it runs
 * back by more than a second, or ahead by more than ten beyond the arrival. */
void mr_live_times_pass(mr_live_times *times, mr_packet *packet);
