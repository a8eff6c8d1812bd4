/* Summaries of removed sources. The latest are kept separately and earlier ones are merged, so that memory stays
 * bounded however many come and go. Ids, stages and reasons are kept by pointer. The caller must hold a lock. */
#pragma once

#include "millrace/millrace.h"

enum { MR_MOST_RETIRED = 256 };

typedef struct mr_retired {
    size_t count, first;   /* `count` accounts; the oldest is at `first` */
    mr_source_summary accounts[MR_MOST_RETIRED];
    bool merged;           /* `earlier` is in use */
    mr_source_summary earlier;    /* all earlier accounts merged, with the id "" */
    struct mr_retired_epochs *epochs; /* for each id that has left; never discarded */
    size_t epoch_count, epoch_room;
    uint32_t forgotten;    /* if memory ran out: larger than any epoch missing from the list */
} mr_retired;

/* Takes ownership of the account. */
void mr_retired_add(mr_retired *retired, mr_source_summary *account);
/* The number of accounts; copies one, and returns false without memory. */
size_t mr_retired_count(const mr_retired *retired);
bool mr_retired_copy(const mr_retired *retired, size_t index, mr_source_summary *copy);
/* Frames that were not accounted for. */
uint64_t mr_retired_unaccounted(const mr_retired *retired);
/* The first epoch for a source with this id: larger than all it has used, or 0 if the id is new. */
uint32_t mr_retired_epoch(const mr_retired *retired, const char *id);
void mr_retired_fini(mr_retired *retired);

/* Adds to the line for the same stage and reason. Without memory for another line, only the total counts it. */
void mr_ledger_lines_add(mr_ledger_line **lines, size_t *count, const mr_ledger_line *line);
/* Adds the counts and lines. */
void mr_objects_add(mr_object_summary *to, const mr_object_summary *from);
/* Releases the row's lists and message. */
void mr_row_fini(mr_source_summary *row);
