/* Detection heads on a CUDA device: all families but DB, equal to the processor's bit for bit.
 *
 * Launches only: does not wait or allocate. `stream` must be a cudaStream_t on the calling thread's current device, and
 * that device must be able to read and write all pointers. Errors: MR_ERROR_DEVICE. */
#pragma once

#include "engine/device/cuda/cuda_launch.h"
#include "kernels/detect/detect.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MR_DETECT_CUDA_CLASSES = 4096,  /* that can be selected */
    MR_DETECT_CUDA_MOST = 1 << 24,  /* candidates of a head */
    MR_DETECT_CUDA_LAUNCHES = 3,
    MR_DETECT_CUDA_COUNTERS = 64    /* bytes */
};

typedef struct mr_detect_cuda_work {
    mr_box_head head;
    const void *data[MR_BOX_HEAD_MOST_OUTPUTS];
    float limit, score; /* of raw numbers (mr_box_raw_limit), and of scores */
    float overlap;      /* INFINITY: nothing is suppressed */
    int32_t most;
    mr_found *found;
    bool filtered;      /* only `wanted` classes; a bit for each */
    uint32_t wanted[MR_DETECT_CUDA_CLASSES / 32];
} mr_detect_cuda_work;

/* Bytes of scratch memory for a head. */
size_t mr_detect_cuda_scratch(const mr_box_head *head, int32_t most);
MR_CUDA_ONLY int mr_detect_cuda(const mr_detect_cuda_work *work, void *scratch, void *stream);

#ifdef __cplusplus
}
#endif
