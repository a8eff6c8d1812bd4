/* Receipts: one for each source frame, referenced by every frame that descends from it. It closes when the last of
 * them is released, with the gravest outcome that was noted: dropped before delivered before absorbed. If nothing was
 * noted the frame is unaccounted for, which is a fault of a stage. The owner is the ledger, which fills in all of it.
 * Any thread. */
#ifndef MILLRACE_DATA_RECEIPT_H
#define MILLRACE_DATA_RECEIPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "millrace/frame.h"

/* In rising gravity. */
typedef enum mr_note { MR_NOTE_NONE, MR_NOTE_ABSORBED, MR_NOTE_DELIVERED, MR_NOTE_DROPPED } mr_note;

/* Whether that says what has become of a frame for good: not so where it was dropped as MR_REASON_STOPPED. */
bool mr_note_settles(mr_note note, const char *reason);

/* Is told, once, what a receipt was closed with; from the thread that drops the last reference. `stage` and `reason`
 * stand only with dropped and absorbed, and live as long as the pipeline. Embedded in its owner, who fills in
 * `closed`. */
typedef struct mr_receipt_watcher {
    void (*closed)(struct mr_receipt_watcher *watcher, mr_note note, const char *stage, const char *reason);
    struct mr_receipt_watcher *next; /* private */
} mr_receipt_watcher;

struct mr_receipt {
    atomic_int references;
    bool findable;              /* its owner may still find it, and take a reference, as long as there are any */
    _Atomic mr_note note;
    void (*close)(mr_receipt *receipt); /* its owner takes it back, once: no reference is left */
    mr_identity frame;          /* the source frame */
    const char *stage, *reason; /* of dropped and absorbed; written under the ledger's lock */
    struct mr_ledger *ledger;
    uint32_t page;              /* where the ledger enters it */
    uint64_t number;            /* in the reach of its source, where that is followed */
    mr_receipt_watcher *watchers; /* under the ledger's lock */
    mr_receipt *chain;          /* of what arrived: the next in its bucket */
    mr_receipt *previous, *next; /* of all that are open, in the order in which they were opened; or that are free */
};

mr_receipt *mr_receipt_ref(mr_receipt *receipt);
/* Drops *receipt and sets it to NULL; NULL is allowed. The last reference calls its `close`. */
void mr_receipt_unref(mr_receipt **receipt);

#endif
