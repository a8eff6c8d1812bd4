#include "kernels/isa.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/devices.h"
#include "millrace/log.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#if defined(__x86_64__)
/* Half floats have a separate bit; clang's __builtin_cpu_supports cannot test it. */
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
#elif defined(__aarch64__)
    return MR_ISA_NEON;
#else
    return MR_ISA_C;
#endif
}

const char *mr_isa_name(mr_isa isa) {
    static const char *const names[MR_ISA_COUNT] = {"c", "neon", "avx2", "avx512"};
    return names[isa];
}

mr_isa mr_isa_up_to(mr_isa most) {
    mr_isa here = mr_isa_detect();
    if (here <= most)
        return here;
    return most == MR_ISA_NEON ? MR_ISA_C : most;
}

static mr_isa named;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void read_name(void) {
    const char *name = getenv("MILLRACE_KERNELS");
    int isa = 0;
    while (name && isa < MR_ISA_COUNT && strcmp(name, mr_isa_name((mr_isa)isa)) != 0)
        isa++;
    named = name ? (mr_isa)isa : MR_ISA_COUNT;
    if (name && *name && named == MR_ISA_COUNT)
        mr_log(MR_LOG_WARNING, "MILLRACE_KERNELS is \"%s\", which is not c, neon, avx2 or avx512: the fastest are used",
               name);
    else if (named < MR_ISA_COUNT && (named == MR_ISA_NEON) != (mr_isa_detect() == MR_ISA_NEON) &&
             mr_isa_up_to(named) != named)
        mr_log(MR_LOG_WARNING, "MILLRACE_KERNELS is \"%s\", which this processor lacks: %s is used", name,
               mr_isa_name(mr_isa_up_to(named)));
}

mr_isa mr_isa_named(void) {
    pthread_once(&once, read_name);
    return named;
}

const char *mr_kernel_isa(void) {
    return mr_isa_name(mr_isa_up_to(mr_isa_named()));
}
