/* Summaries of sources that were removed: the latest of them each by itself, the earlier ones together, so that the
 * amount is bounded however many come and go. Ids, stages and reasons are kept by pointer. The caller has a lock. */
#ifndef MILLRACE_FLOW_LEDGER_DEPARTED_H
#define MILLRACE_FLOW_LEDGER_DEPARTED_H

#include "millrace/millrace.h"

enum { MR_MOST_DEPARTED = 256 };

typedef struct mr_departed {
    size_t count, first;   /* `count` accounts, the oldest in place `first` */
    mr_source_summary accounts[MR_MOST_DEPARTED];
    bool merged;           /* there is one of all that came before */
    mr_source_summary earlier;    /* with the id "" */
    struct mr_departed_epochs *epochs; /* of each id that has left; kept however many leave */
    size_t epoch_count, epoch_room;
    uint32_t forgotten;    /* without memory for one: above all epochs that are not in the list */
} mr_departed;

/* Takes the account over. */
void mr_departed_add(mr_departed *departed, mr_source_summary *account);
/* The number of accounts, and a copy of one; false without memory. */
size_t mr_departed_count(const mr_departed *departed);
bool mr_departed_copy(const mr_departed *departed, size_t index, mr_source_summary *copy);
/* Frames that were not accounted for. */
uint64_t mr_departed_unaccounted(const mr_departed *departed);
/* The first epoch for a source of that id: above all that it had, and 0 if it is new. */
uint32_t mr_departed_epoch(const mr_departed *departed, const char *id);
void mr_departed_fini(mr_departed *departed);

/* Releases the lists and the message of a row. */
void mr_row_fini(mr_source_summary *row);

#endif
