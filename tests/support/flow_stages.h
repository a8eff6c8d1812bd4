/* Small stage types for tests of the flow: nothing of FFmpeg or models, every misbehaviour on demand. */
#pragma once

#include "millrace/millrace.h"

/* Types: `count` (source: `frames`, every `period`, fails behind `fail_at`; packets in groups of `gop`), `pass`,
 * `gate` (lets one of `every` through), `twice` (emits each frame as sub 0 and 1), `scale` (map: writes tensors
 * through the device's stream), `block` (the same for batches), `note` (adds a tensor to the results), `batcher`
 * (notes its batch sizes), `gatherer` (likewise; takes up to four frames that wait), `slow` (takes `period` of the
 * clock for each frame), `broken` (fails at `fail_at`), `meet` (joins), `forgetful` (loses frames without a word),
 * `laggard` (asks for its first output last), `recount` (calls overlap; absorbs one of `every`, fails at `fail_at`, and
 * numbers the others in turn), `collect` (sink; fails at `fail_at`). */
const mr_stage_type *const *flow_stage_types(void);

/* The frames that the last run's `collect` stages received, in order; guarded against workers. */
typedef struct collected {
    mr_identity identity;
    uint64_t value; /* of scale's tensor; 0 if there is none */
    uint64_t noted; /* of note's; likewise */
    bool first;     /* by the collector called "first" */
    int64_t late_ns; /* behind its deadline; 0 without one */
    uint32_t flags;
} collected;
enum { COLLECT_ROOM = 100000 };
extern collected collection[COLLECT_ROOM];
extern size_t collection_count;
/* Largest and smallest batch that `batcher` and `gatherer` saw. */
extern size_t largest_batch, smallest_batch;
void flow_stages_reset(void);
