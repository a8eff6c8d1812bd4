/* Receipts: one for each source frame; every frame that descends from it holds a reference. The receipt closes when the
 * last reference is dropped, with the gravest noted outcome: dropped, then delivered, then absorbed. If nothing was
 * noted, the frame is unaccounted for, which is a stage's fault. The ledger owns receipts and fills in every field. Any
 * thread.
 *
 * A frame that was made from an object has a receipt too, which the ledger counts apart. It holds one of the frame that
 * has the object: that frame is in flight until its objects are. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "millrace/frame.h"
#include "millrace/spans.h"

/* Least grave first. */
typedef enum mr_note { MR_NOTE_NONE, MR_NOTE_ABSORBED, MR_NOTE_DELIVERED, MR_NOTE_DROPPED } mr_note;

/* Whether this outcome is final. A frame dropped as MR_REASON_STOPPED is not settled. */
bool mr_note_settles(mr_note note, const char *reason);

/* Called once with the receipt's outcome, on the thread that drops the last reference. `stage` and `reason` are only
 * valid for dropped and absorbed, and live as long as the pipeline. Embed it in another struct and fill in `closed`. */
typedef struct mr_receipt_watcher {
    void (*closed)(struct mr_receipt_watcher *watcher, mr_note note, const char *stage, const char *reason);
    struct mr_receipt_watcher *next; /* private */
    int returned;               /* how many times the frame was in this process before, on its way here */
} mr_receipt_watcher;

struct mr_receipt {
    atomic_int references;
    bool findable;              /* the owner may find it and take a reference while there are any */
    _Atomic mr_note note;
    void (*close)(mr_receipt *receipt); /* called once, when no reference is left: the owner takes it back */
    mr_identity frame;          /* the source frame */
    const char *stage, *reason; /* for dropped and absorbed; written under the ledger's lock */
    struct mr_ledger *ledger;
    uint32_t page;              /* the ledger's page that counts it */
    uint64_t number;            /* in the source's reach, if that is followed */
    mr_receipt_watcher *watchers; /* under the ledger's lock */
    mr_receipt *parent;         /* objects: of the frame, one reference; NULL: it is on another node */
    mr_receipt *kept;           /* frames: arrived objects that were gathered, one reference each */
    mr_receipt *next_kept;      /* in that list */
    mr_receipt *awaiting;       /* arrived frames: those that came again and wait for this one, one reference each */
    mr_receipt *next_awaiting;  /* in that list; `awaits`: it is in one */
    bool awaits;
    uint64_t gathered_count;    /* frames: objects made here that were gathered; they get the frame's outcome */
    bool gathered;              /* objects: by now */
    atomic_bool delivered_in_part; /* frames: an object was delivered on its own */
    mr_span_context context;    /* its span, if it is followed */
    uint64_t parent_span;
    int64_t opened_ns;          /* on the pipeline's clock, if it is followed */
    int returned;               /* arrived frames only: as their watchers have it */
    mr_receipt *chain;          /* the same: next in the bucket */
    mr_receipt *previous, *next; /* in the list of open receipts, in opening order, or of free ones */
};

mr_receipt *mr_receipt_ref(mr_receipt *receipt);
/* Drops *receipt and sets it to NULL; NULL is allowed. Dropping the last reference calls `close`. */
void mr_receipt_unref(mr_receipt **receipt);
