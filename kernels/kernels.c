#include "kernels/kernels.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "engine/base/clock.h"
#include "kernels/choice.h"
#include "millrace/log.h"

static mr_kernels best;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
/* Half floats have a bit of their own; clang's __builtin_cpu_supports does not know its name. */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

mr_isa mr_isa_detect(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !has_f16c())
        return MR_ISA_C;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return MR_ISA_AVX512;
    return MR_ISA_AVX2;
#else
    return MR_ISA_C;
#endif
}

const char *mr_isa_name(mr_isa isa) {
    static const char *const names[MR_ISA_COUNT] = {"c", "avx2", "avx512"};
    return names[isa];
}

void mr_kernels_init(mr_kernels *kernels, mr_isa max_isa) {
    mr_isa here = mr_isa_detect(), isa = here < max_isa ? here : max_isa;
    mr_kernels_fill_preprocess_c(kernels);
    mr_kernels_fill_vector_c(kernels);
    mr_kernels_fill_classical_c(kernels);
    if (isa >= MR_ISA_AVX2) {
        mr_kernels_fill_preprocess_avx2(kernels);
        mr_kernels_fill_vector_avx2(kernels);
        mr_kernels_fill_classical_avx2(kernels);
    }
    if (isa >= MR_ISA_AVX512)
        mr_kernels_fill_preprocess_avx512(kernels);
    kernels->isa = isa;
    for (int step = 0; step < MR_KERNEL_STEPS; step++)
        kernels->step[step] = isa;
}

/* Whether a person has said which variants there are to be. */
static bool is_named(mr_isa *isa) {
    const char *name = getenv("MILLRACE_KERNELS");
    for (int i = 0; name && i < MR_ISA_COUNT; i++)
        if (strcmp(name, mr_isa_name((mr_isa)i)) == 0) {
            *isa = (mr_isa)i;
            return true;
        }
    if (name && *name)
        mr_log(MR_LOG_WARNING, "MILLRACE_KERNELS is \"%s\", which is not c, avx2 or avx512: the fastest are used", name);
    return false;
}

static int64_t now_ns(void) {
    return mr_clock_now_ns(mr_clock_real());
}

static void fill_best(void) {
    mr_isa named = MR_ISA_AVX512;
    bool fixed = is_named(&named);
    mr_kernels_init(&best, named);
    if (fixed || best.isa < MR_ISA_AVX512)
        return;
    mr_kernels narrow;
    mr_kernels_init(&narrow, MR_ISA_AVX2);
    mr_kernels_choose(&best, &narrow, now_ns);
}

const char *mr_kernel_step_name(mr_kernel_step step) {
    static const char *const names[MR_KERNEL_STEPS] = {"vertical", "horizontal", "colour"};
    return names[step];
}

const char *mr_kernels_describe(const mr_kernels *kernels, char *text, size_t bytes) {
    int length = snprintf(text, bytes, "%s", mr_isa_name(kernels->isa));
    const char *before = " (";
    for (int step = 0; step < MR_KERNEL_STEPS && length < (int)bytes; step++) {
        if (kernels->step[step] == kernels->isa)
            continue;
        length += snprintf(text + length, bytes - (size_t)length, "%s%s %s", before,
                           mr_kernel_step_name((mr_kernel_step)step), mr_isa_name(kernels->step[step]));
        before = ", ";
    }
    if (*before == ',' && length < (int)bytes)
        snprintf(text + length, bytes - (size_t)length, ")");
    return text;
}

const mr_kernels *mr_kernels_get(void) {
    pthread_once(&once, fill_best);
    return &best;
}
