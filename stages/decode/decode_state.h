/* What decode knows of a source while it runs, and the way into the decoder and out of it: opening, sending, receiving,
 * and the receipts of packets that give no picture. stages/decode/decode.c says what becomes of pictures. One thread at
 * a time, but for `early` (decode_early.h). */
#ifndef MILLRACE_STAGES_DECODE_DECODE_STATE_H
#define MILLRACE_STAGES_DECODE_DECODE_STATE_H

#include "stages/decode/decode_alone.h"
#include "stages/decode/decode_codec.h"
#include "stages/decode/decode_early.h"
#include "stages/decode/decode_gaps.h"
#include "stages/decode/decode_needed.h"
#include "stages/decode/decode_options.h"
#include "stages/decode/decode_pending.h"
#include "stages/decode/decode_reduced.h"
#include "stages/decode/decode_still.h"

/* The outcome of a picture. AHEAD: some before it may not have been read when the source was asked to end. AGAIN: it is
 * decoded once more. */
typedef enum mr_decode_verdict {
    MR_VERDICT_WANTED,
    MR_VERDICT_NOT_SELECTED,
    MR_VERDICT_DAMAGED,
    MR_VERDICT_AHEAD,
    MR_VERDICT_AGAIN
} mr_decode_verdict;

typedef struct mr_decode_state {
    AVCodecContext *codec;
    AVCodecContext *other[MR_REDUCED_MOST + 1]; /* of the same media, by scale: idle, with nothing in them */
    mr_media *media;           /* that codec was opened for */
    int32_t x264_build;        /* of its packets so far; 0: they do not tell */
    mr_picture_pool *pool;     /* on the processors */
    mr_decode_device *device;  /* on another device */
    struct SwsContext *scaler;
    AVPacket *packet;
    AVFrame *picture;          /* the next to be emitted, if has_picture */
    AVFrame *following;        /* the one after it, if has_following */
    AVFrame *reduced_picture;  /* has one that was decoded but not by codec, and not received yet */
    bool has_picture, has_following;
    mr_decode_verdict verdict; /* on picture */
    bool taken;                /* the input of this call is among `needed`, or in the decoder */
    bool sent;                 /* the decoder has a packet whose pictures have not been received */
    bool draining, ending, cut_short, ahead; /* ending: all packets of the stretch were sent */
    bool stretch;              /* packets of one have been taken */
    int64_t last_dts_ns;       /* of the last packet; MR_NO_TIME: it has none */
    int drain_errors, last_error; /* the latter is an AVERROR */
    mr_needed needed;          /* packets that are not yet in the decoder */
    mr_pending pending;
    mr_gaps gaps;              /* of this epoch */
    mr_alone alone;            /* of this epoch and codec */
    int64_t shown_pts_ns; /* of the packet of the last picture of this stretch; MR_NO_TIME: none, or it is not sure */
    int64_t latest_pts_ns;     /* of the packets of pictures that have come out in this epoch */
    int64_t time_ns;           /* of the picture that was judged last in this epoch; MR_NO_TIME: none, or unknown */
    bool numbered;             /* that picture has a number */
    int64_t errors;            /* reported by frame threads, not yet attributed to a packet */
    int64_t last_given;        /* number of the packet whose picture was emitted last */
    bool marked;               /* the picture that is given next is damaged, and says so */
    char trouble[256];         /* why that file, below, is no picture that is read; "": it is damaged */
    mr_media *lost;            /* of the last still picture of a file that was dropped as damaged; NULL: none was */
    bool reported;             /* that a picture was dropped as corrupt */
    int64_t wrong_to;          /* number of the last packet known to be damaged, or made of one that is; 0: there was
                                  none, or a key after it has come out well */
    int64_t spoilt_at;         /* number of the first damaged packet of this decoder; INT64_MAX: none is known */
    int64_t entry;             /* of the last key that it was sent */
    int64_t again;             /* of the first that is sent to another decoder once more; INT64_MAX: none is */
    int64_t current;           /* of the last that was sent */
    int64_t received;          /* the highest of a picture that has come out */
    bool outsized;             /* the pictures of its source are larger than planned, and that was reported */
    uint32_t epoch;
    uint64_t seq;              /* of `picture` in its epoch */
    mr_selection selection;    /* of this epoch */
    uint64_t packets, pictures, left; /* of this source: sent, and well decoded; not needed */
    mr_still_notes stills;
    mr_reduced reduced;
    mr_jpeg_decoder *jpeg;     /* NULL until there is one to be reduced */
    uint64_t scaled[MR_REDUCED_MOST + 1]; /* pictures of this source that were sent to be decoded at each scale */
    mr_early *early;           /* one for each entry, if calls overlap; all else is used in turn, the pool excepted */
    mr_early *present;         /* that of the call whose turn it is, if its packet was decoded early */
    bool refused, outgrown;    /* the device's decoder cannot go on with it, nor be replaced; it had too large a
                                  picture */
} mr_decode_state;

/* With what decoders of the packet's media are opened, at that scale (see mr_decoder_open). Reads nothing that calls in
 * turn change, so that calls beside each other may ask. */
mr_decoder_params mr_decode_params(const mr_stage *self, mr_io *io, const mr_frame *packet, int scale);
/* Opens a decoder for the packet's media at that scale; the errors of mr_decoder_open. */
int mr_decode_open(mr_stage *self, mr_io *io, const mr_frame *packet, int scale);
void mr_decode_close(mr_decode_state *state);
/* Whether pictures of that size are larger than is planned for their live source. */
bool mr_decode_is_outsized(mr_stage *self, const mr_media *media, int width, int height);
/* The packet of that number was damaged. */
void mr_decode_spoil(mr_decode_state *state, int64_t number);
/* The picture of that packet is damaged: so are those that were made of it, or will be, up to where the stream
 * recovers. */
void mr_decode_taint(mr_decode_state *state, int64_t number);
/* Taints what is behind pictures that the decoder has found damaged since the last call. To be called before a picture
 * that has come out is judged: all that it is made of was decoded before. */
void mr_decode_learn(mr_decode_state *state);
/* What the decoder says of damage. */
mr_heard *mr_decode_heard(const mr_decode_state *state);
/* Whether this decoder, which has met damage, has to be replaced before it gets that packet. */
bool mr_decode_is_spoilt_for(const mr_decode_state *state, const mr_frame *packet);
/* Whether it should have been before it got `entry`: damage becomes known late. */
bool mr_decode_is_spoilt_late(const mr_decode_state *state);
/* Opens another decoder, whose first packet is that one. As mr_decode_open. */
int mr_decode_replace(mr_stage *self, mr_io *io, const mr_frame *packet);

/* Sends a packet, whose reference stays the caller's. After a failure there is no decoder any more, and the packet is
 * settled. */
int mr_decode_send(mr_stage *self, mr_io *io, mr_frame *frame);
/* No packet follows: the decoder gives the pictures that it has. */
void mr_decode_send_end(mr_stage *self, mr_io *io);
/* Sends the packet that is the next to be sent once more. */
void mr_decode_send_again(mr_stage *self, mr_io *io);
/* The decoder's next picture; false if it has none at present, or at all. */
bool mr_decode_receive(mr_stage *self, mr_io *io, AVFrame *picture);
/* Whether the last packet sent was decoded early. */
bool mr_decode_is_early(const mr_decode_state *state);
/* The decoder of the last packet sent. */
const AVCodecContext *mr_decode_context(const mr_decode_state *state);

/* Drops a packet as damaged, or too large. The first of a source is logged as a warning, the others as information. */
void mr_decode_drop_corrupt(mr_stage *self, mr_io *io, const mr_frame *packet);
/* Closes the receipt of a packet that gave no picture, and drops the reference. From damage up to the next key that
 * comes out well, missing pictures are put down to the damage: a decoder gives none until it can start anew. */
void mr_decode_close_receipt(mr_stage *self, mr_io *io, mr_frame *packet, int64_t number);

#endif
