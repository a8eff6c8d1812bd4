#include "engine/device/cuda/cuda.h"
#include "kernels/paint/paint_cuda.h"

static int run(void *arguments) {
    return mr_paint(arguments);
}

static int launch(const void *arguments, void *handle) {
    return mr_paint_cuda(arguments, handle);
}

int mr_paint_enqueue(mr_stream *stream, const mr_paint_work *work) {
    if (work->count == 0)
        return MR_OK;
    return mr_stream_is_cuda(stream) ? mr_cuda_launch(stream, launch, work, sizeof *work, 1)
                                     : mr_stream_submit(stream, run, work, sizeof *work);
}
