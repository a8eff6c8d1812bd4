/* Assigns epochs, numbers and times to a source's pictures in output order. Omitted pictures keep their numbers, except
 * those before `start`. One thread. */
#pragma once

#include "stages/decode/decode_pending.h"

typedef struct mr_decode_stream {
    uint32_t epoch;
    uint64_t seq;        /* next picture's number in this epoch */
    int64_t time_ns;     /* last picture's time in this epoch; MR_NO_TIME: none, or unknown */
    bool numbered;       /* that picture has a number */
    int64_t last_dts_ns; /* last packet's; MR_NO_TIME: none */
    bool cut_short;      /* unread packets may belong before pictures that have not come yet */
    bool ahead;          /* and before all later ones */
} mr_decode_stream;

bool mr_decode_stream_is_at(const mr_decode_stream *stream, uint32_t epoch);
/* Begins an epoch; all zero: the first one. */
void mr_decode_stream_begin(mr_decode_stream *stream, uint32_t epoch);
/* The next packet in decode order. */
void mr_decode_stream_note(mr_decode_stream *stream, const mr_frame *packet);
/* Call when no packet follows for now. `cut_short`: more might have come. */
void mr_decode_stream_end(mr_decode_stream *stream, bool cut_short);

/* Whether the packet's picture might come before unread ones. Once true, it stays true until the end. `reorders`: the
 * decoder can reorder. */
bool mr_decode_stream_is_ahead(mr_decode_stream *stream, const mr_frame *packet, bool reorders);
/* Takes the next picture's epoch and number. The picture is settled or omitted. */
mr_identity mr_decode_stream_take(mr_decode_stream *stream);
/* Call when this packet's picture comes next; the packet is still in `pending`. Returns the time; MR_NO_TIME:
 * unknown. */
int64_t mr_decode_stream_place(mr_decode_stream *stream, const mr_pending *pending, const mr_frame *packet,
                               int64_t number);
/* Whether that picture has a number. */
bool mr_decode_stream_is_numbered(const mr_decode_stream *stream);
/* Sets the frame's time and number to that picture's. */
void mr_decode_stream_stamp(const mr_decode_stream *stream, mr_frame *frame);
/* Whether no picture in this epoch has a number yet. */
bool mr_decode_stream_is_empty(const mr_decode_stream *stream);
