/* The clock of one live connection, from 0 at its first packet: without its jumps, or by arrival if it is missing or
 * not wanted. That times then rise in presentation order and in decode order is picture_times.h's part. One thread. */
#ifndef MILLRACE_STAGES_LIVE_LIVE_TIMES_H
#define MILLRACE_STAGES_LIVE_LIVE_TIMES_H

#include <stdbool.h>
#include <stdint.h>

#include "stages/media/media_reader.h"

/* STREAM: as the sender says. ARRIVAL: when packets came; those that are shown before an earlier one keep their
 * distance from it. CAMERA: as STREAM, beside the time at which the camera took the picture. */
typedef enum mr_live_clock { MR_LIVE_STREAM, MR_LIVE_ARRIVAL, MR_LIVE_CAMERA } mr_live_clock;

typedef struct mr_live_times {
    mr_live_clock clock;
    bool begun;
    int64_t shift_ns;   /* added to the stream's times */
    int64_t last_ns;    /* the latest decoding time; without any, presentation time */
    int64_t highest_ns; /* of pts_ns, as given by the stream and shifted */
    int64_t shown_ns;   /* the time given to that packet */
    int64_t led_ns;     /* the arrival of that packet */
    int64_t arrived_ns; /* of the last packet */
    uint64_t jumps;     /* of the stream's clock */
} mr_live_times;

void mr_live_times_begin(mr_live_times *times, mr_live_clock clock);
/* Sets pts_ns, dts_ns and captured_ns of the next packet, whose arrived_ns is known. The clock has
 * jumped if it runs back by more than a second, or ahead by more than ten that the arrival does not explain. */
void mr_live_times_pass(mr_live_times *times, mr_packet *packet);

#endif
