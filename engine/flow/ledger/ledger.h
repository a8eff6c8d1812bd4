/* The ledger records every source frame's outcome, and that of every object for which a stage made a frame.
 *
 *     in = delivered + dropped{stage, reason} + absorbed{stage, reason} + in flight      for every source
 *
 * Objects have accounts of their own, in which the same holds. An object that was gathered gets the outcome of its
 * frame. One that ends elsewhere has an outcome of its own; its frame is then delivered if any object is.
 *
 * A source frame opens a receipt here; closing the receipt records the outcome. Frames that come from another node over
 * a cut are counted separately: a source may run here while its frames come back over a cut. Stage ids and reasons are
 * kept by pointer and must outlive the ledger. Any thread. The ledger lives until it is released and the last receipt
 * has closed. */
#pragma once

#include "engine/data/receipt.h"
#include "engine/flow/ledger/reach.h"
#include "engine/observe/span_buffer.h"
#include "engine/observe/trace.h"
#include "millrace/millrace.h"

typedef struct mr_ledger mr_ledger;

int mr_ledger_create(mr_ledger **ledger, size_t source_count);
void mr_ledger_release(mr_ledger **ledger);

/* Counts one frame in and returns a receipt with one reference. MR_ERROR_MEMORY: nothing was counted. */
int mr_ledger_open(mr_ledger *ledger, const mr_identity *frame, mr_receipt **receipt);
/* The same for a frame that came over a cut; `watcher` is called when the receipt closes. If a frame with the same
 * identity came over another cut and is still open, both share the receipt: their descendants may be joined, and in one
 * process they would have one receipt too. `sent`: the frame's span where it was sent. */
int mr_ledger_arrive(mr_ledger *ledger, const mr_identity *frame, const mr_span_context *sent,
                     mr_receipt_watcher *watcher, mr_receipt **receipt);
/* Counts an object in and returns a receipt for the frame that was made from it. `parent` is the receipt of the frame
 * that has the object. MR_ERROR_MEMORY: nothing was counted. */
int mr_ledger_derive(mr_receipt *parent, const mr_identity *frame, mr_receipt **receipt);
/* An object's results are on its frame now. The object gets the outcome of the frame `parent`. If it came from another
 * node, the outcome is reported there only when the frame has one: the other node must keep both, or neither. But at
 * most `kept` objects of a source wait for that; others are delivered now. Both may be NULL. */
void mr_receipt_gather(mr_receipt *parent, mr_receipt *object, uint64_t kept);
/* A frame that came again, and is left out since an end of its way has had it: closes only once the same frames that
 * came before are closed, and is dropped if one of them is. Otherwise the producer would take it for settled although
 * the former one may still be lost with this process. `period`: `returned` rises by it if the frames' maker is
 * replaced. `receipt` may be NULL. */
void mr_receipt_await_former(mr_receipt *receipt, int period);
/* Notes an outcome; the gravest one counts. `receipt` may be NULL. */
void mr_receipt_note(mr_receipt *receipt, mr_note note, const char *stage, const char *reason);

/* Gives each frame that is followed a span, which ends when its receipt closes; NULL: no longer. */
void mr_ledger_set_spans(mr_ledger *ledger, mr_spans *spans);

/* Starts to report each dropped frame, with the reason, to a trace; NULL: stops. */
typedef struct mr_ledger_tracing {
    mr_trace *trace;
    mr_track *track;
    const char *const *sources; /* source ids; must outlive the trace */
} mr_ledger_tracing;
void mr_ledger_trace(mr_ledger *ledger, const mr_ledger_tracing *tracing);

/* Starts to follow each local source's reach. Must be called before any frame has come. */
void mr_ledger_follow(mr_ledger *ledger);
/* Frames that close after this were dropped because the run is ending; they do not count as settled. */
void mr_ledger_freeze(mr_ledger *ledger);
/* The last frame up to which all of a source's frames are settled; false: there is none. *all: every frame so far is
 * settled. */
bool mr_ledger_reach(mr_ledger *ledger, uint32_t source, mr_reach_frame *last, bool *all);

/* True if the source has no open frames. Otherwise calls `emptied` once, with the lock, when the last one closes. A
 * later call replaces it; NULL: calls nothing. */
bool mr_ledger_await_empty(mr_ledger *ledger, uint32_t source, void (*emptied)(void *context), void *context);
/* Starts a new account for a source without open frames; the old contents are lost. */
void mr_ledger_clear(mr_ledger *ledger, uint32_t source);

/* Accounts of a source: its own frames; its frames that came over cuts; objects for which frames were made here; those
 * that came over cuts. */
typedef enum mr_ledger_page {
    MR_LEDGER_FRAMES,
    MR_LEDGER_ARRIVED,
    MR_LEDGER_OBJECTS,
    MR_LEDGER_ARRIVED_OBJECTS,
    MR_LEDGER_PAGES
} mr_ledger_page;

/* An account of one of these pages. */
typedef struct mr_ledger_account {
    uint64_t in, delivered, dropped, absorbed, unaccounted;
    mr_ledger_line *lines;      /* dropped and absorbed (mr_free); NULL: none, or no memory */
    size_t line_count;
    size_t unsettled_count;     /* frames unaccounted for, then frames in flight; each oldest first */
    mr_identity unsettled[MR_UNSETTLED_FRAMES];
} mr_ledger_account;
/* A consistent snapshot. The lock is held only to copy it. */
void mr_ledger_read(mr_ledger *ledger, uint32_t source, mr_ledger_page page, mr_ledger_account *account);
