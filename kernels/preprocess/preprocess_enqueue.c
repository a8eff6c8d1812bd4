#include "kernels/preprocess/preprocess_enqueue.h"

#include <stddef.h>

#include "engine/device/cuda/cuda.h"
#include "kernels/preprocess/preprocess_cuda.h"
#include "kernels/preprocess/preprocess_plan.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

static void run_with(const mr_preprocess_work *work, void *scratch) {
    const mr_preprocess_rows *rows = mr_preprocess_rows_get();
    if (work->bars && *work->bars == work->plan->number)
        mr_preprocess_run_inside(work->plan, rows, &work->source, work->dst, scratch);
    else
        mr_preprocess_run(work->plan, rows, &work->source, work->dst, scratch);
    if (work->bars)
        *work->bars = work->plan->number;
}

static int run_work(void *arguments) {
    const mr_preprocess_work *work = arguments;
    void *scratch = mr_scratch(mr_preprocess_scratch_bytes(work->plan));
    if (scratch)
        run_with(work, scratch);
    if (work->done)
        work->done(work->context);
    return scratch ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no scratch memory for preprocessing");
}

/* How many works, from the first on, have one plan and fit a launch. */
static int count_alike(const mr_preprocess_work *works, int count) {
    int alike = 1;
    while (alike < count && alike < MR_PREPROCESS_LAUNCH && works[alike].plan == works[0].plan)
        alike++;
    return alike;
}

typedef struct launch_arguments {
    mr_preprocess_grid grid;
    size_t count;
    mr_preprocess_work works[MR_PREPROCESS_LAUNCH];
} launch_arguments;

static int launch(const void *arguments, void *handle) {
    const launch_arguments *a = arguments;
    return mr_preprocess_cuda(&a->grid, a->works, (int)a->count, handle);
}

static int enqueue_alike(mr_stream *stream, const mr_preprocess_work *works, int count) {
    launch_arguments a;
    int status = mr_preprocess_place(works->plan, stream, &a.grid);
    a.count = (size_t)count;
    for (int i = 0; i < count; i++)
        a.works[i] = (mr_preprocess_work){.source = works[i].source, .dst = works[i].dst};
    size_t bytes = offsetof(launch_arguments, works) + (size_t)count * sizeof a.works[0];
    if (!status)
        status = mr_cuda_launch(stream, launch, &a, bytes, 1);
    for (int i = 0; i < count && !status; i++)
        if (works[i].done)
            status = mr_cuda_after(stream, works[i].done, works[i].context);
    return status;
}

/* A device works later, when others may have changed dst and the mark. */
static int submit(mr_stream *stream, const mr_preprocess_work *work) {
    mr_preprocess_work own = *work;
    if (stream->device->type->kind != MR_DEVICE_CPU)
        own.bars = NULL;
    return mr_stream_submit(stream, run_work, &own, sizeof own);
}

int mr_preprocess_enqueue(mr_stream *stream, const mr_preprocess_work *works, int count) {
    bool cuda = mr_stream_is_cuda(stream);
    int status = MR_OK;
    for (int i = 0, next; i < count && !status; i = next) {
        next = i + (cuda ? count_alike(works + i, count - i) : 1);
        /* A simulated device treats the works as one if a GPU would do them in one launch. */
        stream->joined = i > 0;
        status = cuda ? enqueue_alike(stream, works + i, next - i)
                      : submit(stream, &works[i]);
    }
    stream->joined = false;
    return status;
}
