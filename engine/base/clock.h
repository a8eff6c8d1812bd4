/* Clocks: the machine's monotonic one, or a simulated one that stands still until it is set (tests). Nanoseconds.
 * Reading is for any thread; setting for one at a time. */
#pragma once

#include <stdint.h>

typedef struct mr_clock mr_clock;

const mr_clock *mr_clock_real(void);
int mr_clock_create_simulated(mr_clock **clock, int64_t now_ns);
/* Destroys a simulated clock; NULL is allowed. */
void mr_clock_destroy(mr_clock **clock);

int64_t mr_clock_now_ns(const mr_clock *clock);
/* The machine's monotonic time. */
int64_t mr_now_ns(void);
static inline int64_t mr_earlier_ns(int64_t a, int64_t b) {
    return a < b ? a : b;
}
/* Moves a simulated clock on. */
void mr_clock_set_ns(mr_clock *clock, int64_t now_ns);

enum { MR_DATE_TEXT = 40 };
/* A time since 1970 as text, to the microsecond, in UTC (RFC 3339): 2026-11-21T11:19:39.123456Z. Returns `text`. */
const char *mr_date_text(char text[MR_DATE_TEXT], int64_t since_1970_ns);
/* Now, in ns since 1970. */
int64_t mr_clock_date_ns(void);
/* How much later the date is than the clock. Other threads may interrupt the reads of the two: a few tries find how far
 * the result may be off: *within_ns, which may be NULL. */
int64_t mr_clock_offset_ns(const mr_clock *clock, int64_t *within_ns);
