/* The ledger: the outcome of every source frame.
 *
 *     in = delivered + dropped{stage, reason} + absorbed{stage, reason} + in flight      for every source
 *
 * A source frame opens a receipt here; the receipt's close enters it. Frames that come over a cut from another node are
 * counted apart from those of a source of this node, since a source may run here while its frames come back over a cut.
 * Stage ids and reasons are kept by pointer and must outlive the ledger. Any thread. The ledger lives until it was
 * released and its last receipt has closed. */
#ifndef MILLRACE_FLOW_LEDGER_LEDGER_H
#define MILLRACE_FLOW_LEDGER_LEDGER_H

#include "engine/data/receipt.h"
#include "engine/flow/ledger/reach.h"
#include "engine/observe/trace.h"
#include "millrace/millrace.h"

typedef struct mr_ledger mr_ledger;

int mr_ledger_create(mr_ledger **ledger, size_t source_count);
void mr_ledger_release(mr_ledger **ledger);

/* Counts one frame in, with one reference to its receipt. MR_ERROR_MEMORY: nothing was counted. */
int mr_ledger_open(mr_ledger *ledger, const mr_identity *frame, mr_receipt **receipt);
/* The same for a frame that came over a cut; `watcher` is called when it closes. If a frame of the same identity came
 * over another cut and is still open, the receipt is shared: descendants of both may be joined, and in one process they
 * would have one receipt too. */
int mr_ledger_arrive(mr_ledger *ledger, const mr_identity *frame, mr_receipt_watcher *watcher, mr_receipt **receipt);
/* Notes an outcome; the gravest counts. `receipt` may be NULL. */
void mr_receipt_note(mr_receipt *receipt, mr_note note, const char *stage, const char *reason);

/* From now on reports each dropped frame to a trace, with the reason; NULL: to none any more. */
typedef struct mr_ledger_tracing {
    mr_trace *trace;
    mr_track *track;
    const char *const *sources; /* their ids; they outlive the trace */
} mr_ledger_tracing;
void mr_ledger_trace(mr_ledger *ledger, const mr_ledger_tracing *tracing);

/* From now on, before any frame has come: follows the reach of each source of this process. */
void mr_ledger_follow(mr_ledger *ledger);
/* From now on frames that close were dropped because the run is being ended, and do not count as settled. */
void mr_ledger_freeze(mr_ledger *ledger);
/* The last frame up to which all frames of a source are settled; false: there is none. *all: every one so far is. */
bool mr_ledger_reach(mr_ledger *ledger, uint32_t source, mr_reach_frame *last, bool *all);

/* True if no frame of the source is open; else `emptied` is called once, with the lock, when the last one closes. The
 * latest call counts; NULL: none any more. */
bool mr_ledger_await_empty(mr_ledger *ledger, uint32_t source, void (*emptied)(void *context), void *context);
/* Begins a new account for a source that has no open frames; what was in it is gone. */
void mr_ledger_clear(mr_ledger *ledger, uint32_t source);

/* The account of a source's own frames, or of its frames that came over cuts. */
typedef struct mr_ledger_account {
    uint64_t in, delivered, dropped, absorbed, unaccounted;
    mr_ledger_line *lines;      /* dropped and absorbed (mr_free); NULL: none, or no memory */
    size_t line_count;
    size_t unsettled_count;     /* frames that are unaccounted for, then those in flight, the oldest first of each */
    mr_identity unsettled[MR_UNSETTLED_FRAMES];
} mr_ledger_account;
/* All of it at one moment, for which the lock is held once and only to copy. */
void mr_ledger_read(mr_ledger *ledger, uint32_t source, bool arrived, mr_ledger_account *account);

#endif
