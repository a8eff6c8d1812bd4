/* Reads protobuf's encoding (protobuf.dev, "Encoding") in place: fields one by one, nothing copied. Pure functions; any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_pb_span {
    const uint8_t *at, *end;
} mr_pb_span;

/* Wire types. */
enum { MR_PB_VARINT = 0, MR_PB_64 = 1, MR_PB_BYTES = 2, MR_PB_32 = 5 };

typedef struct mr_pb_field {
    uint32_t number;
    int wire;
    uint64_t value;   /* for MR_PB_VARINT; else 0 */
    mr_pb_span bytes; /* for MR_PB_BYTES: a text or a message; else empty */
} mr_pb_field;

/* Reads the next field. False if the bytes are not protobuf, or have a key above 32 bits, which protobuf's readers
 * would misread. *field is complete in either case. Call only while from->at < from->end. */
bool mr_pb_next(mr_pb_span *from, mr_pb_field *field);
/* Reads one number from a packed field; false at the end, or if there is none. */
bool mr_pb_varint(mr_pb_span *from, uint64_t *value);
bool mr_pb_is(mr_pb_span bytes, const char *text);
bool mr_pb_same(mr_pb_span a, mr_pb_span b);
