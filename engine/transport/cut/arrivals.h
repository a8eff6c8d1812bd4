/* What becomes of frames that came over a cut: each has a receipt, whose closing any thread brings about, and which the
 * carrier is to hear of. Closings are gathered: where they come thick, the carrier is woken once for many.
 *
 * A receipt may close after the cut itself is gone, since a program may hold frames: then nobody hears of it. */
#ifndef MILLRACE_TRANSPORT_ARRIVALS_H
#define MILLRACE_TRANSPORT_ARRIVALS_H

#include "engine/flow/ledger.h"
#include "engine/transport/zmq/io_thread.h"

typedef struct mr_arrivals mr_arrivals;

/* One that has closed. */
typedef struct mr_arrival {
    mr_receipt_watcher watcher;
    struct mr_arrival *next;
    mr_arrivals *arrivals;
    uint64_t ticket;
    mr_note record;
    const char *stage, *reason;
} mr_arrival;

/* Closings wake `carrier`, which is there until mr_arrivals_close: at once where none came for gather_ns, else once
 * there are `many`, or half of them and no other receipt is open; those that are fewer are to be looked for after
 * gather_ns. */
int mr_arrivals_create(mr_arrivals **arrivals, size_t many, int64_t gather_ns);
void mr_arrivals_attach(mr_arrivals *arrivals, mr_io_thread *io_thread);
/* Nobody listens any more; all else is freed with the last receipt. Sets *arrivals to NULL; NULL is allowed. */
void mr_arrivals_close(mr_arrivals **arrivals);

/* With the carrier's duty, as what follows: opens a receipt for a frame that has arrived. MR_ERROR_MEMORY. */
int mr_arrivals_open(mr_arrivals *arrivals, mr_ledger *ledger, const mr_identity *frame, uint64_t ticket,
                     mr_receipt **receipt);
/* mr_arrivals_take is going to be called soon, so that nobody needs to be woken before, unless there are many. */
void mr_arrivals_expect(mr_arrivals *arrivals);
/* Those that have closed, the first first, where it would have been woken for them, or where `all` are wanted; NULL:
 * none. To be given back. *wake_ns becomes earlier where others are to be looked for. */
mr_arrival *mr_arrivals_take(mr_arrivals *arrivals, bool all, int64_t now_ns, int64_t *wake_ns);
void mr_arrivals_give_back(mr_arrivals *arrivals, mr_arrival *first);

#endif
