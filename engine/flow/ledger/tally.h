/* The classes of a source's delivered frames: how often each came first, and, for frames of a labelled folder
 * (mr_media.label), how often that was right. A class is right if its label equals the folder's name exactly, or, for
 * classes without labels, if its index is the folder's.
 *
 * Any thread may add and read at a time, without a lock; the others must be over before the end. If memory runs out,
 * only the numbers by class are lost. */
#ifndef MILLRACE_FLOW_LEDGER_TALLY_H
#define MILLRACE_FLOW_LEDGER_TALLY_H

#include "engine/flow/ledger/growing.h"
#include "millrace/millrace.h"

/* Classes, and folders, beyond these are not counted by themselves: an index may come from a peer, which is not
 * trusted. */
enum { MR_MOST_CLASSES = 1 << 20, MR_MOST_TRUTHS = 65536 };

/* Zero: empty. */
typedef struct mr_tally {
    _Atomic uint64_t frames;                   /* with classes */
    _Atomic uint64_t labelled, right, listed;  /* with a label too */
    _Atomic uint64_t longest;                  /* most classes of one of them */
    mr_growing classes, truths;                /* by index */
} mr_tally;

void mr_tally_add(mr_tally *tally, const mr_media *media, const mr_result *classes);
/* Fills in the classes of a source's summary, whose `truths` is allocated. */
void mr_tally_summarize(const mr_tally *tally, mr_source_summary *row);
/* Replaces each label by the one that `keep` gives for it: its owner goes. */
void mr_tally_keep_labels(mr_tally *tally, const char *(*keep)(void *context, const char *label), void *context);
void mr_tally_fini(mr_tally *tally);

#endif
