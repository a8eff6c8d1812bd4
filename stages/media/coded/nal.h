/* NAL units in H.264 and HEVC, and their bits. The data is untrusted. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- bits, most significant first -------------------------------------------------------------------------------- */

typedef struct mr_bits {
    const uint8_t *data;
    size_t bytes;
    size_t at;     /* in bits */
    bool escaped;  /* skips a 3 after two zeros (emulation prevention, H.264 and HEVC, 7.3.1) */
    bool short_of; /* read past the end, which gives 0 */
} mr_bits;

/* The next `count` bits, at most 32. */
unsigned mr_bits_read(mr_bits *bits, unsigned count);
/* An unsigned number in Exp-Golomb code (H.264 and HEVC, 9.1), and a signed one. */
unsigned mr_bits_golomb(mr_bits *bits);
int mr_bits_signed_golomb(mr_bits *bits);

/* ---- units ------------------------------------------------------------------------------------------------------- */

typedef struct mr_nal {
    const uint8_t *data; /* starts at the header */
    size_t bytes;
} mr_nal;

/* Units between `at` and `end`. Each has a length with this many bytes in front; 0: a start code. */
typedef struct mr_nals {
    const uint8_t *at, *end;
    int length_bytes;
} mr_nals;

/* Finds the next unit; false at the end, and if a length exceeds it. */
bool mr_nal_next(mr_nals *from, mr_nal *next);
/* Passes the parameter sets in a stream header (extradata: ISO/IEC 14496-15, or start codes) to `note` (may be NULL).
 * Returns how many bytes a length has in packets; 0: start codes. */
int mr_nal_read_header(bool hevc, const uint8_t *data, size_t bytes, void (*note)(void *context, mr_nal one),
                       void *context);

/* ---- messages (SEI) ---------------------------------------------------------------------------------------------- */

/* Finds the next message with this type (H.264 and HEVC, 7.3.2.3.1). `messages` must be after an SEI unit's header, or
 * where another message ended; it moves to the payload. Returns the payload size; below 0: not found. */
int64_t mr_nal_find_message(mr_bits *messages, unsigned type);
