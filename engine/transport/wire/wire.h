/* The wire: messages to and from bytes, by proto/millrace.proto.
 *
 * A message is one envelope and any number of payload parts, which a transport sends as they are. Payloads are copied
 * only if necessary: a part points into a frame's buffer, and a frame that is read points into the received part. Small
 * payloads are gathered into one part, since each part costs more than copying a few KiB. Payloads in shared memory
 * need no part: if `share` can export a buffer, its slot is sent instead.
 *
 * Received bytes may be hostile. Every size is checked before memory is allocated for it. A message's length bounds the
 * memory for it; `names` and `most_media` bound the names and descriptions that are kept. Invalid messages are refused
 * with MR_ERROR_PROTOCOL and a reason, and leave no trace. Checksums can find damage; only CURVE can find manipulation.
 *
 * Payloads must be in host memory, and ready (mr_frame.ready done), when they are written.
 *
 * Only one thread at a time may use a writer or a reader; they share nothing. In steady state neither allocates: memory
 * is kept at the largest size so far, except buffers that frames hold. */
#pragma once

#include "engine/transport/wire/wire_types.h"

/* ---- writing ----------------------------------------------------------------------------------------------------- */

int mr_wire_writer_create(mr_wire_writer **writer, const mr_wire_writer_params *params);
void mr_wire_writer_destroy(mr_wire_writer **writer);

/* Writes a message: *count parts at *parts, the envelope first. They stay until the next call. `now_ns`: the clock for
 * frame times. MR_ERROR_MEMORY; MR_ERROR_DATA (no message can hold the frame: the payload is not in host memory, the
 * writer lacks a result's kind, or the envelope would be too large). */
int mr_wire_write(mr_wire_writer *writer, const mr_cut_message *message, int64_t now_ns, const mr_wire_part **parts,
                  size_t *count);

/* A frame's payload bytes: the unit for byte credit, before compression. Results with fields are in the envelope and do
 * not count: plans know no bound for them, so a window in bytes could close before a batch is full. The window in
 * frames and the largest envelope bound their memory. */
uint64_t mr_wire_frame_bytes(const mr_frame *frame);
/* The bytes that a frame's results with fields take in the envelope. */
uint64_t mr_wire_elements_bytes(const mr_frame *frame);

/* ---- reading ----------------------------------------------------------------------------------------------------- */

int mr_wire_reader_create(mr_wire_reader **reader, const mr_wire_reader_params *params);
void mr_wire_reader_destroy(mr_wire_reader **reader);

/* Reads a message with `count` parts, the envelope first. Parts are borrowed. Frames refer to a part with a buffer, and
 * keep that buffer. Bytes without a buffer, or not at a multiple of 8, are copied.
 *
 * The message stays until the reader's next call. Its frames are new; the caller owns one reference to each. Receipts
 * are NULL; times are by the clock that reads `now_ns`. On failure nothing need be freed: MR_ERROR_PROTOCOL,
 * MR_ERROR_MEMORY. */
int mr_wire_read(mr_wire_reader *reader, const mr_wire_part *parts, size_t count, int64_t now_ns,
                 mr_cut_message *message);
