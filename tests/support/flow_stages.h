/* Small stage types for flow tests: they need neither FFmpeg nor models, and can misbehave on demand. */
#pragma once

#include "millrace/millrace.h"

/* Types: `count` (source: `frames`, every `period`, fails after `fail_at`; packets in groups of `gop`), `pass`, `gate`
 * (passes one of `every`), `twice` (emits each frame as sub 0 and 1), `scale` (map: writes tensors through the device's
 * stream), `block` (the same for batches), `note` (adds a tensor to the results), `batcher` (notes its batch sizes),
 * `gatherer` (the same; takes up to four waiting frames), `sampler` (the same; counts one frame of `every` and passes
 * the others), `slow` (takes `period` on the clock for each frame), `broken`
 * (fails at `fail_at`), `meet` (joins), `forgetful` (loses frames silently), `laggard` (asks for its first output
 * last), `recount` (calls overlap; absorbs one of `every`, fails at `fail_at`, and numbers the others in order),
 * `collect` (sink; fails at `fail_at`), `peek` (the same, which says that no payload leaves there), `list` (as `peek`,
 * and says that it reads none), `look` (as `pass`, without a look at the payload). `block` makes nothing for frames
 * that the next stage passes, and `sampler` with `period` counts one frame in that time. */
const mr_stage_type *const *flow_stage_types(void);

/* Frames that the last run's `collect` stages received, in order; guarded against workers. */
typedef struct collected {
    mr_identity identity;
    uint64_t value; /* from scale's tensor; 0 without one */
    uint64_t noted; /* from note's tensor; 0 without one */
    bool first;     /* from the collector called "first" */
    int64_t late_ns; /* time after the deadline; 0 without one */
    uint32_t flags;
} collected;
enum { COLLECT_ROOM = 100000 };
extern collected collection[COLLECT_ROOM];
extern size_t collection_count;
/* The largest and smallest batch that `batcher`, `gatherer` and `sampler` saw. */
extern size_t largest_batch, smallest_batch;
/* The number of calls in which `sampler` had frames that count, and of frames that `block` made. */
extern size_t batch_count, block_count;
void flow_stages_reset(void);
/* What a stage that splits frames does in `process`: `count` objects of the input, and their end. */
int flow_split(mr_io *io, uint32_t count);
