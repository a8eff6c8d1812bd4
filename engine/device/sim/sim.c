/* The simulated accelerator: streams with work that runs later, in order. Its memory is the host's, but checked
 * (sim_memory.c). sim_order.c tracks the order between streams, sim_run.c runs the work. */
#include "engine/device/sim/sim.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/sim/sim_memory.h"
#include "engine/device/sim/sim_order.h"
#include "millrace/status.h"

/* ---- calls that can fail --------------------------------------------------------------------------------------- */

/* Counts a call and says whether it fails: MR_ERROR_DEVICE, or `otherwise`. */
static int enter(sim_device *self, int otherwise) {
    const mr_sim_params *p = &self->params;
    pthread_mutex_lock(&self->lock);
    int64_t number = ++self->call_count;
    self->lost = self->lost || (p->lose_call && number >= p->lose_call);
    bool lost = self->lost;
    pthread_mutex_unlock(&self->lock);
    if (lost)
        return mr_fail(MR_ERROR_DEVICE, "%s: the device is lost", self->device.name);
    return p->fail_call && number == p->fail_call ? mr_fail(otherwise, "%s: simulated failure", self->device.name)
                                                  : MR_OK;
}

int64_t mr_sim_calls(mr_device *device) {
    sim_device *self = (sim_device *)device;
    MR_LOCKED(&self->lock);
    return self->call_count;
}

static int sim_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data) {
    sim_device *self = (sim_device *)device;
    *data = NULL;
    int status = enter(self, MR_ERROR_MEMORY);
    if (status)
        return status;
    pthread_mutex_lock(&self->lock);
    bool fails = self->params.fail_allocation && ++self->allocation_count == self->params.fail_allocation;
    pthread_mutex_unlock(&self->lock);
    return fails ? mr_fail(MR_ERROR_MEMORY, "%s: no memory for %zu bytes", device->name, bytes)
                 : mr_sim_allocate(self, memory, bytes, data);
}

static void sim_free(mr_device *device, mr_memory memory, void *data) {
    mr_sim_free((sim_device *)device, memory, data);
}

/* ---- streams --------------------------------------------------------------------------------------------------- */

static int sim_stream_create(mr_device *device, mr_stream **stream) {
    sim_device *self = (sim_device *)device;
    int status = enter(self, MR_ERROR_DEVICE);
    if (status)
        return status;
    sim_stream *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a stream");
    made->stream.device = device;
    mr_sim_lock();
    mr_sim_order_add(made);
    mr_sim_unlock();
    pthread_mutex_lock(&self->lock);
    made->next = self->streams;
    self->streams = made;
    pthread_mutex_unlock(&self->lock);
    *stream = &made->stream;
    return MR_OK;
}

static void finish_stream(sim_device *self, sim_stream *stream) {
    if (self->params.manual)
        while (stream->head) {
            pthread_mutex_unlock(&self->lock);
            mr_sim_advance(&self->device, INT64_MAX);
            pthread_mutex_lock(&self->lock);
        }
    while (stream->head || stream->busy)
        pthread_cond_wait(&self->changed, &self->lock);
}

static void sim_stream_destroy(mr_stream *stream) {
    sim_device *self = (sim_device *)stream->device;
    sim_stream *gone = (sim_stream *)stream;
    pthread_mutex_lock(&self->lock);
    finish_stream(self, gone);
    sim_stream **link = &self->streams;
    while (*link != gone)
        link = &(*link)->next;
    *link = gone->next;
    pthread_mutex_unlock(&self->lock);
    mr_sim_lock();
    mr_sim_order_remove(gone);
    mr_sim_unlock();
    mr_free(gone);
}

/* ---- adding to a stream ---------------------------------------------------------------------------------------- */

/* An item for a stream, not yet in it; NULL if there is no memory. It holds a reference to `event`. */
static sim_item *make_item(mr_stream *stream, sim_kind kind, mr_event *event) {
    sim_device *self = (sim_device *)stream->device;
    pthread_mutex_lock(&self->lock);
    sim_item *made = self->unused;
    if (made)
        self->unused = made->next;
    pthread_mutex_unlock(&self->lock);
    if (!made && !(made = mr_alloc(sizeof *made))) {
        mr_fail(MR_ERROR_MEMORY, "%s: no memory for work", self->device.name);
        return NULL;
    }
    made->kind = kind;
    made->stream = (sim_stream *)stream;
    made->stage = stream->stage;
    made->frame = stream->frame;
    made->joined = stream->joined;
    made->event = event ? mr_event_ref(event) : NULL;
    made->submitted_ns = self->timed && !self->params.manual ? mr_now_ns() : 0;
    made->due_ns = -1;
    made->touch_count = made->touched_bytes = made->copied_bytes = 0;
    made->wait = (mr_event_wait){0};
    made->arrived = false;
    made->next = NULL;
    return made;
}

static void append(sim_item *added) {
    sim_stream *stream = added->stream;
    sim_device *self = (sim_device *)stream->stream.device;
    MR_LOCKED(&self->lock);
    if (stream->tail)
        stream->tail->next = added;
    else
        stream->head = added;
    stream->tail = added;
    pthread_cond_broadcast(&self->changed);
}

/* Appends work whose memory was checked, or fails with the `status` of the check. */
static int append_work(sim_item *work, int status) {
    sim_device *self = (sim_device *)work->stream->stream.device;
    if (status) {
        pthread_mutex_lock(&self->lock);
        mr_sim_recycle(self, work);
        pthread_mutex_unlock(&self->lock);
        return status;
    }
    mr_sim_lock();
    work->tick = mr_sim_order_submit(work->stream);
    mr_sim_unlock();
    append(work);
    return MR_OK;
}

static int sim_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes) {
    int status = enter((sim_device *)stream->device, MR_ERROR_DEVICE);
    sim_item *work = status ? NULL : make_item(stream, SIM_WORK, NULL);
    if (!work)
        return status ? status : MR_ERROR_MEMORY;
    work->function = function;
    if (bytes)
        memcpy(work->u.arguments, arguments, bytes);
    return append_work(work, mr_sim_touch_arguments(work, work->u.arguments, bytes));
}

static int sim_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                         size_t bytes, size_t rows) {
    const mr_rows_copy arguments = {to, from, to_stride, from_stride, bytes, rows};
    int status = enter((sim_device *)stream->device, MR_ERROR_DEVICE);
    sim_item *work = status ? NULL : make_item(stream, SIM_WORK, NULL);
    if (!work)
        return status ? status : MR_ERROR_MEMORY;
    work->function = mr_rows_copy_run;
    memcpy(work->u.arguments, &arguments, sizeof arguments);
    return append_work(work, mr_sim_touch_copy(work, to, to_stride, from, from_stride, bytes, rows));
}

static int sim_record(mr_stream *stream, mr_event *event) {
    int status = enter((sim_device *)stream->device, MR_ERROR_DEVICE);
    sim_item *record = status ? NULL : make_item(stream, SIM_RECORD, event);
    if (!record)
        return status ? status : MR_ERROR_MEMORY;
    mr_sim_lock();
    mr_sim_order_record(record);
    mr_sim_unlock();
    append(record);
    return MR_OK;
}

/* The event that a WAIT waits for is done. The item stays in its stream until this was called, so it and the device
 * exist. */
static void arrive(void *context) {
    sim_item *wait = context;
    sim_device *self = (sim_device *)wait->stream->stream.device;
    MR_LOCKED(&self->lock);
    wait->arrived = true;
    pthread_cond_broadcast(&self->changed);
}

static int sim_wait(mr_stream *stream, mr_event *event) {
    int status = enter((sim_device *)stream->device, MR_ERROR_DEVICE);
    sim_item *wait = status ? NULL : make_item(stream, SIM_WAIT, event);
    if (!wait)
        return status ? status : MR_ERROR_MEMORY;
    mr_sim_lock();
    mr_sim_order_wait(wait->stream, event);
    mr_sim_unlock();
    mr_event_notify(event, &wait->wait, arrive, wait);
    append(wait);
    return MR_OK;
}

/* ---- the device ------------------------------------------------------------------------------------------------ */

static void sim_destroy(mr_device *device) {
    sim_device *self = (sim_device *)device;
    if (!self->params.manual) {
        pthread_mutex_lock(&self->lock);
        self->ending = true;
        pthread_cond_broadcast(&self->changed);
        pthread_mutex_unlock(&self->lock);
        pthread_join(self->thread, NULL);
    }
    while (self->unused) {
        sim_item *gone = self->unused;
        self->unused = gone->next;
        mr_free(gone);
    }
    mr_sim_forget_memory(self);
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->lock);
    mr_free(self);
}

static const mr_device_type sim_type = {
    .kind = MR_DEVICE_SIM,
    .allocate = sim_allocate,
    .free = sim_free,
    .stream_create = sim_stream_create,
    .stream_destroy = sim_stream_destroy,
    .submit = sim_submit,
    .copy_rows = sim_copy_rows,
    .record = sim_record,
    .wait = sim_wait,
    .is_pinned = mr_sim_is_pinned,
    .reuse = mr_sim_reuse,
    .host_reads = mr_sim_host_reads,
    .advance = mr_sim_advance,
    .destroy = sim_destroy,
};

static bool has_rates(const mr_sim_params *p) {
    return p->upload_rate || p->download_rate || p->compute_rate || p->call_ns;
}

int mr_sim_create(mr_device **device, const mr_sim_params *params) {
    sim_device *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a simulated device");
    made->device = (mr_device){.type = &sim_type, .index = params->index};
    snprintf(made->device.name, sizeof made->device.name, "sim:%d", params->index);
    made->params = *params;
    made->timed = has_rates(params);
    made->random = params->seed ? params->seed : 1;
    pthread_mutex_init(&made->lock, NULL);
    mr_condition_init(&made->changed);
    const int refused = params->manual ? 0 : mr_thread_create(&made->thread, mr_sim_run, made);
    if (refused) {
        made->params.manual = true; /* There is no thread to join. */
        sim_destroy(&made->device);
        return mr_thread_fail(refused, "the thread of sim:%d", params->index);
    }
    if (!params->manual)
        pthread_setname_np(made->thread, made->device.name);
    *device = &made->device;
    return MR_OK;
}
