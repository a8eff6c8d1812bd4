#include "stages/media/coded/nal.h"

#include <limits.h>
#include <string.h>

/* ---- bits -------------------------------------------------------------------------------------------------------- */

static void pass_escape(mr_bits *bits) {
    const size_t byte = bits->at / 8;
    if (bits->escaped && bits->at % 8 == 0 && byte >= 2 && byte < bits->bytes && bits->data[byte] == 3 &&
        bits->data[byte - 1] == 0 && bits->data[byte - 2] == 0)
        bits->at += 8;
}

unsigned mr_bits_read(mr_bits *bits, unsigned count) {
    unsigned value = 0;
    for (; count > 0; count--, bits->at++) {
        pass_escape(bits);
        bool there = bits->at / 8 < bits->bytes;
        bits->short_of |= !there;
        value = value << 1 | (there ? (unsigned)bits->data[bits->at / 8] >> (7 - bits->at % 8) & 1u : 0);
    }
    return value;
}

unsigned mr_bits_golomb(mr_bits *bits) {
    unsigned zeros = 0;
    while (!mr_bits_read(bits, 1) && !bits->short_of && zeros < 32)
        zeros++;
    return (unsigned)((UINT64_C(1) << zeros) - 1) + mr_bits_read(bits, zeros);
}

int mr_bits_signed_golomb(mr_bits *bits) {
    const unsigned code = mr_bits_golomb(bits), half = code / 2 + code % 2;
    const int size = half > INT_MAX ? INT_MAX : (int)half;
    return code % 2 ? size : -size;
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

/* Finds the next 00 00 01, or the end. */
static const uint8_t *find_start(const uint8_t *at, const uint8_t *end) {
    for (; end - at >= 3; at++) {
        at = memchr(at, 0, (size_t)(end - at - 2));
        if (!at)
            break;
        if (at[1] == 0 && at[2] == 1)
            return at;
    }
    return end;
}

static bool next_by_start(mr_nals *from, mr_nal *next) {
    const uint8_t *start = find_start(from->at, from->end);
    if (from->end - start < 4)
        return false;
    start += 3;
    from->at = find_start(start, from->end);
    *next = (mr_nal){start, (size_t)(from->at - start)};
    return true;
}

bool mr_nal_next(mr_nals *from, mr_nal *next) {
    if (!from->length_bytes)
        return next_by_start(from, next);
    if (from->end - from->at <= from->length_bytes)
        return false;
    size_t bytes = 0;
    for (int i = 0; i < from->length_bytes; i++)
        bytes = bytes << 8 | *from->at++;
    if (bytes > (size_t)(from->end - from->at))
        return false;
    *next = (mr_nal){from->at, bytes};
    from->at += bytes;
    return true;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* A type or a size: each 0xff byte continues it. */
static unsigned read_long(mr_bits *bits) {
    unsigned sum = 0, byte;
    do
        sum += byte = mr_bits_read(bits, 8);
    while (byte == 255 && !bits->short_of);
    return sum;
}

int64_t mr_nal_find_message(mr_bits *messages, unsigned type) {
    for (;;) {
        const unsigned found = read_long(messages), bytes = read_long(messages);
        if (messages->short_of)
            return -1;
        if (found == type)
            return bytes;
        for (unsigned i = 0; i < bytes && !messages->short_of; i++)
            mr_bits_read(messages, 8);
    }
}

/* ---- headers of streams ------------------------------------------------------------------------------------------ */

typedef void noting(void *context, mr_nal one);

/* Reads `count` parameter sets with 2-byte lengths; returns where they end. */
static const uint8_t *read_sets(const uint8_t *at, const uint8_t *end, int count, noting *note, void *context) {
    mr_nals from = {at, end, 2};
    for (mr_nal one; count > 0 && mr_nal_next(&from, &one); count--)
        if (one.bytes && note)
            note(context, one);
    return count > 0 ? end : from.at;
}

/* ISO/IEC 14496-15, AVCDecoderConfigurationRecord. */
static int read_avc(const uint8_t *data, const uint8_t *end, noting *note, void *context) {
    const uint8_t *at = read_sets(data + 6, end, data[5] & 31, note, context);
    if (at < end)
        read_sets(at + 1, end, *at, note, context);
    return (data[4] & 3) + 1;
}

/* HEVCDecoderConfigurationRecord: arrays of sets. */
static int read_hevc(const uint8_t *data, const uint8_t *end, noting *note, void *context) {
    enum { LENGTHS = 21, ARRAYS = 22 };
    const uint8_t *at = data + ARRAYS + 1;
    for (int arrays = data[ARRAYS]; arrays > 0 && end - at > 3; arrays--)
        at = read_sets(at + 3, end, at[1] << 8 | at[2], note, context);
    return (data[LENGTHS] & 3) + 1;
}

int mr_nal_read_header(bool hevc, const uint8_t *data, size_t bytes, noting *note, void *context) {
    enum { LEAST_AVC = 7, LEAST_HEVC = 23 };
    if (!bytes)
        return 0;
    if (!hevc && bytes >= LEAST_AVC && data[0] == 1)
        return read_avc(data, data + bytes, note, context);
    if (hevc && bytes >= LEAST_HEVC && (data[0] || data[1] || data[2] > 1))
        return read_hevc(data, data + bytes, note, context);
    mr_nals from = {data, data + bytes, 0};
    for (mr_nal one; note && mr_nal_next(&from, &one);)
        note(context, one);
    return 0;
}
