/* Windows in a horizontal filter: if the samples for up to 8 neighbouring results lie within 64 samples, one
 * permutation of two 32-sample vectors can find four taps for each result. Some processors need a third of the time to
 * permute sample pairs. For that, taps must begin at an even sample and must not need more vectors. Filters with two
 * taps have pairs instead: windows of bytes, for rows not yet weighed. Windows are built once from a finished filter; a
 * filter whose results lie too far apart has none.
 *
 * Ownership: a table owns the arrays. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* MR_WINDOW_SLOTS: samples or weights in a vector, four taps for MR_WINDOW_RESULTS results. */
enum { MR_WINDOW = 64, MR_WINDOW_SLOTS = 32, MR_WINDOW_RESULTS = 8, MR_WINDOW_TAPS = 4 };

typedef struct mr_windows {
    int count;        /* 0: there are none */
    int vectors;      /* weight vectors per window: the taps over MR_WINDOW_TAPS, rounded up */
    bool even;        /* taps begin at even samples, and places are sample pairs */
    int32_t *from;    /* each window's first sample, less the filter's `begin`; even if `even` */
    int32_t *result;  /* each window's first result; the next window begins after its last */
    /* Per window, MR_WINDOW_SLOTS samples in the first vector, counted from `from`; those in the next vector lie
     * MR_WINDOW_TAPS further on. Dword k in a vector holds two taps for result k % 8: the first two if k < 8. */
    int16_t *places;
    int32_t *pairs;   /* if `even`, used instead: half the first of two samples; a pair for each dword */
    int16_t *weights; /* per window `vectors` times MR_WINDOW_SLOTS, 0 where there is no tap or no result */
} mr_windows;

/* Groups of 16 results with two taps each, whose samples lie in two windows of 64: eight results each. */
typedef struct mr_column_pairs {
    int count;       /* groups; 0: there are none */
    bool single;     /* the first window of each group has the samples of all its results */
    int32_t *from;   /* per group two windows: their first samples, less the filter's `begin`; none must reach past the
                        filter's `end` */
    int16_t *places; /* per group 32: each result's two samples, counted from the first window's; unless `single`,
                        those in the second window from 64 on */
} mr_column_pairs;

struct mr_filter;

/* MR_ERROR_MEMORY without a message. The table is zeroed. */
int mr_windows_init(mr_windows *windows, const struct mr_filter *filter);
/* Accepts a zeroed or half-built table. */
void mr_windows_fini(mr_windows *windows);
int mr_column_pairs_init(mr_column_pairs *pairs, const struct mr_filter *filter);
void mr_column_pairs_fini(mr_column_pairs *pairs);
