/* Assigns epochs, numbers and times to a source's pictures in output order. Omitted pictures keep their numbers, except
 * those before `start`. One thread. */
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
/* Ends the epoch: reports that it has no more numbers. Begins another. */
void mr_decode_stream_begin(mr_decode_stream *stream, mr_io *io, uint32_t epoch);

/* Call when this packet's picture comes next; the packet is still in `pending` (NULL: the decoder gives each picture at
 * once). Returns the time; MR_NO_TIME: unknown. */
int64_t mr_decode_stream_place(mr_decode_stream *stream, const mr_pending *pending, const mr_frame *packet,
                               int64_t number);
/* Sets the frame's time and number to that picture's. */
void mr_decode_stream_stamp(const mr_decode_stream *stream, mr_frame *frame);
/* Call when that picture is settled. If it was not emitted, reports that no frame has its number. */
void mr_decode_stream_settle(mr_decode_stream *stream, mr_io *io, bool emitted);
/* Reports that no frame has the next `count` numbers. */
void mr_decode_stream_skip(mr_decode_stream *stream, mr_io *io, uint64_t count);
