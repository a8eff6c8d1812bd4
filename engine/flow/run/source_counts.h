/* Counts for each source: frames announced, missed and delivered, interruptions and epochs. Any thread, without a lock.
 * A source slot counts one source after another. */
#pragma once

#include "millrace/millrace.h"

typedef struct mr_source_counts mr_source_counts;

int mr_source_counts_create(mr_source_counts **counts, size_t source_count);
void mr_source_counts_destroy(mr_source_counts **counts);

/* The container announces frames; announced frames were not read; the source's stream was interrupted. */
void mr_source_expect_frames(mr_source_counts *counts, uint32_t source, int64_t frames);
void mr_source_miss_frames(mr_source_counts *counts, uint32_t source, uint64_t frames);
void mr_source_count_seam(mr_source_counts *counts, uint32_t source);
/* Returns the run's epoch for a frame, given the epoch that the source uses. Only the source's instance may call it. */
uint32_t mr_source_epoch(mr_source_counts *counts, uint32_t source, uint32_t own);
/* Counts a delivered frame's classes. */
void mr_source_tally(mr_source_counts *counts, const mr_frame *frame, const mr_result *classes);

/* Fills in the counts. */
void mr_source_counts_read(const mr_source_counts *counts, uint32_t source, mr_source_summary *row);
/* Replaces each label with what `keep` returns for it: the label's owner is about to go. */
void mr_source_counts_keep_labels(mr_source_counts *counts, uint32_t source,
                                  const char *(*keep)(void *context, const char *label), void *context);
/* Resets the counts for the slot's next source; `first_epoch` is added to its epochs. */
void mr_source_counts_renew(mr_source_counts *counts, uint32_t source, uint32_t first_epoch);
