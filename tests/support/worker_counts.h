/* How many workers suites run with on any machine: a single one, fewer and more than the machine has cores, and more
 * than any fixed-length list could expect. */
#pragma once

enum { MOST_WORKERS = 16 };

/* A loop over 1, 2, 4, 8 and 16 workers. */
#define EACH_WORKER_COUNT(workers) for (int workers = 1; workers <= MOST_WORKERS; workers *= 2)

/* One of these in turn, for suites that run often enough anyway. */
static inline int next_worker_count(void) {
    static int last = MOST_WORKERS;
    return last = last == MOST_WORKERS ? 1 : 2 * last;
}
