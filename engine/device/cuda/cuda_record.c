/* CUDA device events, and calls that are handed on.
 *
 * Consecutive stages on a device become one launch series.
 *
 * A call that has only launched kernels leaves them, at the end, in its event's record, and submits nothing to the
 * device. If the next stage's stream must wait for that event, it takes the launches over instead of waiting. It
 * submits both stages' launches, as one graph if they have occurred before, and its event completes both. So one call
 * submits a chain of stages, and one records it.
 *
 * If no stream takes the launches over for a while, the device's thread submits them, on a separate stream and launch
 * by launch. The next calls on the first stream are then not handed on. Only work that is independent of the stream's
 * order can be handed on (mr_stream_hand_on); work in the stream's memory cannot. If the device is traced, each stage's
 * work must be timed separately, and nothing is handed on. */
#include "engine/device/cuda/cuda_record.h"

#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/cuda/cuda_stream.h"
#include "engine/device/cuda/cuda_use.h"
#include "engine/device/cuda/cuda_work.h"
#include "millrace/log.h"

enum { POLL_NS = 20000, SLACK_NS = 1000, EVENTS_START = 4 };

/* ---- lists of events --------------------------------------------------------------------------------------------- */

int mr_cuda_widen_events(cuda_events *list, size_t more) {
    size_t capacity = list->capacity ? list->capacity : EVENTS_START;
    while (capacity < list->count + more)
        capacity *= 2;
    if (capacity == list->capacity)
        return MR_OK;
    mr_event **grown = mr_realloc(list->event, capacity * sizeof(mr_event *));
    if (!grown)
        return mr_fail(MR_ERROR_MEMORY, "no memory to wait for an event");
    list->event = grown;
    list->capacity = capacity;
    return MR_OK;
}

static int keep_event(cuda_events *list, mr_event *event) {
    int status = mr_cuda_widen_events(list, 1);
    if (!status)
        list->event[list->count++] = mr_event_ref(event);
    return status;
}

static bool has_event(const cuda_events *list, const mr_event *event) {
    for (size_t i = 0; i < list->count; i++)
        if (list->event[i] == event)
            return true;
    return false;
}

void mr_cuda_move_events(cuda_events *to, cuda_events *from) {
    if (from->count)
        memcpy(to->event + to->count, from->event, from->count * sizeof(mr_event *));
    to->count += from->count;
    from->count = 0;
}

void mr_cuda_forget_events(cuda_events *list) {
    while (list->count)
        mr_event_unref(&list->event[--list->count]);
}

void mr_cuda_point_events(const cuda_events *events, cuda_record *record) {
    for (size_t i = 0; i < events->count; i++)
        mr_event_set_point(events->event[i], record);
}

/* ---- records ---------------------------------------------------------------------------------------------------- */

static int make_record(const cuda_device *self, cuda_record **record) {
    cuda_record *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "%s: no memory for a record", self->device.name);
    int status = mr_cuda_widen_events(&made->waited, 1);
    if (!status)
        status = mr_cuda_widen_events(&made->events, 1);
    cudaError_t error = status ? cudaSuccess : cudaEventCreateWithFlags(&made->point, cudaEventDisableTiming);
    if (error)
        status = mr_cuda_failed(&self->device, error, "create an event");
    if (!status) {
        *record = made;
        return MR_OK;
    }
    mr_free(made->waited.event);
    mr_free(made->events.event);
    mr_free(made);
    return status;
}

int mr_cuda_take_record(cuda_device *self, cuda_record **taken) {
    pthread_mutex_lock(&self->lock);
    *taken = self->unused_records;
    if (*taken)
        self->unused_records = (*taken)->next;
    pthread_mutex_unlock(&self->lock);
    return *taken ? MR_OK : make_record(self, taken);
}

void mr_cuda_recycle_record(cuda_device *self, cuda_record *gone) {
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
            mr_cuda_recycle_record(self, made);
        pthread_mutex_unlock(&self->lock);
    }
    return status;
}

/* The lists swap, so that each keeps its room. */
static void swap_events(cuda_events *one, cuda_events *other) {
    const cuda_events kept = *one;
    *one = *other;
    *other = kept;
}

void mr_cuda_fill_record(cuda_record *to, cuda_stream *stream) {
    swap_events(&to->waited, &stream->waited);
    swap_events(&to->events, &stream->taken);
    to->stream = stream;
    to->work = stream->work;
    to->status = stream->status;
    to->next = NULL;
    stream->work = NULL;
    stream->waits = 0;
    stream->status = MR_OK;
}

void mr_cuda_wake(cuda_device *self) {
    if (self->asleep)
        pthread_cond_broadcast(&self->changed);
}

/* A deferred launch that fails, fails the next event: others may have been launched before it. */
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

/* Records the events for calls that were taken over, followed by `event` unless it is NULL. */
static int record(cuda_stream *self, mr_event *event) {
    cuda_device *device = (cuda_device *)self->stream.device;
    cuda_record *made;
    int status = flush(self);
    if (!status && event)
        status = mr_cuda_widen_events(&self->taken, 1);
    if (!status)
        status = mr_cuda_take_record(device, &made);
    if (status)
        return status;
    mr_cuda_trace_end(&self->piece, &self->stream, self->handle);
    cudaError_t error = cudaEventRecord(made->point, self->handle);
    if (!error && event)
        keep_event(&self->taken, event);
    pthread_mutex_lock(&device->lock);
    if (error) {
        mr_cuda_recycle_record(device, made);
    } else {
        mr_cuda_fill_record(made, self);
        made->state = MR_CUDA_RECORDED;
        mr_cuda_point_events(&made->events, made);
        self->pending++;
        *device->arrived_end = made;
        device->arrived_end = &made->next;
        mr_cuda_wake(device);
    }
    pthread_mutex_unlock(&device->lock);
    return error ? mr_cuda_failed(&device->device, error, "record an event") : MR_OK;
}

int mr_cuda_record(mr_stream *stream, mr_event *event) {
    return record((cuda_stream *)stream, event);
}

int mr_cuda_settle(mr_stream *stream) {
    cuda_stream *self = (cuda_stream *)stream;
    return self->taken.count ? record(self, NULL) : MR_OK;
}

/* The device whose thread completes the event. Another kind of device's event must be done before a stream can wait for
 * it here. */
static cuda_device *teller_of(const mr_event *event, mr_device *device) {
    mr_device *its = mr_event_device(event);
    return (cuda_device *)(its->type == device->type ? its : device);
}

/* An event that is not done keeps its CUDA event while its device's lock is held. */
int mr_cuda_wait_for_point(mr_device *device, cudaStream_t handle, mr_event *event) {
    cuda_device *teller = teller_of(event, device);
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&teller->lock);
    if (!mr_event_done(event))
        error = cudaStreamWaitEvent(handle, ((const cuda_record *)mr_event_point(event))->point, 0);
    pthread_mutex_unlock(&teller->lock);
    return error ? mr_cuda_failed(device, error, "wait for an event") : MR_OK;
}

int mr_cuda_give_waits(cuda_stream *self) {
    int status = MR_OK;
    for (; self->waits < self->waited.count && !status; self->waits++)
        status = mr_cuda_wait_for_point(self->stream.device, self->handle, self->waited.event[self->waits]);
    return status;
}

/* The stream has the event's record already: the wait was submitted, or is deferred until something is. */
static bool waits_already(const cuda_stream *self, const mr_event *event) {
    return has_event(&self->waited, event) || has_event(&self->taken, event);
}

/* The caller must hold the lock of the device that completes the event. */
static int wait_for_pending(cuda_stream *self, const cuda_device *teller, mr_event *event) {
    cuda_record *found = mr_event_point(event);
    if (!found)
        return mr_fail(MR_ERROR_INTERNAL, "%s: asked to wait for an event that is neither done nor recorded",
                       self->stream.device->name);
    if (found->state == MR_CUDA_RECORDED)
        return keep_event(&self->waited, event);
    bool here = &teller->device == self->stream.device && found->state == MR_CUDA_HELD;
    return here ? mr_cuda_take_over(self, found) : MR_ERROR_AGAIN;
}

int mr_cuda_wait(mr_stream *stream, mr_event *event) {
    cuda_stream *self = (cuda_stream *)stream;
    cuda_device *teller = teller_of(event, stream->device);
    int status = mr_cuda_use(stream->device);
    if (status || waits_already(self, event))
        return status;
    mr_cuda_trace_end(&self->piece, stream, self->handle);
    MR_LOCKED(&teller->lock);
    if (!mr_event_done(event))
        status = wait_for_pending(self, teller, event);
    else if (mr_event_status(event))
        self->status = mr_event_status(event);
    return status;
}

/* MOST_BYTES: limit for launches that wait to be taken over; calls in flight limit how many. PLAIN: how many calls are
 * not handed on after one that no stream took over. */
enum { MOST_BYTES = 1 << 17, PLAIN = 64 };

/* Longer than a stage makes calls before the next one runs on the same worker. */
_Atomic int64_t mr_cuda_patience_ns = 250000;

/* Stands for events of taken-over calls, until they are recorded. */
static cuda_record taken = {.state = MR_CUDA_TAKEN};

/* ---- handing on -------------------------------------------------------------------------------------------------- */

static bool can_hand_on(cuda_stream *self) {
    const cuda_device *device = (const cuda_device *)self->stream.device;
    int plain = atomic_load_explicit(&self->plain, memory_order_relaxed);
    if (plain)
        atomic_compare_exchange_strong(&self->plain, &plain, plain - 1);
    return device->graphs && !device->device.trace && !self->given && !plain && self->launches.bytes <= MOST_BYTES;
}

static void hold(cuda_device *self, cuda_record *record) {
    MR_LOCKED(&self->lock);
    record->state = MR_CUDA_HELD;
    mr_cuda_point_events(&record->events, record);
    record->stream->pending++;
    record->next = self->held;
    self->held = record;
    mr_cuda_wake(self);
}

int mr_cuda_hand_on(mr_stream *stream, mr_event *event) {
    cuda_stream *self = (cuda_stream *)stream;
    cuda_record *record = NULL;
    bool can = can_hand_on(self);
    self->given = false;
    if (!can)
        return mr_cuda_record(stream, event);
    int status = mr_cuda_widen_events(&self->taken, 1);
    if (!status)
        status = mr_cuda_take_record((cuda_device *)stream->device, &record);
    if (status)
        return status;
    status = mr_cuda_launches_take(&record->launches, &self->launches);
    if (status) {
        pthread_mutex_lock(&((cuda_device *)stream->device)->lock);
        mr_cuda_recycle_record((cuda_device *)stream->device, record);
        pthread_mutex_unlock(&((cuda_device *)stream->device)->lock);
        return status;
    }
    self->taken.event[self->taken.count++] = mr_event_ref(event);
    mr_cuda_fill_record(record, self);
    record->held_ns = mr_now_ns();
    hold((cuda_device *)stream->device, record);
    return MR_OK;
}

/* ---- taking over ------------------------------------------------------------------------------------------------- */

static void unlink_held(cuda_device *self, const cuda_record *record) {
    cuda_record **link = &self->held;
    while (*link != record)
        link = &(*link)->next;
    *link = record->next;
}

/* After the stream's own, which are newest first. */
static void add_work(cuda_stream *to, cuda_work *list) {
    cuda_work **end = &list;
    while (*end)
        end = &(*end)->next;
    *end = to->work;
    to->work = list;
}

int mr_cuda_take_over(cuda_stream *self, cuda_record *held) {
    cuda_device *device = (cuda_device *)self->stream.device;
    int status = mr_cuda_widen_events(&self->taken, held->events.count);
    if (!status)
        status = mr_cuda_widen_events(&self->waited, held->waited.count);
    if (!status)
        status = mr_cuda_launches_take(&self->launches, &held->launches);
    if (status)
        return status;
    unlink_held(device, held);
    held->stream->pending--;
    mr_cuda_point_events(&held->events, &taken);
    mr_cuda_move_events(&self->taken, &held->events);
    mr_cuda_move_events(&self->waited, &held->waited);
    add_work(self, held->work);
    self->status = held->status ? held->status : self->status;
    mr_cuda_recycle_record(device, held);
    pthread_cond_broadcast(&device->changed);
    return MR_OK;
}

/* ---- work that no stream takes over ----------------------------------------------------------------------------- */

cuda_record *mr_cuda_find_late(cuda_device *self) {
    cuda_record *late = NULL;
    int64_t before_ns = self->held ? mr_now_ns() - atomic_load(&mr_cuda_patience_ns) : 0;
    for (cuda_record **link = &self->held; *link;) {
        cuda_record *found = *link;
        if (found->held_ns > before_ns) {
            link = &found->next;
            continue;
        }
        *link = found->next;
        found->state = MR_CUDA_LATE;
        found->next = late;
        late = found;
    }
    return late;
}

/* A failure is reported by the event. */
static int give(cuda_device *self, cuda_record *late) {
    int status = MR_OK;
    for (size_t i = 0; i < late->waited.count && !status; i++)
        status = mr_cuda_wait_for_point(&self->device, self->late, late->waited.event[i]);
    if (!status)
        status = mr_cuda_launches_flush(&late->launches, &self->device, self->late);
    cudaError_t error = cudaEventRecord(late->point, self->late);
    if (error && !status)
        status = mr_cuda_failed(&self->device, error, "record an event");
    return status;
}

void mr_cuda_give_late(cuda_device *self, cuda_record *late) {
    for (; late; late = late->next) {
        int status = give(self, late);
        if (status)
            mr_log(MR_LOG_ERROR, "%s", mr_message());
        late->status = late->status ? late->status : status;
        atomic_store(&late->stream->plain, PLAIN);
        pthread_mutex_lock(&self->lock);
        late->state = MR_CUDA_RECORDED;
        pthread_mutex_unlock(&self->lock);
    }
}

/* ---- the thread that asks --------------------------------------------------------------------------------------- */

/* Only here does the runtime report failed work. */
static int tell_failure(cuda_device *self, const cuda_record *asked, cudaError_t error) {
    const mr_stage *stage = mr_event_stage(asked->events.event[0]);
    int status = mr_cuda_failed(&self->device, error, "go on");
    mr_log(self->reported ? MR_LOG_DEBUG : MR_LOG_ERROR, "%s: work%s%s failed: %s", self->device.name,
           stage ? " of " : "", stage ? stage->id : "", cudaGetErrorString(error));
    self->reported = true;
    return status;
}

/* Whether other streams' events must complete before this one, since their status counts. Until then there is no need
 * to poll it. */
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

/* Adds new records to their streams' queues. */
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

static void tell(cuda_record *done) {
    int status = status_of(done);
    for (size_t i = 0; i < done->events.count; i++)
        mr_event_complete(done->events.event[i], status);
}

/* Adds a stream's reached records to a list. */
static void tell_reached(cuda_device *self, cuda_stream *stream, cuda_record **reported) {
    while (stream->first && !stream->asked && !is_behind_others(stream->first)) {
        cuda_record *oldest = stream->first;
        stream->asked = !reached(self, oldest);
        if (stream->asked)
            return;
        stream->first = oldest->next;
        tell(oldest);
        oldest->next = *reported;
        *reported = oldest;
    }
}

/* Streams without records are no longer busy. They can be destroyed once the records are recycled. */
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

/* A record that one stream has reached may be one that another waits for, so that one is polled again; but none is
 * polled again that was not reached before. Returns the reached records. */
static cuda_record *ask_all(cuda_device *self) {
    cuda_record *reported = NULL, *before;
    do {
        before = reported;
        for (cuda_stream *stream = self->busy; stream; stream = stream->next_busy)
            tell_reached(self, stream, &reported);
    } while (reported != before);
    forget_idle(self);
    return reported;
}

/* With the lock. The events are done, so no reader looks for their record again. */
static void recycle_reported(cuda_device *self, cuda_record *reported) {
    while (reported) {
        cuda_record *next = reported->next;
        reported->stream->pending--;
        mr_cuda_point_events(&reported->events, NULL);
        mr_cuda_forget_events(&reported->events);
        mr_cuda_forget_events(&reported->waited);
        mr_cuda_recycle_work(self, &reported->work);
        mr_cuda_recycle_record(self, reported);
        reported = next;
    }
    pthread_cond_broadcast(&self->changed);
}

/* One round; with the lock, which is given up meanwhile. */
static void ask_once(cuda_device *self) {
    cuda_record *arrived = self->arrived;
    self->arrived = NULL;
    self->arrived_end = &self->arrived;
    cuda_record *late = mr_cuda_find_late(self);
    pthread_mutex_unlock(&self->lock);
    sort_in(self, arrived);
    mr_cuda_give_late(self, late);
    sort_in(self, late);
    cuda_record *reported = ask_all(self);
    if (!reported)
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    pthread_mutex_lock(&self->lock);
    if (reported)
        recycle_reported(self, reported);
}

void *mr_cuda_ask(void *context) {
    cuda_device *self = context;
    prctl(PR_SET_TIMERSLACK, SLACK_NS);
    mr_cuda_use(&self->device);
    MR_LOCKED(&self->lock);
    while (!self->ending) {
        self->asleep = !self->arrived && !self->busy && !self->held;
        if (self->asleep)
            pthread_cond_wait(&self->changed, &self->lock);
        else
            ask_once(self);
    }
    return NULL;
}
