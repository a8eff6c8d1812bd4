/* Finds pictures that depend on missing or wrong ones. A source can mark packets: data is missing before one
 * (MR_FRAME_SEAM) or in it (MR_FRAME_CORRUPT). Queues and deadlines can drop packets before decode, always up to the
 * next key. A recovery point (stages/media/coded/recovery.h) counts as a key, although the first pictures after it are
 * not right. If the decoder finds damage after it got later packets, those must be passed again. One thread. */
#pragma once

#include "stages/media/coded/recovery.h"

/* Zeros mean that a stream begins. A live stream begins in the middle: nothing is right before the first key. */
typedef struct mr_gaps {
    bool begun, entered; /* a packet has come; a key after a gap has, but was not decoded yet */
    bool passed;         /* a packet was decoded */
    uint64_t next;       /* the number that the next packet has if none is missing */
    uint64_t entry;      /* number of that key, or the last one */
    bool has_entry;
    mr_recovery recovery;
} mr_gaps;

/* Call when another decoder takes over: it knows no picture before the next packet passed. */
void mr_gaps_restart(mr_gaps *gaps);
/* Call for each arriving packet. */
void mr_gaps_note(mr_gaps *gaps, const mr_frame *packet);
/* Call for each packet when it is decoded. Returns true if the picture will be wrong. `spared`: the packet's marks
 * affect no other picture. */
bool mr_gaps_pass(mr_gaps *gaps, const mr_frame *packet, bool spared);
/* Call if an earlier picture turns out to be wrong. All packets passed since must be passed again, in order. */
void mr_gaps_taint(mr_gaps *gaps);
/* As mr_gaps_pass. */
bool mr_gaps_pass_again(mr_gaps *gaps, const mr_frame *packet);
