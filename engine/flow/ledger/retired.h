/* Summaries of sources that were removed: the latest of them each by itself, the earlier ones together, so that the
 * amount is bounded however many come and go. Ids, stages and reasons are kept by pointer. The caller has a lock. */
#ifndef MILLRACE_FLOW_LEDGER_RETIRED_H
#define MILLRACE_FLOW_LEDGER_RETIRED_H

#include "millrace/millrace.h"

enum { MR_MOST_RETIRED = 256 };

typedef struct mr_retired {
    size_t count, first;   /* `count` accounts, the oldest in place `first` */
    mr_source_summary accounts[MR_MOST_RETIRED];
    bool merged;           /* there is one of all that came before */
    mr_source_summary earlier;    /* with the id "" */
    struct mr_retired_epochs *epochs; /* of each id that has left; kept however many leave */
    size_t epoch_count, epoch_room;
    uint32_t forgotten;    /* without memory for one: above all epochs that are not in the list */
} mr_retired;

/* Takes the account over. */
void mr_retired_add(mr_retired *retired, mr_source_summary *account);
/* The number of accounts, and a copy of one; false without memory. */
size_t mr_retired_count(const mr_retired *retired);
bool mr_retired_copy(const mr_retired *retired, size_t index, mr_source_summary *copy);
/* Frames that were not accounted for. */
uint64_t mr_retired_unaccounted(const mr_retired *retired);
/* The first epoch for a source of that id: above all that it had, and 0 if it is new. */
uint32_t mr_retired_epoch(const mr_retired *retired, const char *id);
void mr_retired_fini(mr_retired *retired);

/* Releases the lists and the message of a row. */
void mr_row_fini(mr_source_summary *row);

#endif
