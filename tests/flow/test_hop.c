/* What a frame costs in a stage that does nothing, counted rather than timed: clock readings and locks. The
 * deterministic executor makes the counts the same in every run. */
#include <pthread.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "tests/support/flow_run.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"

enum { FRAMES = 4000, FEW = 1, MANY = 9 };

typedef struct costs {
    uint64_t clock_reads, locks;
} costs;

static costs now;

/* The linker redirects all calls here (tests/CMakeLists.txt). */
int64_t __real_mr_clock_now_ns(const mr_clock *clock);
int64_t __wrap_mr_clock_now_ns(const mr_clock *clock);
int64_t __real_mr_now_ns(void);
int64_t __wrap_mr_now_ns(void);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int64_t __wrap_mr_clock_now_ns(const mr_clock *clock) {
    now.clock_reads++;
    return __real_mr_clock_now_ns(clock);
}

int64_t __wrap_mr_now_ns(void) {
    now.clock_reads++;
    return __real_mr_now_ns();
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock) {
    now.locks++;
    return __real_pthread_mutex_lock(lock);
}

/* Counts for a run through this many stages. */
static costs run_chain(int stages) {
    char text[4096];
    int length = snprintf(text, sizeof text, FLOW "sources:\n  s: {type: count, frames: %d}\n"
                                                  "stages:\n  p0: {type: pass, input: s}\n", FRAMES);
    for (int i = 1; i < stages; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "  p%d: {type: pass, input: p%d}\n", i, i - 1);
    snprintf(text + length, sizeof text - (size_t)length, "  out: {type: collect, input: p%d}\n", stages - 1);
    mr_pipeline *pipeline = flow_open(text, 1, 1);
    now = (costs){0};
    mr_summary *summary = flow_run(pipeline);
    costs all = now;
    assert_int_equal(summary->delivered, FRAMES);
    flow_close(&pipeline, &summary);
    return all;
}

static double a_hop(uint64_t few, uint64_t many) {
    return (double)(many - few) / FRAMES / (MANY - FEW);
}

TEST(test_a_hop_on_the_host_reads_the_clock_once_in_many_calls) {
    const costs few = run_chain(FEW), many = run_chain(MANY);
    assert_true(a_hop(few.clock_reads, many.clock_reads) < 0.5);
    assert_true(a_hop(few.locks, many.locks) < 1.5);
    /* From source to sink: neither the sink nor the summary may take a graph lock for a frame. */
    assert_true((double)few.locks / FRAMES < 7.5);
}

RUN_TESTS(be_quiet, NULL)
