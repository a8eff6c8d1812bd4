#include "kernels/kernels.h"

#include <stdbool.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

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
