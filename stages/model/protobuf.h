/* Reading protobuf's encoding (protobuf.dev, "Encoding") where it lies: fields one by one, nothing copied. Pure
 * functions; any thread. */
#ifndef MILLRACE_STAGES_MODEL_PROTOBUF_H
#define MILLRACE_STAGES_MODEL_PROTOBUF_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mr_pb_span {
    const uint8_t *at, *end;
} mr_pb_span;

/* Wire types. */
enum { MR_PB_VARINT = 0, MR_PB_64 = 1, MR_PB_BYTES = 2, MR_PB_32 = 5 };

typedef struct mr_pb_field {
    uint64_t number;
    int wire;
    uint64_t value;   /* of MR_PB_VARINT */
    mr_pb_span bytes; /* of MR_PB_BYTES: a text, or a message of its own */
} mr_pb_field;

/* Reads the next field; false where the bytes are no protobuf. To be called while from->at < from->end. */
bool mr_pb_next(mr_pb_span *from, mr_pb_field *field);

#endif
