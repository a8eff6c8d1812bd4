/* Which pictures in a source are damaged: packets are missing or marked (decode_gaps.h), or the decoder refuses a
 * packet or reports that it concealed errors (device/decode_log.h), or zeros have overwritten a part
 * (stages/media/coded/zeros.h). Pictures that depend on a damaged one are damaged too until the stream recovers, unless
 * the packets show that none depends on it (decode_alone.h).
 *
 * Damage becomes known late: packets that were sent in the meantime are judged again. One thread. */
#pragma once

#include "stages/decode/decode_alone.h"
#include "stages/decode/decode_gaps.h"
#include "stages/decode/device/decode_log.h"
#include "stages/media/coded/zeros.h"

typedef struct mr_damage {
    mr_decode_log *log;    /* filled by the decoder's log */
    mr_pending *pending;   /* packets in it */
    mr_gaps gaps;          /* reset for each epoch */
    mr_alone alone;        /* reset for each epoch and media */
    mr_zeros zeros;        /* reset for each media */
    int64_t sent;          /* last packet's number */
    /* By number modulo the window: */
    bool zeroed[MR_PENDING_WINDOW]; /* zeros have overwritten a part of the packet */
    bool spoils[MR_PENDING_WINDOW]; /* the picture is damaged, and others depend on it */
    bool wrong[MR_PENDING_WINDOW];  /* something that the packet depends on is missing or wrong, or it is zeroed */
    int64_t wrong_to;      /* last packet that is damaged or depends on damage; 0: none, or a later key came out well */
    int64_t latest_pts_ns; /* highest time among the packets whose pictures came out in this epoch */
    int64_t unknown;       /* errors from frame threads whose packets are not known yet */
} mr_damage;

/* Why a packet gave no picture. LASTING: after damage, a decoder gives none until the next key. */
typedef enum mr_damage_cause { MR_DAMAGE_NONE, MR_DAMAGE_LASTING, MR_DAMAGE_KNOWN } mr_damage_cause;

/* Whether an arriving packet is to be decoded, or skipped though others may depend on it, or skipped and none does, or
 * dropped because it cannot be decoded. */
typedef enum mr_damage_arrival {
    MR_DAMAGE_TAKEN, MR_DAMAGE_MISSED, MR_DAMAGE_SPARED, MR_DAMAGE_DROPPED
} mr_damage_arrival;

/* `log` and `pending` must stay valid. */
void mr_damage_init(mr_damage *damage, mr_decode_log *log, mr_pending *pending);
/* Call when an epoch begins, or another media within it, and all earlier packets are settled. */
void mr_damage_begin(mr_damage *damage, bool epoch);
/* Call when another decoder takes over from this packet number, and all earlier packets are settled. */
void mr_damage_replace(mr_damage *damage, int64_t again);

/* Call for each arriving packet. */
void mr_damage_note(mr_damage *damage, const mr_frame *packet, mr_damage_arrival arrival);
/* Call before sending a `pending` packet. `again`: another decoder had it. */
void mr_damage_send(mr_damage *damage, const mr_frame *packet, int64_t number, bool again);
/* Call when the decoder refuses a packet. If not `sure`, it may have been another packet. Returns false if the packet
 * is not known: it will come up later as one without a picture. */
bool mr_damage_refuse(mr_damage *damage, int64_t number, bool sure);

/* Whether the packet's picture is damaged. Call once, when the picture has come out: everything it depends on was
 * decoded before. */
bool mr_damage_judge(mr_damage *damage, const mr_frame *packet, const AVFrame *picture);
/* Why the packet with this number, already removed from `pending`, gave no picture. Call once. */
mr_damage_cause mr_damage_explain(mr_damage *damage, const mr_frame *packet, int64_t number);
