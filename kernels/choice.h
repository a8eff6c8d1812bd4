/* Which of two variants of the operations of preprocess is the faster on this processor: wider vectors are not on all,
 * and not for all operations. All variants give the same bits, so that only time depends on what is chosen. */
#ifndef MILLRACE_KERNELS_CHOICE_H
#define MILLRACE_KERNELS_CHOICE_H

#include "kernels/kernels.h"

/* Runs each operation of mr_kernel_step in both tables and puts that of `narrow` into `wide`, with its name in `step`,
 * where it is not the slower one. Takes less than a millisecond; now_ns reads a clock. Without memory nothing is
 * changed. */
void mr_kernels_choose(mr_kernels *wide, const mr_kernels *narrow, int64_t (*now_ns)(void));

/* The table with the best variants of this processor; with AVX-512, by measurement. The environment's
 * MILLRACE_KERNELS ("c", "avx2", "avx512") names one for all instead; what this processor does not have is left out.
 * Any thread. */
const mr_kernels *mr_kernels_get(void);
/* What a table has, for people: "avx2", or "avx512 (vertical avx2, colour avx2)". Returns `text`. */
const char *mr_kernels_describe(const mr_kernels *kernels, char *text, size_t bytes);
/* Name of a step of preprocess ("vertical", "horizontal", "colour"). */
const char *mr_kernel_step_name(mr_kernel_step step);

#endif
