/* Makes the messages for zmq.pub and zmq.push: the frame as protobuf (proto/results.proto) and the payload as bytes.
 * One thread at a time. */
#pragma once

#include "stages/sink/fields.h"

typedef struct mr_zmq_message mr_zmq_message;

int mr_zmq_message_create(mr_zmq_message **message);
void mr_zmq_message_destroy(mr_zmq_message **message);

/* Makes a Record's bytes; valid until the next one is made. MR_ERROR_MEMORY. */
int mr_zmq_message_make(mr_zmq_message *message, const mr_recorded *recorded, const uint8_t **data, size_t *bytes);

/* Writes a frame's payload format, as in Record.format, to `text`; NULL if it has no payload. */
const char *mr_zmq_payload_format(const mr_frame *frame, char text[MR_FORMAT_TEXT]);
/* The payload's size without row padding; copies it. */
size_t mr_zmq_payload_bytes(const mr_frame *frame);
void mr_zmq_payload_copy(const mr_frame *frame, uint8_t *to);
