/* Which pictures of a source are damaged: packets are missing or marked (decode_gaps.h), the decoder refuses a packet,
 * or reports that it patched a picture up (device/decode_heard.h). Pictures that are made from a damaged one are
 * damaged too, up to where the stream recovers, unless the packets show that none is made from it (decode_alone.h).
 *
 * Damage becomes known late, when other packets have been sent: those are then judged again. A decoder of H.264 that
 * has met damage keeps traces of it, so another decoder takes over from the next packet at which one can begin. One
 * thread. */
#ifndef MILLRACE_STAGES_DECODE_DAMAGE_H
#define MILLRACE_STAGES_DECODE_DAMAGE_H

#include "stages/decode/decode_alone.h"
#include "stages/decode/decode_gaps.h"
#include "stages/decode/device/decode_heard.h"

typedef struct mr_damage {
    mr_heard *heard;       /* of the decoder */
    mr_pending *pending;   /* packets in it */
    mr_gaps gaps;          /* of this epoch */
    mr_alone alone;        /* of this epoch and media */
    int64_t sent;          /* number of the last packet */
    int64_t entry;         /* of the last key */
    int64_t wrong_to;      /* of the last packet known to be damaged, or made from one that is; 0: there was none, or a
                              key after it has come out well */
    int64_t latest_pts_ns; /* of the packets of pictures that have come out in this epoch */
    int64_t unknown;       /* errors that frame threads reported, and whose packets are not known yet */
} mr_damage;

/* Why a packet gave no picture. LASTING: a decoder gives none from damage up to the next key. */
typedef enum mr_damage_cause { MR_DAMAGE_NONE, MR_DAMAGE_LASTING, MR_DAMAGE_KNOWN } mr_damage_cause;

/* `heard` and `pending` outlive it. */
void mr_damage_init(mr_damage *damage, mr_heard *heard, mr_pending *pending);
/* Another epoch begins, or other media within it. */
void mr_damage_begin_epoch(mr_damage *damage);
void mr_damage_begin_media(mr_damage *damage);
/* All packets that the decoder got have been settled. */
void mr_damage_end(mr_damage *damage);
/* Another decoder gets the packets from that number on. */
void mr_damage_replace(mr_damage *damage, int64_t again);

/* The next packet as it comes. */
void mr_damage_note(mr_damage *damage, const mr_frame *packet);
/* Instead: the next packet is skipped. `disposable`: no other depends on it. */
void mr_damage_skip(mr_damage *damage, const mr_frame *packet, bool disposable);
/* The packet is about to be sent: puts it into `pending`, and returns its number. */
int64_t mr_damage_send(mr_damage *damage, mr_frame *packet);
/* A packet in `pending` is about to be sent again, to another decoder. */
void mr_damage_send_again(mr_damage *damage, const mr_frame *packet, int64_t number);

/* The decoder has refused the packet of that number; not `sure`: or another one. False: its packet is not known, and
 * will turn out to have no picture. */
bool mr_damage_refuse(mr_damage *damage, int64_t number, bool sure);
/* Takes up what the decoder has reported. To be called before each picture that comes out: all that it is made from was
 * decoded before. */
void mr_damage_learn(mr_damage *damage);
/* Whether the packet's picture, which comes out, is damaged. `heard`: the decoder has reported it. */
bool mr_damage_judge(mr_damage *damage, const mr_frame *packet, const AVFrame *picture, bool heard);
/* Why the packet of that number, which has left `pending`, gave no picture. To be called once. */
mr_damage_cause mr_damage_explain(mr_damage *damage, const mr_frame *packet, int64_t number);
/* The number of the first packet that another decoder has to get, as damage has shown: one that was sent, or that of
 * `next`, which is to be sent next; NULL: not known. INT64_MAX: this decoder is right. */
int64_t mr_damage_spoils(const mr_damage *damage, const AVCodecContext *codec, const mr_frame *next);

#endif
