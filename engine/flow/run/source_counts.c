#include "engine/flow/run/source_counts.h"

#include <stdatomic.h>

#include "engine/base/memory.h"
#include "engine/flow/ledger/tally.h"

typedef struct counted {
    _Atomic int64_t expected; /* frames announced */
    _Atomic uint64_t unread;  /* frames announced that did not come */
    _Atomic uint64_t seams;   /* interruptions reported with the frames */
    _Atomic uint32_t last_epoch; /* the largest epoch so far */
    uint32_t first_epoch;     /* the offset added to the source's epochs; written while the slot is vacant */
    mr_tally tally;
} counted;

struct mr_source_counts {
    size_t source_count;
    counted of[]; /* by source */
};

int mr_source_counts_create(mr_source_counts **counts, size_t source_count) {
    mr_source_counts *made = mr_calloc(1, sizeof *made + source_count * sizeof *made->of);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    made->source_count = source_count;
    *counts = made;
    return MR_OK;
}

void mr_source_counts_destroy(mr_source_counts **counts) {
    mr_source_counts *gone = *counts;
    if (!gone)
        return;
    for (size_t s = 0; s < gone->source_count; s++)
        mr_tally_fini(&gone->of[s].tally);
    mr_free(gone);
    *counts = NULL;
}

void mr_source_expect_frames(mr_source_counts *counts, uint32_t source, int64_t frames) {
    atomic_store_explicit(&counts->of[source].expected, frames, memory_order_relaxed);
}

void mr_source_miss_frames(mr_source_counts *counts, uint32_t source, uint64_t frames) {
    atomic_fetch_add_explicit(&counts->of[source].unread, frames, memory_order_relaxed);
}

void mr_source_count_seam(mr_source_counts *counts, uint32_t source) {
    atomic_fetch_add_explicit(&counts->of[source].seams, 1, memory_order_relaxed);
}

uint32_t mr_source_epoch(mr_source_counts *counts, uint32_t source, uint32_t own) {
    counted *count = &counts->of[source];
    const uint32_t epoch = count->first_epoch + own;
    if (epoch > atomic_load_explicit(&count->last_epoch, memory_order_relaxed))
        atomic_store_explicit(&count->last_epoch, epoch, memory_order_relaxed);
    return epoch;
}

void mr_source_tally(mr_source_counts *counts, const mr_frame *frame, const mr_result *classes) {
    mr_tally_add(&counts->of[frame->identity.source].tally, frame->media, classes);
}

void mr_source_counts_read(const mr_source_counts *counts, uint32_t source, mr_source_summary *row) {
    const counted *count = &counts->of[source];
    row->expected = atomic_load_explicit(&count->expected, memory_order_relaxed);
    row->unread = atomic_load_explicit(&count->unread, memory_order_relaxed);
    row->seams = atomic_load_explicit(&count->seams, memory_order_relaxed);
    row->stay.first_epoch = count->first_epoch;
    row->stay.last_epoch = atomic_load_explicit(&count->last_epoch, memory_order_relaxed);
    mr_tally_summarize(&count->tally, row);
}

void mr_source_counts_keep_labels(mr_source_counts *counts, uint32_t source,
                                  const char *(*keep)(void *context, const char *label), void *context) {
    mr_tally_keep_labels(&counts->of[source].tally, keep, context);
}

void mr_source_counts_renew(mr_source_counts *counts, uint32_t source, uint32_t first_epoch) {
    counted *count = &counts->of[source];
    atomic_store(&count->expected, 0);
    atomic_store(&count->unread, 0);
    atomic_store(&count->seams, 0);
    count->first_epoch = first_epoch;
    atomic_store_explicit(&count->last_epoch, first_epoch, memory_order_relaxed);
    mr_tally_fini(&count->tally);
}
