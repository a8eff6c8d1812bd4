/* Outcomes of frames that arrived over a cut: each has a receipt, which any thread may close, and whose outcome the I/O
 * thread reports. Closings are gathered: at a high rate the I/O thread is woken once for many.
 *
 * A receipt may close after the cut itself, since a program can hold frames. The outcome is then not reported. */
#pragma once

#include "engine/flow/ledger/ledger.h"
#include "engine/transport/zmq/io_thread.h"

typedef struct mr_arrivals mr_arrivals;

/* One that has closed. */
typedef struct mr_arrival {
    mr_receipt_watcher watcher;
    struct mr_arrival *next;
    mr_arrivals *arrivals;
    uint64_t ticket;
    uint32_t source;
    mr_note record;
    const char *stage, *reason;
} mr_arrival;

/* Closings wake `io_thread`, which exists until mr_arrivals_close: at once if there were none for gather_ns; otherwise
 * once there are `many`, or half of them and no other receipt is open. Fewer are to be polled for after gather_ns. */
int mr_arrivals_create(mr_arrivals **arrivals, size_t many, int64_t gather_ns);
void mr_arrivals_attach(mr_arrivals *arrivals, mr_io_thread *io_thread);
/* Outcomes are not reported any more; the rest is freed with the last receipt. Sets *arrivals to NULL; NULL is allowed.
 */
void mr_arrivals_close(mr_arrivals **arrivals);

/* How many cuts into this process the frames pass before this one. Call before the first arrives. */
void mr_arrivals_set_returned(mr_arrivals *arrivals, int returned);
/* I/O thread only, like the functions below: opens a receipt for a frame that has arrived. `sent`: its span at the
 * sender. MR_ERROR_MEMORY. */
int mr_arrivals_open(mr_arrivals *arrivals, mr_ledger *ledger, const mr_identity *frame, const mr_span_context *sent,
                     uint64_t ticket, mr_receipt **receipt);
/* mr_arrivals_take will be called soon: no wake-up before that, unless there are many. */
void mr_arrivals_expect(mr_arrivals *arrivals);
/* The closed ones in order, if a wake-up was due, or if `all` are wanted; NULL: none. To be returned with
 * mr_arrivals_give_back. *wake_ns becomes earlier if others are to be polled for. */
mr_arrival *mr_arrivals_take(mr_arrivals *arrivals, bool all, int64_t now_ns, int64_t *wake_ns);
void mr_arrivals_give_back(mr_arrivals *arrivals, mr_arrival *first);
