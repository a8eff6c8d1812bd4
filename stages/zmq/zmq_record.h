/* What a program says of a frame that it sends: the few fields of a record that a source takes. From anybody, so that
 * nothing in it is believed: sizes and depth are bound before it is read. Pure functions. */
#ifndef MILLRACE_STAGES_ZMQ_ZMQ_RECORD_H
#define MILLRACE_STAGES_ZMQ_ZMQ_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/frame.h"

enum { MR_ZMQ_RECORD_BYTES = 65536 };

typedef struct mr_zmq_record {
    int64_t pts_ns;       /* MR_NO_TIME where nothing is said */
    bool end;             /* no frame: the sender has no more */
    char format_text[64]; /* as it is written, cut where it is longer; "" where nothing is said */
    mr_format format;     /* a picture's or tensor's; payload ANY where the text is neither's, such as a codec's name */
} mr_zmq_record;

/* Reads JSON where the first byte is "{" (which no Record begins with), else protobuf; nothing at all says nothing.
 * MR_ERROR_DATA with the reason. */
int mr_zmq_record_read(mr_zmq_record *to, const uint8_t *record, size_t bytes);

#endif
