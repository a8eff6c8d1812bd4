#include "engine/device/device.h"
#include "kernels/preprocess.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

static int run_work(void *arguments) {
    const mr_preprocess_work *work = arguments;
    void *scratch = mr_scratch(mr_preprocess_scratch_bytes(work->plan));
    if (scratch)
        mr_preprocess_run(work->plan, mr_kernels_get(), &work->source, work->dst, scratch);
    if (work->pending)
        atomic_fetch_sub_explicit(work->pending, 1, memory_order_release);
    return scratch ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no scratch memory for preprocessing");
}

int mr_preprocess_enqueue(mr_stream *stream, const mr_preprocess_work *work) {
    return mr_stream_submit(stream, run_work, work, sizeof *work);
}
