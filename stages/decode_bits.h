/* Bits of a header, most significant first. One thread. */
#ifndef MILLRACE_STAGES_DECODE_BITS_H
#define MILLRACE_STAGES_DECODE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_bits {
    const uint8_t *data;
    size_t bytes;
    size_t at;     /* in bits */
    bool short_of; /* more was read than there is; the rest was 0 */
} mr_bits;

/* The next `count` bits, at most 32. */
static inline unsigned mr_bits_read(mr_bits *bits, unsigned count) {
    unsigned value = 0;
    for (; count > 0; count--, bits->at++) {
        bool there = bits->at / 8 < bits->bytes;
        bits->short_of |= !there;
        value = value << 1 | (there ? bits->data[bits->at / 8] >> (7 - bits->at % 8) & 1u : 0);
    }
    return value;
}

/* An unsigned number in Exp-Golomb code (H.264 and HEVC, 9.1), below 2^31. */
static inline unsigned mr_bits_golomb(mr_bits *bits) {
    unsigned zeros = 0;
    while (zeros < 31 && !bits->short_of && !mr_bits_read(bits, 1))
        zeros++;
    return (1u << zeros) - 1 + mr_bits_read(bits, zeros);
}

#endif
