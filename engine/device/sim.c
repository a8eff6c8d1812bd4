/* The simulated accelerator: streams of work that is done later, in order, after delays drawn from a seed. Its memory is
 * the host's. In real time a thread of the device does the work; a manual device does it in mr_sim_advance. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/device/device.h"

typedef enum item_kind { WORK, RECORD, WAIT } item_kind;

enum { POLL_NS = 100000 };

typedef struct sim_stream sim_stream;

typedef struct item {
    item_kind kind;
    sim_stream *stream;
    mr_work_function *function;
    mr_event *event; /* RECORD and WAIT: one reference */
    int64_t due_ns;  /* WORK at the head of its stream: when it is done; -1: not drawn yet */
    bool arrived;    /* WAIT: the event has told that it is done */
    bool polled;     /* WAIT: too many wait for the event already, so it has to be looked at */
    struct item *next;
    _Alignas(16) unsigned char arguments[MR_WORK_BYTES];
} item;

typedef struct sim_device sim_device;

struct sim_stream {
    mr_stream stream;
    item *head, *tail;
    int status;   /* of the work since the last event */
    bool busy;    /* its head is being done without the lock */
    sim_stream *next;
};

struct sim_device {
    mr_device device;
    mr_sim_params params;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool ending;
    sim_stream *streams;
    item *unused;
    uint64_t random;
    int64_t work_count, allocation_count;
};

/* xorshift64*, as in the executor, so that a seed gives the same delays everywhere. */
static uint64_t draw(sim_device *self) {
    uint64_t x = self->random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    self->random = x;
    return x * UINT64_C(2685821657736338717);
}

static int64_t draw_delay(sim_device *self) {
    int64_t span = self->params.max_delay_ns - self->params.min_delay_ns;
    return self->params.min_delay_ns + (span > 0 ? (int64_t)(draw(self) % (uint64_t)(span + 1)) : 0);
}

/* ---- doing the work ----------------------------------------------------------------------------------------------- */

/* The event of a WAIT is done. The item stays in its stream until this was called, so it and the device are there. */
static void arrive(void *context) {
    item *wait = context;
    sim_device *self = (sim_device *)wait->stream->stream.device;
    pthread_mutex_lock(&self->lock);
    wait->arrived = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

/* The end of time, to which a manual device goes when a stream is destroyed, has nothing behind it. */
static int64_t later(int64_t now_ns, int64_t step_ns) {
    return now_ns > INT64_MAX - step_ns ? INT64_MAX : now_ns + step_ns;
}

/* When the head of a stream can be done, or be looked at again; INT64_MAX: when something tells. */
static int64_t head_due_ns(sim_device *self, item *head, int64_t now_ns) {
    switch (head->kind) {
    case WORK:
        if (head->due_ns < 0)
            head->due_ns = later(now_ns, draw_delay(self));
        return head->due_ns;
    case WAIT:
        if (head->polled)
            return mr_event_done(head->event) ? now_ns : later(now_ns, POLL_NS);
        return head->arrived ? now_ns : INT64_MAX;
    case RECORD:
        break;
    }
    return now_ns;
}

/* True where the head of a stream can be done now; else *next_ns is moved up to when it can, if that is known. */
static bool can_go(sim_device *self, sim_stream *stream, int64_t now_ns, int64_t *next_ns) {
    if (!stream->head || stream->busy)
        return false;
    int64_t due_ns = head_due_ns(self, stream->head, now_ns);
    if (due_ns <= now_ns)
        return true;
    *next_ns = due_ns < *next_ns ? due_ns : *next_ns;
    return false;
}

static sim_stream *find_ready(sim_device *self, int64_t now_ns, int64_t *next_ns) {
    *next_ns = INT64_MAX;
    for (sim_stream *stream = self->streams; stream; stream = stream->next)
        if (can_go(self, stream, now_ns, next_ns))
            return stream;
    return NULL;
}

static bool must_fail(const sim_device *self, int64_t number) {
    const mr_sim_params *params = &self->params;
    return (params->fail_after && number >= params->fail_after) ||
           (params->fail_every && number % params->fail_every == 0);
}

static void recycle(sim_device *self, item *gone) {
    gone->next = self->unused;
    self->unused = gone;
}

static item *take_head(sim_stream *stream) {
    item *head = stream->head;
    stream->head = head->next;
    if (!stream->head)
        stream->tail = NULL;
    return head;
}

static void do_work(sim_device *self, sim_stream *stream) {
    item *work = take_head(stream);
    bool fails = must_fail(self, ++self->work_count);
    stream->busy = true;
    pthread_mutex_unlock(&self->lock);
    int status = fails ? mr_fail(MR_ERROR_DEVICE, "%s: simulated failure", self->device.name)
                       : work->function(work->arguments);
    pthread_mutex_lock(&self->lock);
    stream->busy = false;
    if (status)
        stream->status = status;
    recycle(self, work);
}

static void do_record(sim_device *self, sim_stream *stream) {
    item *record = take_head(stream);
    mr_event *event = record->event;
    int status = stream->status;
    stream->status = MR_OK;
    stream->busy = true;
    recycle(self, record);
    pthread_mutex_unlock(&self->lock);
    mr_event_complete(event, status);
    mr_event_unref(&event);
    pthread_mutex_lock(&self->lock);
    stream->busy = false;
}

static void do_wait(sim_device *self, sim_stream *stream) {
    item *wait = take_head(stream);
    if (mr_event_status(wait->event))
        stream->status = mr_event_status(wait->event);
    mr_event_unref(&wait->event);
    recycle(self, wait);
}

/* Does the head of a stream. Called with the lock, which is given up meanwhile. */
static void do_head(sim_device *self, sim_stream *stream) {
    switch (stream->head->kind) {
    case WORK:
        do_work(self, stream);
        break;
    case RECORD:
        do_record(self, stream);
        break;
    case WAIT:
        do_wait(self, stream);
        break;
    }
    pthread_cond_broadcast(&self->changed);
}

int64_t mr_sim_advance(mr_device *device, int64_t now_ns) {
    sim_device *self = (sim_device *)device;
    int64_t next;
    pthread_mutex_lock(&self->lock);
    for (sim_stream *stream; (stream = find_ready(self, now_ns, &next));)
        do_head(self, stream);
    pthread_mutex_unlock(&self->lock);
    return next;
}

static void *run(void *context) {
    sim_device *self = context;
    pthread_mutex_lock(&self->lock);
    while (!self->ending) {
        int64_t next;
        sim_stream *stream = find_ready(self, mr_clock_now_ns(mr_clock_real()), &next);
        if (stream) {
            do_head(self, stream);
        } else if (next == INT64_MAX) {
            pthread_cond_wait(&self->changed, &self->lock);
        } else {
            struct timespec until = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
            pthread_cond_timedwait(&self->changed, &self->lock, &until);
        }
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static int sim_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data) {
    sim_device *self = (sim_device *)device;
    (void)memory;
    pthread_mutex_lock(&self->lock);
    bool fails = self->params.fail_allocation && ++self->allocation_count == self->params.fail_allocation;
    pthread_mutex_unlock(&self->lock);
    *data = fails ? NULL : mr_alloc_aligned(64, bytes ? bytes : 1);
    return *data ? MR_OK : mr_fail(MR_ERROR_MEMORY, "%s: no memory for %zu bytes", device->name, bytes);
}

static void sim_free(mr_device *device, mr_memory memory, void *data) {
    (void)device;
    (void)memory;
    mr_free(data);
}

static int sim_stream_create(mr_device *device, mr_stream **stream) {
    sim_device *self = (sim_device *)device;
    sim_stream *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a stream");
    made->stream.device = device;
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
    mr_free(gone);
}

/* An item for a stream, not yet in it; NULL where there is no memory. It holds a reference to `event`. */
static item *make_item(mr_stream *stream, item_kind kind, mr_event *event) {
    sim_device *self = (sim_device *)stream->device;
    pthread_mutex_lock(&self->lock);
    item *made = self->unused;
    if (made)
        self->unused = made->next;
    pthread_mutex_unlock(&self->lock);
    if (!made && !(made = mr_alloc(sizeof *made))) {
        mr_fail(MR_ERROR_MEMORY, "%s: no memory for work", self->device.name);
        return NULL;
    }
    made->kind = kind;
    made->stream = (sim_stream *)stream;
    made->event = event ? mr_event_ref(event) : NULL;
    made->due_ns = -1;
    made->arrived = made->polled = false;
    made->next = NULL;
    return made;
}

static void append(item *added) {
    sim_stream *stream = added->stream;
    sim_device *self = (sim_device *)stream->stream.device;
    pthread_mutex_lock(&self->lock);
    if (stream->tail)
        stream->tail->next = added;
    else
        stream->head = added;
    stream->tail = added;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->lock);
}

static int sim_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes) {
    item *work = make_item(stream, WORK, NULL);
    if (!work)
        return MR_ERROR_MEMORY;
    work->function = function;
    if (bytes)
        memcpy(work->arguments, arguments, bytes);
    append(work);
    return MR_OK;
}

static int sim_record(mr_stream *stream, mr_event *event) {
    item *record = make_item(stream, RECORD, event);
    if (!record)
        return MR_ERROR_MEMORY;
    append(record);
    return MR_OK;
}

static int sim_wait(mr_stream *stream, mr_event *event) {
    item *wait = make_item(stream, WAIT, event);
    if (!wait)
        return MR_ERROR_MEMORY;
    wait->polled = mr_event_notify(event, arrive, wait) != MR_OK;
    append(wait);
    return MR_OK;
}

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
        item *gone = self->unused;
        self->unused = gone->next;
        mr_free(gone);
    }
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
    .record = sim_record,
    .wait = sim_wait,
    .destroy = sim_destroy,
};

int mr_sim_create(mr_device **device, const mr_sim_params *params) {
    sim_device *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a simulated device");
    made->device = (mr_device){.type = &sim_type, .index = params->index};
    snprintf(made->device.name, sizeof made->device.name, "sim:%d", params->index);
    made->params = *params;
    made->random = params->seed ? params->seed : 1;
    pthread_mutex_init(&made->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&made->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!params->manual && pthread_create(&made->thread, NULL, run, made)) {
        made->params.manual = true; /* There is no thread to join. */
        sim_destroy(&made->device);
        return mr_fail(MR_ERROR_MEMORY, "cannot start the thread of sim:%d", params->index);
    }
    if (!params->manual)
        pthread_setname_np(made->thread, made->device.name);
    *device = &made->device;
    return MR_OK;
}
