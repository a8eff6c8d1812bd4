/* Events: reference-counted, used once, from a free list. */
#include <pthread.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"

struct mr_event {
    atomic_int references;
    _Atomic bool done;
    int status;
    mr_device *device;
    const mr_stage *stage;
    pthread_mutex_t lock;
    int waiter_count;
    struct {
        mr_event_function *function;
        void *context;
    } waiters[MR_EVENT_WAITERS];
    mr_event *next;
};

static pthread_mutex_t unused_lock = PTHREAD_MUTEX_INITIALIZER;
static mr_event *unused;

static mr_event *take_unused(void) {
    pthread_mutex_lock(&unused_lock);
    mr_event *event = unused;
    if (event)
        unused = event->next;
    pthread_mutex_unlock(&unused_lock);
    return event;
}

int mr_event_create(mr_event **event, mr_device *device, const mr_stage *stage) {
    mr_event *made = take_unused();
    if (!made) {
        if (!(made = mr_calloc(1, sizeof *made)))
            return mr_fail(MR_ERROR_MEMORY, "no memory for an event");
        pthread_mutex_init(&made->lock, NULL);
    }
    atomic_store_explicit(&made->references, 1, memory_order_relaxed);
    atomic_store_explicit(&made->done, false, memory_order_relaxed);
    made->status = MR_OK;
    made->device = device;
    made->stage = stage;
    made->waiter_count = 0;
    *event = made;
    return MR_OK;
}

mr_event *mr_event_ref(mr_event *event) {
    atomic_fetch_add_explicit(&event->references, 1, memory_order_relaxed);
    return event;
}

void mr_event_unref(mr_event **event) {
    mr_event *gone = *event;
    *event = NULL;
    if (!gone || atomic_fetch_sub_explicit(&gone->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_lock(&unused_lock);
    gone->next = unused;
    unused = gone;
    pthread_mutex_unlock(&unused_lock);
}

bool mr_event_done(const mr_event *event) {
    return atomic_load_explicit(&event->done, memory_order_acquire);
}

int mr_event_status(const mr_event *event) {
    return event->status;
}

mr_device *mr_event_device(const mr_event *event) {
    return event->device;
}

const mr_stage *mr_event_stage(const mr_event *event) {
    return event->stage;
}

int mr_event_notify(mr_event *event, mr_event_function *function, void *context) {
    int status = MR_OK;
    pthread_mutex_lock(&event->lock);
    bool done = mr_event_done(event);
    bool known = false;
    for (int i = 0; i < event->waiter_count; i++)
        known |= event->waiters[i].context == context && event->waiters[i].function == function;
    if (!done && !known) {
        if (event->waiter_count == MR_EVENT_WAITERS) {
            status = MR_ERROR_AGAIN;
        } else {
            event->waiters[event->waiter_count].function = function;
            event->waiters[event->waiter_count++].context = context;
        }
    }
    pthread_mutex_unlock(&event->lock);
    if (done)
        function(context);
    return status;
}

void mr_event_complete(mr_event *event, int status) {
    /* A waiter may drop the last reference of others; this one keeps the event until all were told. */
    mr_event *kept = mr_event_ref(event);
    pthread_mutex_lock(&event->lock);
    event->status = status;
    atomic_store_explicit(&event->done, true, memory_order_release);
    int count = event->waiter_count;
    event->waiter_count = 0;
    pthread_mutex_unlock(&event->lock);
    for (int i = 0; i < count; i++)
        event->waiters[i].function(event->waiters[i].context);
    mr_event_unref(&kept);
}
