/* Packets in a decoder whose pictures have not come yet.
 *
 * Packets are numbered when sent, and the decoder returns the number with the picture. The table is a ring. No codec
 * reorders beyond the window: an older packet cannot have a picture any more and is removed. One thread. */
#pragma once

#include "millrace/frame.h"

enum { MR_PENDING_WINDOW = 64 };

typedef struct mr_pending {
    int64_t next;                           /* the next packet's number, from 1 */
    int64_t oldest;                         /* the table has no lower number */
    mr_frame *packet[MR_PENDING_WINDOW];    /* by number modulo the window; NULL: taken */
    bool interlaced[MR_PENDING_WINDOW];     /* a removed packet had an interlaced picture */
} mr_pending;

void mr_pending_init(mr_pending *pending);
/* The number that the next packet gets. */
int64_t mr_pending_next(const mr_pending *pending);
/* Adds a reference to the packet and returns the number. Call mr_pending_expired first, so that the slot is free. */
int64_t mr_pending_add(mr_pending *pending, mr_frame *packet);
/* Finds the packet with this number; NULL: not in the table. */
mr_frame *mr_pending_find(const mr_pending *pending, int64_t number);
/* How many packets the table has. */
size_t mr_pending_count(const mr_pending *pending);
/* Removes a packet; the caller gets the reference. NULL: not there. */
mr_frame *mr_pending_take(mr_pending *pending, int64_t number);
/* Records that this packet, still in the table, has an interlaced picture. */
void mr_pending_note_interlaced(mr_pending *pending, int64_t number);
/* Whether this packet may be a second field. It then has no picture: the previous packet's picture includes it. */
bool mr_pending_may_be_field(const mr_pending *pending, int64_t number);
/* Removes the packet whose slot the next one needs; NULL if the slot is free. */
mr_frame *mr_pending_expired(mr_pending *pending, int64_t *number);
/* Removes the oldest packet; NULL if none has a number below `end`. */
mr_frame *mr_pending_take_oldest(mr_pending *pending, int64_t end, int64_t *number);
/* Drops the remaining packets. */
void mr_pending_fini(mr_pending *pending);
