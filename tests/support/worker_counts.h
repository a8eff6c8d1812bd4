/* How many workers suites run with, whatever the machine has: one alone, fewer and more than the machine has cores, and
 * more than any list of a fixed length may have been made for. */
#pragma once

enum { MOST_WORKERS = 16 };

/* A loop's head: 1, 2, 4, 8 and 16. */
#define EACH_WORKER_COUNT(workers) for (int workers = 1; workers <= MOST_WORKERS; workers *= 2)

/* The same by turns, for suites that run often enough anyway. */
static inline int next_worker_count(void) {
    static int last = MOST_WORKERS;
    return last = last == MOST_WORKERS ? 1 : 2 * last;
}
