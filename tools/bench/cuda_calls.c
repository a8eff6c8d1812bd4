#include "tools/bench/cuda_calls.h"

#include <cuda_runtime_api.h>
#include <stdatomic.h>

#define X(name, parameters, arguments)                                                                                 \
    cudaError_t __real_##name parameters;                                                                              \
    cudaError_t __wrap_##name parameters;                                                                              \
    static _Atomic uint64_t count_##name;                                                                              \
    cudaError_t __wrap_##name parameters {                                                                             \
        atomic_fetch_add(&count_##name, 1);                                                                            \
        return __real_##name arguments;                                                                                \
    }
CUDA_CALLS(X)
#undef X

void cuda_calls_so_far(cuda_calls *told) {
    *told = (cuda_calls){0};
#define X(call, parameters, arguments)                                                                                 \
    told->name[told->count] = #call;                                                                                   \
    told->calls[told->count++] = atomic_load(&count_##call);
    CUDA_CALLS(X)
#undef X
}
