/* The instruction sets that kernels are written for.
 *
 * Each kernel folder has a table with row operations (preprocess_rows.h, vector_rows.h, classical_rows.h). A table is
 * filled with the C reference first; AVX2 and AVX-512 on x86-64, and NEON on ARM64, then override the operations they
 * improve. All variants must give the same bits: integers because the arithmetic is the same, floats because the
 * operations and their order are, and nothing is contracted (-ffp-contract=off).
 *
 * Threads: any. */
#pragma once

#include <pthread.h>

/* No processor has both NEON and AVX2. Every ARM64 processor has NEON. */
typedef enum mr_isa { MR_ISA_C, MR_ISA_NEON, MR_ISA_AVX2, MR_ISA_AVX512, MR_ISA_COUNT } mr_isa;

/* The best instruction set for which kernels exist on this processor, and the name ("c", "neon", "avx2", "avx512"). */
mr_isa mr_isa_detect(void);
const char *mr_isa_name(mr_isa isa);
/* The same, but at most `most`. Of sets that only other kinds of processor have, NEON gives MR_ISA_C on x86-64, and
 * those of x86-64 give NEON on ARM64. */
mr_isa mr_isa_up_to(mr_isa most);
/* The instruction set that the environment variable MILLRACE_KERNELS ("c", "neon", "avx2", "avx512") names for all
 * tables, read once; MR_ISA_COUNT if it names none. Logs a warning for other values. */
mr_isa mr_isa_named(void);

/* Overrides operations in the table `rows` with those of `isa`. A build has the variants of one kind of processor. */
#if defined(__x86_64__)
#define MR_ROWS_FILL(name, rows, isa) ((isa) >= MR_ISA_AVX2 ? mr_##name##_rows_fill_avx2(rows) : (void)0)
#elif defined(__aarch64__)
#define MR_ROWS_FILL(name, rows, isa) ((isa) >= MR_ISA_NEON ? mr_##name##_rows_fill_neon(rows) : (void)0)
#else
#define MR_ROWS_FILL(name, rows, isa) ((void)(isa))
#endif

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
