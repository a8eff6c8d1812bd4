/* Pictures that are made of those that are missing or wrong. Packets that their source marks: something is missing
 * before them (MR_FRAME_SEAM), or of them (MR_FRAME_CORRUPT). Packets that were dropped before decode: queues and
 * deadlines leave out all up to the next key. At a recovery point (stages/media/coded/recovery.h), which is a key, too,
 * pictures are not right at once. Packets whose pictures the decoder finds damaged, which is known only when others
 * behind them have been sent: those are passed again. One thread. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_GAPS_H
#define MILLRACE_STAGES_DECODE_DECODE_GAPS_H

#include "stages/media/coded/recovery.h"

/* Zeros: a stream begins. A live one begins in its middle: nothing is right before its first key. */
typedef struct mr_gaps {
    bool begun, entered; /* a packet has come; a key behind a gap has, which was not decoded yet */
    bool passed;         /* a packet was decoded */
    uint64_t next;       /* number of the packet that comes next, if none is missing */
    uint64_t entry;      /* of that key, or of the last one */
    bool has_entry;
    mr_recovery recovery;
} mr_gaps;

/* Another decoder gets the next packet that is passed, and knows of no picture before it. */
void mr_gaps_restart(mr_gaps *gaps);
/* The next packet as it comes. */
void mr_gaps_note(mr_gaps *gaps, const mr_frame *packet);
/* The next packet as it is decoded; true: its picture will be wrong. `spared`: its marks concern no other
 * picture. */
bool mr_gaps_pass(mr_gaps *gaps, const mr_frame *packet, bool spared);
/* A picture before the next packet that is passed again turned out to be wrong; all that were passed behind it are to
 * be passed again, in order. */
void mr_gaps_taint(mr_gaps *gaps);
/* As mr_gaps_pass. */
bool mr_gaps_pass_again(mr_gaps *gaps, const mr_frame *packet);

#endif
