#include "engine/device/device.h"
#include "kernels/vector.h"

#define ENQUEUE(name)                                                                                                  \
    static int run_##name(void *arguments) {                                                                           \
        mr_##name(arguments);                                                                                          \
        return MR_OK;                                                                                                  \
    }

ENQUEUE(linear)
ENQUEUE(top_k)
ENQUEUE(normalize)
ENQUEUE(pool_mean)
#undef ENQUEUE

int mr_linear_enqueue(mr_stream *stream, const mr_linear_work *work) {
    return mr_stream_submit(stream, run_linear, work, sizeof *work);
}

int mr_top_k_enqueue(mr_stream *stream, const mr_top_k_work *work) {
    return mr_stream_submit(stream, run_top_k, work, sizeof *work);
}

int mr_normalize_enqueue(mr_stream *stream, const mr_normalize_work *work) {
    return mr_stream_submit(stream, run_normalize, work, sizeof *work);
}

int mr_pool_mean_enqueue(mr_stream *stream, const mr_pool_work *work) {
    return mr_stream_submit(stream, run_pool_mean, work, sizeof *work);
}
