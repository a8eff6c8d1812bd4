/* The part of decode that has videos: packets that depend on each other, in decode order. A number passes through the
 * decoder and matches packets with pictures.
 *
 * A packet's way: decode_output.h admits it; decode_needed.h holds it until it is known whether the picture is needed;
 * decode_pending.h numbers it, damage.h checks what it depends on, and decoder.h sends it. A picture's way: decoder.h
 * receives it, damage.h judges it, stream.h gives it a time and a number, decode_needed.h chooses it, decode_output.h
 * makes the frame. */
#pragma once

#include "stages/decode/damage.h"
#include "stages/decode/decode_needed.h"
#include "stages/decode/decode_output.h"
#include "stages/decode/decoder.h"

/* What happens to a picture. AHEAD: the source was asked to end, and earlier pictures may not have been read. AGAIN:
 * another decoder decodes it again. */
typedef enum mr_decode_verdict {
    MR_VERDICT_WANTED,
    MR_VERDICT_NOT_SELECTED,
    MR_VERDICT_DAMAGED,
    MR_VERDICT_AHEAD,
    MR_VERDICT_AGAIN
} mr_decode_verdict;

typedef struct mr_decode_video {
    mr_decode_output *output;
    mr_needed needed;        /* packets not yet in the decoder, */
    mr_pending pending;      /* and packets in it */
    mr_media *media;         /* of the packets in both; NULL: none has come */
    mr_decoder decoder;
    mr_damage damage;
    AVFrame *picture;        /* the next one to settle and the one after it; empty: not known yet */
    AVFrame *following;
    mr_decode_verdict verdict; /* on picture */
    uint64_t left_out;       /* omitted pictures before it whose numbers are not skipped yet */
    int64_t last_given;      /* the packet whose picture was emitted last */
    int64_t last_dts_ns;     /* last packet's; MR_NO_TIME: none */
    int64_t again;           /* the first packet that the other decoder gets; INT64_MAX: none that was sent */
    bool taken;              /* this call's input is in `needed`, or was sent */
    bool sent;               /* some pictures from the last sent packet have not been received */
    bool replacing, ending;  /* draining, because another decoder replaces this one; because all packets were sent */
    bool cut_short;          /* unread packets may belong before pictures that have not come yet, */
    bool ahead;              /* and before all later ones */
} mr_decode_video;

/* `output` must stay valid. MR_ERROR_MEMORY. */
int mr_decode_video_open(mr_decode_video *video, mr_decode_output *output);
/* Frees the decoder, when a source ends. */
void mr_decode_video_close(mr_decode_video *video);
/* Accepts a half-made one and all zero. */
void mr_decode_video_fini(mr_decode_video *video);

/* Takes the call's input; returns what mr_stage_type.process does. */
int mr_decode_video_process(mr_decode_video *video, mr_io *io);
/* Emits all remaining pictures: no packet follows, or none of this video. After MR_MORE or MR_ERROR_AGAIN, call again.
 * `cut_short`: more packets might have come. */
int mr_decode_video_end(mr_decode_video *video, mr_io *io, bool cut_short);
