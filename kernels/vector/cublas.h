/* cuBLAS, opened at run time. Linked statically, it would be many times larger than the rest of millrace. Linked
 * dynamically, the program could not start without it, and few machines that only run pipelines have it. The few
 * functions needed have had the same signatures since version 4, so no headers are needed either. */
#pragma once

#include <stdbool.h>

#include "kernels/vector/vector.h"

/* Whether the library was found: MILLRACE_CUBLAS, a path, or else libcublas.so.13 or .12 where the loader, pip or the
 * toolkit puts it (mr_nvidia_find). Searches once; if it is missing, logs that once. Any thread. */
bool mr_cublas_found(void);

/* Bytes of a call's workspace in device memory, by NVIDIA's advice for a compute capability (90: 9.0). */
static inline size_t mr_cublas_workspace_bytes(int capability) {
    return capability >= 90 ? (size_t)32 << 20 : (size_t)4 << 20;
}

/* dst = src times the transposed weights, plus `keep` times dst, by cublasSgemm in pedantic mode: single precision
 * throughout, never TF32. `device` must be the thread's current device, `stream` one of its cudaStream_t, and
 * `workspace` memory that only this stream's work uses. One handle is kept for each device, made at the first call. The
 * library must have been found. MR_ERROR_DEVICE. */
int mr_cublas_linear(const mr_linear_work *work, float keep, int device, void *workspace, size_t workspace_bytes,
                     void *stream);
