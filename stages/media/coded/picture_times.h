/* Corrects one source's packet times, in one place.
 *
 * Containers and cameras may omit decoding or presentation times, or give times that jitter, step back or repeat. Here
 * presentation times must rise in presentation order, and decoding times in decode order, and no picture may be decoded
 * after it is shown. Rows, picture selection and recordings all use these times.
 *
 * Correct times stay the same to the nanosecond. A presentation time that contradicts the picture order
 * (picture_order.h) moves between its neighbours. If it is the latest, it follows the last one by half the usual
 * distance until the clock has caught up. A clock step therefore spreads over twice its length, and no error
 * accumulates. Files whose container gives both times pass unchanged. One thread. All zero needs no fini. */
#pragma once

#include "stages/media/coded/picture_order.h"

enum { MR_TIMES_KEPT = 32, MR_TIMES_DEPTH = 16 };

typedef struct mr_picture_times {
    bool live;
    bool lacks;                 /* the container has no presentation times */
    bool begun;
    mr_picture_order order;
    struct mr_picture_shown {
        int64_t number, pts_ns;
    } shown[MR_TIMES_KEPT];     /* since the last restart: the highest numbers, ascending */
    size_t shown_count;
    int64_t floor_ns;           /* later pictures are shown after this; MR_NO_TIME: no limit known */
    int64_t highest_ns;         /* highest so far; MR_NO_TIME: none */
    int64_t said_ns;            /* the last picture's stream time */
    int64_t interval_ns;        /* usual distance between pictures; 0: not known */
    int64_t arrived_ns;         /* a live stream's last packet */
    int64_t packets;
    bool based;                 /* pictures without a time count from this one's packet place and number */
    int64_t base_place, base_number;
    int64_t base_ns;            /* MPEG-4: instead of the place */
    int64_t decoded_ns[MR_TIMES_KEPT]; /* the last packets' times, by place */

    const void *codec;          /* the codec that `depth` is for */
    int depth;                  /* how many pictures can be decoded before one that is shown earlier */
    bool sure;                  /* otherwise the depth is settled after some pictures, from the largest seen */
    int seen, looked_at;
    int64_t waiting[MR_TIMES_DEPTH + 1]; /* presentation times not yet used as decoding time, ascending */
    size_t waiting_count;
    int64_t last_dts_ns;        /* MR_NO_TIME: none */
} mr_picture_times;

/* Begins a stream whose times are unrelated to earlier ones. `live`: packets have arrived_ns, and the stream's clock
 * may be wrong. */
void mr_picture_times_begin(mr_picture_times *times, bool live);
/* Sets pts_ns and dts_ns in the next packet in decode order, if they are known or can be derived. */
void mr_picture_times_pass(mr_picture_times *times, mr_packet *packet);
void mr_picture_times_fini(mr_picture_times *times);
