#include "engine/device/cuda.h"
#include "kernels/classical.h"
#include "kernels/cuda.h"
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
        mr_hog_run(work->hog, mr_kernels_get(), work->src[i], work->dst[i], scratch);
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
        mr_sharpness(mr_kernels_get(), &work->item[i]);
    return MR_OK;
}

static int run_change(void *arguments) {
    mr_change(mr_kernels_get(), arguments);
    return MR_OK;
}

/* On a CUDA device work is launched, in memory of the stream where `scratch` asks for it, elsewhere it is submitted. */
#define ENQUEUE(name, scratch_bytes, arguments)                                                                        \
    int mr_##name##_enqueue(mr_stream *stream, const mr_##name##_work *work) {                                         \
        void *handle, *scratch = NULL;                                                                                 \
        if (!mr_stream_is_cuda(stream))                                                                                \
            return mr_stream_submit(stream, run_##name, work, sizeof *work);                                           \
        size_t bytes = scratch_bytes;                                                                                  \
        int status = mr_cuda_enter(stream, &handle);                                                                   \
        if (!status && bytes)                                                                                          \
            status = mr_cuda_scratch(stream, bytes, &scratch);                                                         \
        return status ? status : mr_kernels_cuda.name arguments;                                                       \
    }

ENQUEUE(histogram, mr_kernels_cuda.histogram_scratch_bytes(work), (work, scratch, handle))
ENQUEUE(hog, 0, (work, handle))
ENQUEUE(phash, 0, (work, handle))
ENQUEUE(sharpness, mr_kernels_cuda.sharpness_scratch_bytes(work), (work, scratch, handle))
ENQUEUE(change, 0, (work, handle))
#undef ENQUEUE
