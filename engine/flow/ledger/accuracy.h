/* Compares results with the truth: frames of a labelled folder (mr_media.label), by class. A class is right if its
 * label equals the folder's name exactly, or, for classes without labels, if its index is the folder's.
 *
 * Under the graph's lock. If memory runs out, only the numbers by class are lost. */
#ifndef MILLRACE_FLOW_LEDGER_ACCURACY_H
#define MILLRACE_FLOW_LEDGER_ACCURACY_H

#include "millrace/millrace.h"

/* Folders beyond these are counted, but not by class: a folder's index may come from a peer, which is not trusted. */
enum { MR_MOST_TRUTHS = 65536 };

typedef struct mr_truth {
    char *label; /* NULL: no frame of it yet */
    uint64_t frames, right, listed;
} mr_truth;

typedef struct mr_truths {
    uint64_t frames, right, listed;
    size_t longest; /* classes of one frame */
    size_t room;
    mr_truth *of;   /* by the folder's index */
} mr_truths;

/* Counts one frame; without a label it does nothing. */
void mr_truths_add(mr_truths *truths, const mr_media *media, const mr_result *classes);
/* Fills in the accuracy of a source's summary, whose `truths` is allocated. */
void mr_truths_summarize(const mr_truths *truths, mr_source_summary *summary);
void mr_truths_fini(mr_truths *truths);

#endif
