/* Packets that were given to a decoder and whose pictures have not come yet.
 *
 * Packets are numbered as they are sent; a decoder gives the number back with the picture. The table is a ring:
 * a packet that is older than the window can have no picture any more, since no codec reorders that far, and is
 * taken out. One thread. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_PENDING_H
#define MILLRACE_STAGES_DECODE_DECODE_PENDING_H

#include "millrace/frame.h"

enum { MR_PENDING_WINDOW = 64 };

typedef struct mr_pending {
    int64_t next;                           /* the next packet's number, from 1 */
    int64_t oldest;                         /* none below this is in the table */
    mr_frame *packet[MR_PENDING_WINDOW];    /* by number modulo the window; NULL: taken */
    bool wrong[MR_PENDING_WINDOW];          /* a packet that it depends on is missing or wrong */
    bool interlaced[MR_PENDING_WINDOW];     /* a packet taken out had an interlaced picture */
} mr_pending;

void mr_pending_init(mr_pending *pending);
/* The number that the next packet gets. */
int64_t mr_pending_next(const mr_pending *pending);
/* Adds a reference to the packet and returns the number. Call mr_pending_expired first, so that the slot is free.
 * `wrong`: the packet depends on something missing or wrong. */
int64_t mr_pending_add(mr_pending *pending, mr_frame *packet, bool wrong);
/* Whether what the packet of that number, still in the table, depends on is missing, or wrong. */
void mr_pending_note_wrong(mr_pending *pending, int64_t number, bool wrong);
/* Whether what a packet depends on is missing or wrong, or something of itself is missing. */
bool mr_pending_is_wrong(const mr_pending *pending, const mr_frame *packet, int64_t number);
/* The packet of that number, still in the table; NULL if there is none. */
mr_frame *mr_pending_find(const mr_pending *pending, int64_t number);
/* The number of the newest packet in the table with that presentation time; 0: none has it. */
int64_t mr_pending_number_at(const mr_pending *pending, int64_t pts_ns);
/* How many are in the table. */
size_t mr_pending_count(const mr_pending *pending);
/* Takes a packet out; the reference is the caller's. NULL if there is none. */
mr_frame *mr_pending_take(mr_pending *pending, int64_t number);
/* Remembers that the packet of that number, still in the table, has an interlaced picture. */
void mr_pending_note_interlaced(mr_pending *pending, int64_t number);
/* Whether this packet may be a second field. It then has no picture: the previous packet's picture includes it. */
bool mr_pending_may_be_field(const mr_pending *pending, int64_t number);
/* Takes out the packet whose slot the next one needs; NULL if it is free. */
mr_frame *mr_pending_expired(mr_pending *pending, int64_t *number);
/* Takes out the oldest; NULL if there is none with a number below `end`. */
mr_frame *mr_pending_take_oldest(mr_pending *pending, int64_t end, int64_t *number);
/* Drops the packets that are left. */
void mr_pending_fini(mr_pending *pending);

#endif
