/* Chooses the faster of two variants for preprocess operations on this processor: wider vectors need not be faster. All
 * variants must give the same bits, so the choice can only affect the time. */
#pragma once

#include "kernels/preprocess/preprocess_rows.h"
#include "millrace/devices.h"

/* Runs each operation in mr_preprocess_step from both tables. If `narrow`'s is not slower, puts it into `wide`, with
 * its name in `step`. Takes less than a millisecond; now_ns reads a clock. If memory runs out nothing is changed. */
void mr_preprocess_rows_choose(mr_preprocess_rows *wide, const mr_preprocess_rows *narrow, int64_t (*now_ns)(void));

/* The table with this processor's best variants; with AVX-512 they are measured. The environment variable
 * MILLRACE_KERNELS ("c", "avx2", "avx512") can name one for all instead; variants that the processor cannot run are
 * left out. Any thread. */
const mr_preprocess_rows *mr_preprocess_rows_get(void);
/* Lists a table's variants (mr_kernel_variants_get lists those from mr_preprocess_rows_get); `each` is part of the
 * list. */
mr_kernel_variants mr_preprocess_rows_list(const mr_preprocess_rows *rows, mr_kernel_variant each[MR_PREPROCESS_STEPS]);
