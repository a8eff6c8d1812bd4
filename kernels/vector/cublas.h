/* cuBLAS, opened at run time. Linked statically, it would be many times larger than the rest of millrace. Linked
 * dynamically, the program could not start without it, and few machines that only run pipelines have it. The functions
 * are few and have had the same signatures since version 4, so the headers are not needed either. */
#pragma once

#include <stdbool.h>

#include "kernels/vector/vector.h"

/* Whether the library is there: MILLRACE_CUBLAS, a path, or else libcublas.so.13 or .12 in the places of the loader,
 * pip or the toolkit (mr_nvidia_find). Searched once; if it is missing, that is logged once. Any thread. */
bool mr_cublas_found(void);

/* Bytes of a call's workspace in device memory, by NVIDIA's advice for a compute capability (90: 9.0). */
static inline size_t mr_cublas_workspace_bytes(int capability) {
    return capability >= 90 ? (size_t)32 << 20 : (size_t)4 << 20;
}

/* dst = src times the transpose of the weights, plus `keep` times dst, by cublasSgemm in pedantic mode: single
 * precision throughout, never TF32. `device` is the index of the thread's current device, `stream` one of its
 * cudaStream_t, and `workspace` memory of workspace_bytes that only work of this stream uses. One handle is kept for
 * each device, made at its first call. Only if the library was found. MR_ERROR_DEVICE. */
int mr_cublas_linear(const mr_linear_work *work, float keep, int device, void *workspace, size_t workspace_bytes,
                     void *stream);
