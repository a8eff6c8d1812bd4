/* Computes when MPEG-4 pictures (ISO/IEC 14496-2) are shown from the clock in the headers: they have no other order.
 * The data is untrusted. One thread. All zero: no picture has come. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_mpeg4_clock {
    unsigned rate;          /* ticks a second; 0: no header yet */
    int64_t second, before; /* for the last reference picture, and the one before it */
} mr_mpeg4_clock;

/* Reads the picture's time in this packet, in ticks. False if it has none, or no header has come. */
bool mr_mpeg4_clock_read(mr_mpeg4_clock *clock, const uint8_t *data, size_t bytes, int64_t *time);
