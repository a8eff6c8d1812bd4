#include <string.h>

#include "engine/device/cuda/cuda.h"
#include "kernels/classical/classical.h"
#include "kernels/classical/classical_cuda.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

static int run_histogram(void *arguments) {
    const mr_histogram_work *work = arguments;
    int status = MR_OK;
    for (int i = 0; i < work->count && !status; i++)
        status = mr_histogram(&work->params, work->src[i], work->dst[i]);
    return status;
}

static int run_hog(void *arguments) {
    const mr_hog_work *work = arguments;
    void *scratch = mr_scratch(mr_hog_scratch_bytes(work->hog));
    if (!scratch)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory for gradients");
    for (int i = 0; i < work->count; i++)
        mr_hog_run(work->hog, mr_classical_rows_get(), work->src[i], work->dst[i], scratch);
    return MR_OK;
}

static int run_phash(void *arguments) {
    const mr_phash_work *work = arguments;
    for (int i = 0; i < work->count; i++) {
        uint8_t hash[MR_HASH_BYTES];
        mr_phash(work->src[i], work->bits ? hash : work->dst[i]);
        for (int bit = 0; bit < 8 * MR_HASH_BYTES && work->bits; bit++)
            ((float *)work->dst[i])[bit] = (float)(hash[bit / 8] >> (7 - bit % 8) & 1);
    }
    return MR_OK;
}

static int run_sharpness(void *arguments) {
    const mr_sharpness_work *work = arguments;
    for (int i = 0; i < work->count; i++)
        mr_sharpness(mr_classical_rows_get(), &work->item[i]);
    return MR_OK;
}

static int run_change(void *arguments) {
    mr_change(mr_classical_rows_get(), arguments);
    return MR_OK;
}

/* On a CUDA device work is launched, as `calls` launches, and can use `bytes` bytes of stream memory; elsewhere it is
 * submitted. */
#define ENQUEUE(name, bytes, calls, arguments)                                                                         \
    typedef struct name##_launch {                                                                                     \
        mr_##name##_work work;                                                                                         \
        void *scratch;                                                                                                 \
    } name##_launch;                                                                                                   \
    static int launch_##name(const void *given, void *handle) {                                                        \
        const name##_launch *a = given;                                                                                \
        return mr_##name##_cuda arguments;                                                                             \
    }                                                                                                                  \
    int mr_##name##_enqueue(mr_stream *stream, const mr_##name##_work *work) {                                         \
        if (!mr_stream_is_cuda(stream))                                                                                \
            return mr_stream_submit(stream, run_##name, work, sizeof *work);                                           \
        name##_launch a = {.work = *work};                                                                             \
        size_t scratch_bytes = bytes;                                                                                  \
        int status = scratch_bytes ? mr_cuda_scratch(stream, scratch_bytes, &a.scratch) : MR_OK;                       \
        return status ? status : mr_cuda_launch(stream, launch_##name, &a, sizeof a, calls);                           \
    }

ENQUEUE(histogram, mr_histogram_cuda_scratch_bytes(work), 3, (&a->work, a->scratch, handle))
ENQUEUE(phash, 0, 1, (&a->work, handle))
ENQUEUE(sharpness, mr_sharpness_cuda_scratch_bytes(work), 3, (&a->work, a->scratch, handle))
ENQUEUE(change, 0, 2, (&a->work, handle))
#undef ENQUEUE

/* Copies the layout, since another may later be at the same address. */
typedef struct hog_launch {
    mr_hog_work work;
    mr_hog_layout layout;
} hog_launch;

static int launch_hog(const void *arguments, void *handle) {
    const hog_launch *a = arguments;
    return mr_hog_cuda(&a->layout, &a->work, handle);
}

int mr_hog_enqueue(mr_stream *stream, const mr_hog_work *work) {
    if (!mr_stream_is_cuda(stream))
        return mr_stream_submit(stream, run_hog, work, sizeof *work);
    hog_launch a;
    memcpy(&a.work, work, sizeof a.work);
    memcpy(&a.layout, mr_hog_layout_of(work->hog), sizeof a.layout);
    return mr_cuda_launch(stream, launch_hog, &a, sizeof a, 1);
}
