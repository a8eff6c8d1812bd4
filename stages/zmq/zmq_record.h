/* The fields that a source uses in a received record. The sender is untrusted: size and depth are checked before the
 * record is read. Pure functions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/frame.h"

enum { MR_ZMQ_RECORD_BYTES = 65536 };

typedef struct mr_zmq_record {
    int64_t pts_ns;       /* MR_NO_TIME if it has none */
    /* The sender's frame name, file and true class; "": none. */
    char id[MR_FRAME_ID + 1], file[MR_FRAME_FILE + 1], label[MR_FRAME_LABEL + 1];
    bool end;             /* not a frame: the sender has ended */
    char format_text[64]; /* as written, cut if longer; "" if there is none */
    mr_format format;     /* a picture's or tensor's; payload ANY if the text is something else, such as a codec's
                             name */
} mr_zmq_record;

/* Reads JSON if the first byte is "{" (no Record can begin with it), else protobuf; an empty record has no fields.
 * MR_ERROR_DATA with the reason. */
int mr_zmq_record_read(mr_zmq_record *to, const uint8_t *record, size_t bytes);
