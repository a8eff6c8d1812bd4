/* Counts of each source: frames that were announced, missed or delivered, interruptions and epochs. Any thread, without
 * a lock. A source slot counts for one source after the other. */
#ifndef MILLRACE_FLOW_RUN_SOURCE_COUNTS_H
#define MILLRACE_FLOW_RUN_SOURCE_COUNTS_H

#include "millrace/millrace.h"

typedef struct mr_source_counts mr_source_counts;

int mr_source_counts_create(mr_source_counts **counts, size_t source_count);
void mr_source_counts_destroy(mr_source_counts **counts);

/* The container announces frames; frames that were announced are not read; the source's stream was interrupted. */
void mr_source_expect_frames(mr_source_counts *counts, uint32_t source, int64_t frames);
void mr_source_miss_frames(mr_source_counts *counts, uint32_t source, uint64_t frames);
void mr_source_count_seam(mr_source_counts *counts, uint32_t source);
/* The epoch of a frame that its source gives that one. By the source's instance. */
uint32_t mr_source_epoch(mr_source_counts *counts, uint32_t source, uint32_t own);
/* The classes of a delivered frame. */
void mr_source_tally(mr_source_counts *counts, const mr_frame *frame, const mr_result *classes);

/* Fills in what is counted here. */
void mr_source_counts_read(const mr_source_counts *counts, uint32_t source, mr_source_summary *row);
/* Replaces each label by the one that `keep` gives for it: its owner goes. */
void mr_source_counts_keep_labels(mr_source_counts *counts, uint32_t source,
                                  const char *(*keep)(void *context, const char *label), void *context);
/* For the next source of the slot, whose own epochs are added to that one. */
void mr_source_counts_renew(mr_source_counts *counts, uint32_t source, uint32_t first_epoch);

#endif
