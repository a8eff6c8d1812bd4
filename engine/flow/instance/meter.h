/* One entry's counts: frames, calls and time inside the stage type. The entry writes them; any thread may read them.
 * Internal to the engine.
 *
 * Very short calls are timed together: reading the clock costs a fifth of what a frame costs in a stage. */
#pragma once

#include "engine/observe/histogram.h"
#include "millrace/millrace.h"

/* Faster calls are timed together, MR_STRETCH at once. */
enum { MR_STRETCH = 8, MR_SHORT_NS = 1000 };

/* Only meter.c and the functions below may touch the fields. */
typedef struct mr_meter {
    _Atomic uint64_t in, out;
    _Atomic uint64_t times; /* calls */
    _Atomic int64_t busy_ns;
    _Atomic uint64_t most_frames; /* in one call */
    _Atomic int64_t cpu_ns;       /* if the run is profiled: used by this entry's thread inside the stage */
    unsigned calls, stride;       /* measures one call in `stride`, which stands for the others */
    unsigned stretch;             /* short calls to time together */
    _Atomic unsigned unclocked;   /* calls since the clock was last read, not yet in the times */
    unsigned entered;             /* frames consumed by those calls, and when each entered the queue */
    int64_t entered_ns[MR_STRETCH];
    mr_histogram latency;
} mr_meter;

static inline void mr_meter_add_to(_Atomic uint64_t *counter, uint64_t more) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}
/* A frame came out. */
static inline void mr_meter_count_out(mr_meter *meter) {
    mr_meter_add_to(&meter->out, 1);
}
/* Calls since the clock was last read. */
static inline unsigned mr_meter_unclocked(const mr_meter *meter) {
    return atomic_load_explicit(&meter->unclocked, memory_order_relaxed);
}
/* Counts a finished call with this many frames. Returns how many calls mr_meter_time must now time together, or 0. */
static inline unsigned mr_meter_count_call(mr_meter *meter, size_t frames) {
    const unsigned calls = mr_meter_unclocked(meter) + 1;
    mr_meter_add_to(&meter->times, 1);
    /* A call with several frames is timed alone, since there is no room for their times. */
    if (calls >= meter->stretch || frames != 1)
        return calls;
    atomic_store_explicit(&meter->unclocked, calls, memory_order_relaxed);
    return 0;
}
/* Adds the time for all calls since the clock was last read. `alone`: later calls must be timed one by one. Returns the
 * time per call. */
static inline int64_t mr_meter_time(mr_meter *meter, unsigned calls, int64_t spent_ns, int64_t now_ns, bool alone) {
    atomic_store_explicit(&meter->busy_ns, atomic_load_explicit(&meter->busy_ns, memory_order_relaxed) + spent_ns,
                          memory_order_relaxed);
    spent_ns /= calls;
    meter->stretch = alone || spent_ns >= MR_SHORT_NS ? 1 : MR_STRETCH;
    for (unsigned i = 0; i < meter->entered; i++)
        mr_histogram_add(&meter->latency, now_ns - meter->entered_ns[i]);
    meter->entered = 0;
    atomic_store_explicit(&meter->unclocked, 0, memory_order_release);
    return spent_ns;
}
/* Counts the frames that a call consumed. */
static inline void mr_meter_count_in(mr_meter *meter, size_t frames) {
    mr_meter_add_to(&meter->in, frames);
    if (frames > atomic_load_explicit(&meter->most_frames, memory_order_relaxed))
        atomic_store_explicit(&meter->most_frames, frames, memory_order_relaxed);
}
/* Counts the latency of one of them since it entered the queue. */
static inline void mr_meter_add_latency(mr_meter *meter, int64_t entered_ns, int64_t now_ns) {
    if (mr_meter_unclocked(meter))
        meter->entered_ns[meter->entered++] = entered_ns;
    else
        mr_histogram_add(&meter->latency, now_ns - entered_ns);
}

/* Only in a profiled run: whether to measure the next call's processor time, and adds that time. */
bool mr_meter_measures(mr_meter *meter);
void mr_meter_add_cpu(mr_meter *meter, int64_t spent_ns);

/* Resets the counts for the slot's next source. */
void mr_meter_renew(mr_meter *meter);
/* Adds the counts to a summary. */
void mr_meter_read(const mr_meter *meter, mr_stage_summary *summary, mr_histogram_sums *latency);
/* Whether the times include all calls. */
static inline bool mr_meter_is_settled(const mr_meter *meter) {
    return !atomic_load_explicit(&meter->unclocked, memory_order_acquire);
}
