/* Classes in a source's delivered frames: how often each came first. For frames from a labelled folder (mr_media.label)
 * also how often that was right: the class label must equal the folder's name exactly, or, without class labels, the
 * class index must equal the folder's.
 *
 * Any thread may add and read at any time, without a lock. No other call may run during mr_tally_fini. If memory runs
 * out, only the numbers by class are lost. */
#pragma once

#include "engine/flow/ledger/growing.h"
#include "millrace/millrace.h"

/* Classes and folders beyond these limits are not counted separately: an index may come from a peer, which cannot be
 * trusted. */
enum { MR_MOST_CLASSES = 1 << 20, MR_MOST_TRUTHS = 65536 };

/* Zero: empty. */
typedef struct mr_tally {
    _Atomic uint64_t frames;                   /* frames with classes */
    _Atomic uint64_t labelled, right, listed;  /* frames with classes and a label */
    _Atomic uint64_t longest;                  /* the most classes in one such frame */
    mr_growing classes, truths;                /* by index */
} mr_tally;

void mr_tally_add(mr_tally *tally, const mr_media *media, const mr_result *classes);
/* Fills in a source's summary and allocates `truths`. */
void mr_tally_summarize(const mr_tally *tally, mr_source_summary *row);
/* Replaces each label with what `keep` returns for it: the label's owner is about to go. */
void mr_tally_keep_labels(mr_tally *tally, const char *(*keep)(void *context, const char *label), void *context);
void mr_tally_fini(mr_tally *tally);
