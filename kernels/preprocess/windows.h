/* Windows of a horizontal filter: the samples of up to 8 neighbouring results lie within 64 samples, so that one
 * permutation of two vectors of 32 finds four taps of each of these results. Built once from a finished filter; filters
 * of two taps, and those whose results lie too far apart, have none.
 *
 * Ownership: a table owns its arrays. */
#ifndef MILLRACE_KERNELS_PREPROCESS_WINDOWS_H
#define MILLRACE_KERNELS_PREPROCESS_WINDOWS_H

#include <stdint.h>

/* MR_WINDOW_SLOTS: samples or weights of a vector, four taps of MR_WINDOW_RESULTS results. */
enum { MR_WINDOW = 64, MR_WINDOW_SLOTS = 32, MR_WINDOW_RESULTS = 8, MR_WINDOW_TAPS = 4 };

typedef struct mr_windows {
    int count;        /* 0: there are none */
    int vectors;      /* of weights for each window: its taps over MR_WINDOW_TAPS, rounded up */
    int32_t *from;    /* of each window: its first sample, less the filter's `begin` */
    int32_t *result;  /* its first result; the next window begins at the one behind its last */
    /* Of each window MR_WINDOW_SLOTS samples of the first vector, counted from `from`; those of the next vector lie
     * MR_WINDOW_TAPS further on. Dword k of a vector holds two taps of result k % 8: the first two if k < 8. */
    int16_t *places;
    int16_t *weights; /* of each window `vectors` times MR_WINDOW_SLOTS, 0 where there is no tap or no result */
} mr_windows;

struct mr_filter;

/* MR_ERROR_MEMORY without a message. `windows` is zeroed. */
int mr_windows_init(mr_windows *windows, const struct mr_filter *filter);
/* Accepts a zeroed or half-built table. */
void mr_windows_fini(mr_windows *windows);

#endif
