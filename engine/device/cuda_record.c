/* Events of CUDA devices. */
#include <sys/prctl.h>
#include <time.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/device/cuda_device.h"

enum { POLL_NS = 20000, SLACK_NS = 1000, WAITED_START = 4 };

/* ---- what was waited for ----------------------------------------------------------------------------------------- */

int mr_cuda_widen_waited(cuda_waited *list) {
    size_t capacity = list->capacity ? 2 * list->capacity : WAITED_START;
    mr_event **grown = mr_realloc(list->event, capacity * sizeof(mr_event *));
    if (!grown)
        return mr_fail(MR_ERROR_MEMORY, "no memory to wait for an event");
    list->event = grown;
    list->capacity = capacity;
    return MR_OK;
}

static int keep_waited(cuda_waited *list, mr_event *event) {
    int status = list->count == list->capacity ? mr_cuda_widen_waited(list) : MR_OK;
    if (!status)
        list->event[list->count++] = mr_event_ref(event);
    return status;
}

void mr_cuda_forget_waited(cuda_waited *list) {
    while (list->count)
        mr_event_unref(&list->event[--list->count]);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static int make_record(const cuda_device *self, cuda_record **record) {
    cuda_record *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "%s: no memory for a record", self->device.name);
    int status = mr_cuda_widen_waited(&made->waited);
    cudaError_t error = status ? cudaSuccess : cudaEventCreateWithFlags(&made->point, cudaEventDisableTiming);
    if (error)
        status = mr_cuda_failed(&self->device, error, "create an event");
    if (!status) {
        *record = made;
        return MR_OK;
    }
    mr_free(made->waited.event);
    mr_free(made);
    return status;
}

static int take_record(cuda_device *self, cuda_record **taken) {
    pthread_mutex_lock(&self->lock);
    *taken = self->unused_records;
    if (*taken)
        self->unused_records = (*taken)->next;
    pthread_mutex_unlock(&self->lock);
    return *taken ? MR_OK : make_record(self, taken);
}

/* Called with the lock. */
static void recycle_record(cuda_device *self, cuda_record *gone) {
    gone->next = self->unused_records;
    self->unused_records = gone;
}

int mr_cuda_reserve_records(cuda_device *self, int count) {
    int status = MR_OK;
    for (int i = 0; i < count && !status; i++) {
        cuda_record *made;
        status = make_record(self, &made);
        pthread_mutex_lock(&self->lock);
        if (!status)
            recycle_record(self, made);
        pthread_mutex_unlock(&self->lock);
    }
    return status;
}

/* Hands over to the record what has happened on the stream since the one before. */
static void fill_record(cuda_record *to, cuda_stream *stream, mr_event *event) {
    cuda_waited empty = to->waited;
    *to = (cuda_record){.point = to->point,
                   .stream = stream,
                   .event = mr_event_ref(event),
                   .work = stream->work,
                   .waited = stream->waited,
                   .status = stream->status};
    stream->work = NULL;
    stream->waited = empty;
    stream->status = MR_OK;
}

/* What was put off and cannot be launched fails the next event: others may have been launched before it. */
static int flush(cuda_stream *self) {
    int status = mr_cuda_use(self->stream.device);
    if (status)
        return status;
    status = mr_cuda_flush(self);
    if (status) {
        mr_log(MR_LOG_ERROR, "%s", mr_message());
        self->status = status;
    }
    return MR_OK;
}

int mr_cuda_record(mr_stream *stream, mr_event *event) {
    cuda_stream *self = (cuda_stream *)stream;
    cuda_device *device = (cuda_device *)stream->device;
    cuda_record *made;
    int status = flush(self);
    if (!status)
        status = take_record(device, &made);
    if (status)
        return status;
    mr_cuda_trace_end(&self->piece, stream, self->handle);
    cudaError_t error = cudaEventRecord(made->point, self->handle);
    pthread_mutex_lock(&device->lock);
    if (error) {
        recycle_record(device, made);
    } else {
        fill_record(made, self, event);
        mr_event_set_point(event, made);
        self->pending++;
        *device->arrived_end = made;
        device->arrived_end = &made->next;
        if (device->asleep)
            pthread_cond_broadcast(&device->changed);
    }
    pthread_mutex_unlock(&device->lock);
    return error ? mr_cuda_failed(stream->device, error, "record an event") : MR_OK;
}

/* Whose thread tells the event; what is of no CUDA device is done before anybody could wait for it here. */
static cuda_device *teller_of(const mr_event *event, mr_stream *stream) {
    mr_device *device = mr_event_device(event);
    return (cuda_device *)(device->type == stream->device->type ? device : stream->device);
}

/* An event that is not done keeps its CUDA event while the lock of its device is held. */
static int wait_for_pending(cuda_stream *self, mr_event *event) {
    const mr_device *device = self->stream.device;
    const cuda_record *found = mr_event_point(event);
    if (!found)
        return mr_fail(MR_ERROR_INTERNAL, "%s: told to wait for an event that is neither done nor recorded",
                       device->name);
    int status = keep_waited(&self->waited, event);
    if (status)
        return status;
    cudaError_t error = cudaStreamWaitEvent(self->handle, found->point, 0);
    return error ? mr_cuda_failed(device, error, "wait for an event") : MR_OK;
}

int mr_cuda_wait(mr_stream *stream, mr_event *event) {
    cuda_stream *self = (cuda_stream *)stream;
    cuda_device *teller = teller_of(event, stream);
    int status = flush(self);
    if (status)
        return status;
    mr_cuda_trace_end(&self->piece, stream, self->handle);
    pthread_mutex_lock(&teller->lock);
    if (!mr_event_done(event))
        status = wait_for_pending(self, event);
    else if (mr_event_status(event))
        self->status = mr_event_status(event);
    pthread_mutex_unlock(&teller->lock);
    return status;
}

/* ---- the thread that asks --------------------------------------------------------------------------------------- */

/* What the runtime says of work that failed is heard here only. */
static int tell_failure(cuda_device *self, const cuda_record *asked, cudaError_t error) {
    const mr_stage *stage = mr_event_stage(asked->event);
    int status = mr_cuda_failed(&self->device, error, "go on");
    mr_log(self->told ? MR_LOG_DEBUG : MR_LOG_ERROR, "%s: work%s%s failed: %s", self->device.name, stage ? " of " : "",
           stage ? stage->id : "", cudaGetErrorString(error));
    self->told = true;
    return status;
}

/* Whether events of other streams are still to be told before this one, since their status counts: until then there is
 * no need to ask for it. */
static bool is_behind_others(const cuda_record *record) {
    for (size_t i = 0; i < record->waited.count; i++)
        if (!mr_event_done(record->waited.event[i]))
            return true;
    return false;
}

static bool reached(cuda_device *self, cuda_record *asked) {
    cudaError_t error = cudaEventQuery(asked->point);
    if (error == cudaErrorNotReady)
        return false;
    if (error)
        asked->status = tell_failure(self, asked, error);
    return true;
}

static int status_of(cuda_record *done) {
    int status = mr_cuda_finish_work(&done->work);
    for (size_t i = 0; i < done->waited.count && !status; i++)
        status = mr_event_status(done->waited.event[i]);
    return done->status ? done->status : status;
}

/* Adds what has arrived to the queues of its streams. */
static void sort_in(cuda_device *self, cuda_record *arrived) {
    while (arrived) {
        cuda_record *next = arrived->next;
        cuda_stream *stream = arrived->stream;
        arrived->next = NULL;
        if (stream->first) {
            stream->last->next = arrived;
        } else {
            stream->first = arrived;
            stream->next_busy = self->busy;
            self->busy = stream;
        }
        stream->last = arrived;
        arrived = next;
    }
}

/* Tells what a stream has reached, and adds it to a list. */
static void tell_reached(cuda_device *self, cuda_stream *stream, cuda_record **told) {
    while (stream->first && !stream->asked && !is_behind_others(stream->first)) {
        cuda_record *oldest = stream->first;
        stream->asked = !reached(self, oldest);
        if (stream->asked)
            return;
        stream->first = oldest->next;
        mr_event_complete(oldest->event, status_of(oldest));
        oldest->next = *told;
        *told = oldest;
    }
}

/* Those of whom nothing is left are busy no more: they may be destroyed once what was told is recycled. */
static void forget_idle(cuda_device *self) {
    for (cuda_stream **link = &self->busy; *link;) {
        cuda_stream *stream = *link;
        stream->asked = false;
        if (stream->first)
            link = &stream->next_busy;
        else
            *link = stream->next_busy;
    }
}

/* What one stream has reached may be what another waits for, which is therefore looked at again; but none is asked again
 * that was not there yet. Returns what was told. */
static cuda_record *ask_all(cuda_device *self) {
    cuda_record *told = NULL, *before;
    do {
        before = told;
        for (cuda_stream *stream = self->busy; stream; stream = stream->next_busy)
            tell_reached(self, stream, &told);
    } while (told != before);
    forget_idle(self);
    return told;
}

/* With the lock. Their events are done, so that nobody looks for what stands for them any more. */
static void recycle_told(cuda_device *self, cuda_record *told) {
    while (told) {
        cuda_record *next = told->next;
        told->stream->pending--;
        mr_event_set_point(told->event, NULL);
        mr_event_unref(&told->event);
        mr_cuda_forget_waited(&told->waited);
        mr_cuda_recycle_work(self, &told->work);
        recycle_record(self, told);
        told = next;
    }
    pthread_cond_broadcast(&self->changed);
}

/* One round; with the lock, which is given up meanwhile. */
static void ask_once(cuda_device *self) {
    cuda_record *arrived = self->arrived;
    self->arrived = NULL;
    self->arrived_end = &self->arrived;
    pthread_mutex_unlock(&self->lock);
    sort_in(self, arrived);
    cuda_record *told = ask_all(self);
    if (!told)
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    pthread_mutex_lock(&self->lock);
    if (told)
        recycle_told(self, told);
}

void *mr_cuda_ask(void *context) {
    cuda_device *self = context;
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    mr_cuda_use(&self->device);
    pthread_mutex_lock(&self->lock);
    while (!self->ending) {
        self->asleep = !self->arrived && !self->busy;
        if (self->asleep)
            pthread_cond_wait(&self->changed, &self->lock);
        else
            ask_once(self);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}
