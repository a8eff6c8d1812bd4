/* When pictures of MPEG-4 (ISO/IEC 14496-2) are shown, by the clock in their headers: they have no other order. Nothing
 * in them is trusted. One thread. All zero: no picture has come. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_mpeg4_clock {
    unsigned rate;          /* ticks a second; 0: no header has come */
    int64_t second, before; /* of the last picture that others refer to, and of the one before it */
} mr_mpeg4_clock;

/* The time of the picture in that packet, in ticks. False if it has none, or if no header has come. */
bool mr_mpeg4_clock_read(mr_mpeg4_clock *clock, const uint8_t *data, size_t bytes, int64_t *time);
