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

static cuda_record *pending_record_of(const cuda_device *self, const mr_event *event) {
    for (cuda_record *found = self->pending; found; found = found->next)
        if (found->event == event)
            return found;
    return NULL;
}

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
        self->pending++;
        cuda_record **end = &device->pending;
        while (*end)
            end = &(*end)->next;
        *end = made;
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
static int wait_for_pending(const cuda_device *teller, cuda_stream *self, mr_event *event) {
    const mr_device *device = self->stream.device;
    const cuda_record *found = pending_record_of(teller, event);
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
        status = wait_for_pending(teller, self, event);
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

/* True once a record can be told. Events that its stream waited for are told first, since their status counts. */
static bool reached(cuda_device *self, cuda_record *asked) {
    cudaError_t error = cudaEventQuery(asked->point);
    if (error == cudaErrorNotReady)
        return false;
    if (error)
        asked->status = tell_failure(self, asked, error);
    for (size_t i = 0; i < asked->waited.count && !error; i++)
        if (!mr_event_done(asked->waited.event[i]))
            return false;
    return true;
}

static int status_of(cuda_device *self, cuda_record *done) {
    int status = mr_cuda_recycle_work(self, &done->work);
    if (done->status)
        return done->status;
    for (size_t i = 0; i < done->waited.count && !status; i++)
        if (mr_event_done(done->waited.event[i]))
            status = mr_event_status(done->waited.event[i]);
    return status;
}

/* Tells one record; called with the lock, which is given up meanwhile. The record stays in the list until its event is
 * done, so that whoever waits for the event finds the one or the other. */
static void tell(cuda_device *self, cuda_record *done) {
    int status = status_of(self, done);
    pthread_mutex_unlock(&self->lock);
    mr_event_complete(done->event, status);
    pthread_mutex_lock(&self->lock);
    cuda_record **link = &self->pending;
    while (*link != done)
        link = &(*link)->next;
    *link = done->next;
    done->stream->pending--;
    mr_event_unref(&done->event);
    mr_cuda_forget_waited(&done->waited);
    recycle_record(self, done);
    pthread_cond_broadcast(&self->changed);
}

static void nap(cuda_device *self) {
    pthread_mutex_unlock(&self->lock);
    nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    pthread_mutex_lock(&self->lock);
}

void *mr_cuda_ask(void *context) {
    cuda_device *self = context;
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    mr_cuda_use(&self->device);
    pthread_mutex_lock(&self->lock);
    while (!self->ending) {
        cuda_record *done = self->pending;
        while (done && !reached(self, done))
            done = done->next;
        if (done)
            tell(self, done);
        else if (self->pending)
            nap(self);
        else
            pthread_cond_wait(&self->changed, &self->lock);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}
