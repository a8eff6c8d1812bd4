#include "engine/base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* An offset that is as near as this needs no further reads. */
enum { MOST_READS = 20, NEAR_NS = 25000 };

struct mr_clock {
    bool simulated;
    _Atomic int64_t now_ns;
};

const mr_clock *mr_clock_real(void) {
    static const mr_clock real = {.simulated = false};
    return &real;
}

int mr_clock_create_simulated(mr_clock **clock, int64_t now_ns) {
    mr_clock *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a clock");
    made->simulated = true;
    atomic_init(&made->now_ns, now_ns);
    *clock = made;
    return MR_OK;
}

void mr_clock_destroy(mr_clock **clock) {
    mr_free(*clock);
    *clock = NULL;
}

int64_t mr_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t mr_clock_now_ns(const mr_clock *clock) {
    return clock->simulated ? atomic_load_explicit(&clock->now_ns, memory_order_relaxed) : mr_now_ns();
}

void mr_clock_set_ns(mr_clock *clock, int64_t now_ns) {
    atomic_store_explicit(&clock->now_ns, now_ns, memory_order_relaxed);
}

int64_t mr_clock_date_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t mr_clock_offset_ns(const mr_clock *clock, int64_t *within_ns) {
    int64_t offset_ns = 0, best_ns = INT64_MAX;
    for (int i = 0; i < MOST_READS && best_ns > NEAR_NS; i++) {
        const int64_t before_ns = mr_clock_now_ns(clock), date_ns = mr_clock_date_ns();
        const int64_t half_ns = (mr_clock_now_ns(clock) - before_ns) / 2;
        if (half_ns < best_ns)
            offset_ns = date_ns - before_ns - half_ns;
        best_ns = mr_earlier_ns(half_ns, best_ns);
    }
    if (within_ns)
        *within_ns = best_ns;
    return offset_ns;
}

const char *mr_date_text(char text[MR_DATE_TEXT], int64_t since_1970_ns) {
    int64_t rest = since_1970_ns % 1000000000;
    time_t seconds = since_1970_ns / 1000000000 - (rest < 0);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t length = strftime(text, MR_DATE_TEXT, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, MR_DATE_TEXT - length, ".%06dZ", (int)((rest + (rest < 0 ? 1000000000 : 0)) / 1000));
    return text;
}
