#include "engine/device/cuda.h"
#include "kernels/cuda.h"
#include "kernels/preprocess.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

static int run_work(void *arguments) {
    const mr_preprocess_work *work = arguments;
    void *scratch = mr_scratch(mr_preprocess_scratch_bytes(work->plan));
    if (scratch)
        mr_preprocess_run(work->plan, mr_kernels_get(), &work->source, work->dst, scratch);
    if (work->done)
        work->done(work->context);
    return scratch ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no scratch memory for preprocessing");
}

/* How many of the works, from the first on, are of one plan and fit a launch. */
static int count_alike(const mr_preprocess_work *works, int count) {
    int alike = 1;
    while (alike < count && alike < MR_PREPROCESS_LAUNCH && works[alike].plan == works[0].plan)
        alike++;
    return alike;
}

static int launch(mr_stream *stream, const mr_preprocess_work *works, int count) {
    mr_preprocess_grid grid;
    void *handle;
    int status = mr_preprocess_place(works->plan, stream, &grid);
    if (!status)
        status = mr_cuda_enter(stream, &handle);
    if (!status)
        status = mr_kernels_cuda.preprocess(&grid, works, count, handle);
    for (int i = 0; i < count && !status; i++)
        if (works[i].done)
            status = mr_cuda_after(stream, works[i].done, works[i].context);
    return status;
}

int mr_preprocess_enqueue(mr_stream *stream, const mr_preprocess_work *works, int count) {
    bool cuda = mr_stream_is_cuda(stream);
    int status = MR_OK;
    for (int i = 0, next; i < count && !status; i = next) {
        next = i + (cuda ? count_alike(works + i, count - i) : 1);
        status = cuda ? launch(stream, works + i, next - i) : mr_stream_submit(stream, run_work, &works[i], sizeof works[i]);
    }
    return status;
}
