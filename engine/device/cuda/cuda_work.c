#include "engine/device/cuda/cuda_work.h"

#include "engine/base/memory.h"
#include "engine/device/cuda/cuda_after.h"
#include "millrace/status.h"

static cuda_work *take_work(cuda_device *self) {
    pthread_mutex_lock(&self->lock);
    cuda_work *taken = self->unused_work;
    if (taken)
        self->unused_work = taken->next;
    pthread_mutex_unlock(&self->lock);
    return taken ? taken : mr_alloc(sizeof *taken);
}

/* The newest is put in front; the oldest is reported first. */
static void reverse(cuda_work **list) {
    cuda_work *reversed = NULL;
    while (*list) {
        cuda_work *moved = *list;
        *list = moved->next;
        moved->next = reversed;
        reversed = moved;
    }
    *list = reversed;
}

int mr_cuda_finish_work(cuda_work **list) {
    int status = MR_OK;
    reverse(list);
    for (const cuda_work *done = *list; done; done = done->next) {
        int its_status = atomic_load_explicit(&done->status, memory_order_acquire);
        status = its_status ? its_status : status;
        if (done->after)
            done->after(done->context);
    }
    return status;
}

void mr_cuda_recycle_work(cuda_device *self, cuda_work **list) {
    while (*list) {
        cuda_work *gone = *list;
        *list = gone->next;
        gone->next = self->unused_work;
        self->unused_work = gone;
    }
}

cuda_work *mr_cuda_add_work(cuda_stream *stream) {
    cuda_work *added = take_work((cuda_device *)stream->stream.device);
    if (!added) {
        mr_fail(MR_ERROR_MEMORY, "%s: no memory for work", stream->stream.device->name);
        return NULL;
    }
    added->after = NULL;
    atomic_store_explicit(&added->status, MR_OK, memory_order_relaxed);
    added->next = stream->work;
    stream->work = added;
    return added;
}

int mr_cuda_after(mr_stream *stream, void (*function)(void *context), void *context) {
    cuda_work *added = mr_cuda_add_work((cuda_stream *)stream);
    if (!added)
        return MR_ERROR_MEMORY;
    added->after = function;
    added->context = context;
    return MR_OK;
}
