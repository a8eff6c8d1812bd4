/* Assigns epochs, numbers and times to a source's pictures in output order. Omitted pictures keep their numbers, except
 * those before `start`: the caller must report that no frame will have them (mr_io_skip). One thread. */
#pragma once

#include "millrace/stage.h"
#include "stages/decode/decode_pending.h"

typedef struct mr_decode_stream {
    uint32_t epoch;
    uint64_t seq;    /* next picture's number in this epoch */
    int64_t time_ns; /* last picture's time in this epoch; MR_NO_TIME: none, or unknown */
    bool numbered;   /* that picture has a number */
} mr_decode_stream;

void mr_decode_stream_init(mr_decode_stream *stream);
bool mr_decode_stream_is_at(const mr_decode_stream *stream, uint32_t epoch);
/* Ends the epoch and begins another. Returns the first identity that no frame of the old one has. */
mr_identity mr_decode_stream_begin(mr_decode_stream *stream, uint32_t epoch);

/* Call when this packet's picture comes next; the packet is still in `pending` (NULL: the decoder gives each picture at
 * once). Returns the time; MR_NO_TIME: unknown. */
int64_t mr_decode_stream_place(mr_decode_stream *stream, const mr_pending *pending, const mr_frame *packet,
                               int64_t number);
/* Sets the frame's time and number to that picture's. */
void mr_decode_stream_stamp(const mr_decode_stream *stream, mr_frame *frame);
/* Call when that picture is settled. True: it has a number, but was not emitted: mr_decode_stream_skip must follow. */
bool mr_decode_stream_settle(mr_decode_stream *stream, bool emitted);
/* Skips the next number. Returns the identity that no frame has. */
mr_identity mr_decode_stream_skip(mr_decode_stream *stream);
