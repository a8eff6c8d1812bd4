/* The instruction sets that kernels are written for.
 *
 * Each kernel folder has a table with row operations (preprocess_rows.h, vector_rows.h, classical_rows.h). A table is
 * filled with the C reference first; AVX2 and AVX-512 then override the operations they improve. All variants must give
 * the same bits: integers because the arithmetic is the same, floats because the operations and their order are, and
 * nothing is contracted (-ffp-contract=off).
 *
 * Threads: any. */
#pragma once

#include <pthread.h>

typedef enum mr_isa { MR_ISA_C, MR_ISA_AVX2, MR_ISA_AVX512, MR_ISA_COUNT } mr_isa;

/* The best instruction set for which kernels exist on this processor, and the name ("c", "avx2", "avx512"). */
mr_isa mr_isa_detect(void);
const char *mr_isa_name(mr_isa isa);
/* The same, but at most `most`. */
mr_isa mr_isa_up_to(mr_isa most);
/* The instruction set that the environment variable MILLRACE_KERNELS ("c", "avx2", "avx512") names for all tables, read
 * once; MR_ISA_COUNT if it names none. Logs a warning for other values. */
mr_isa mr_isa_named(void);

/* Defines mr_NAME_rows_get: the table that mr_NAME_rows_init fills for the process, once. */
#define MR_ROWS_OF_PROCESS(name)                                                                                       \
    static mr_##name##_rows best;                                                                                      \
    static void fill_best(void) {                                                                                      \
        mr_##name##_rows_init(&best, mr_isa_named());                                                                  \
    }                                                                                                                  \
    const mr_##name##_rows *mr_##name##_rows_get(void) {                                                               \
        static pthread_once_t once = PTHREAD_ONCE_INIT;                                                                \
        pthread_once(&once, fill_best);                                                                                \
        return &best;                                                                                                  \
    }
