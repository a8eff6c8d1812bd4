#include "engine/device/device.h"
#include "kernels/classical.h"
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

int mr_histogram_enqueue(mr_stream *stream, const mr_histogram_work *work) {
    return mr_stream_submit(stream, run_histogram, work, sizeof *work);
}

int mr_hog_enqueue(mr_stream *stream, const mr_hog_work *work) {
    return mr_stream_submit(stream, run_hog, work, sizeof *work);
}

int mr_phash_enqueue(mr_stream *stream, const mr_phash_work *work) {
    return mr_stream_submit(stream, run_phash, work, sizeof *work);
}

int mr_sharpness_enqueue(mr_stream *stream, const mr_sharpness_work *work) {
    return mr_stream_submit(stream, run_sharpness, work, sizeof *work);
}

int mr_change_enqueue(mr_stream *stream, const mr_change_work *work) {
    return mr_stream_submit(stream, run_change, work, sizeof *work);
}
