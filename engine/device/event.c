/* Events: reference-counted, used once, from a free list. */
#include <pthread.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/device.h"

struct mr_event {
    atomic_int references;
    _Atomic bool done;
    int status;
    mr_device *device;
    const mr_stage *stage;
    void *point; /* the device's */
    pthread_mutex_t lock;
    mr_waiters waiters; /* each holds a reference */
    mr_event *next;
};

static pthread_mutex_t unused_lock = PTHREAD_MUTEX_INITIALIZER;
static mr_event *unused;

static mr_event *take_unused(void) {
    MR_LOCKED(&unused_lock);
    mr_event *event = unused;
    if (event)
        unused = event->next;
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
    made->point = NULL;
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
    MR_LOCKED(&unused_lock);
    gone->next = unused;
    unused = gone;
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

void mr_event_set_point(mr_event *event, void *point) {
    event->point = point;
}

void *mr_event_point(const mr_event *event) {
    return event->point;
}

/* False: the event is done. If it has not called this waiter yet, it will not any more. */
static bool add_waiter(mr_event *event, mr_event_wait *wait, mr_waiter_function *function, void *context) {
    MR_LOCKED(&event->lock);
    bool waits = !mr_event_done(event);
    if (!waits) {
        mr_waiters_remove(&event->waiters, &wait->waiter);
    } else if (!wait->waiter.link) {
        wait->waiter.function = function;
        wait->waiter.context = context;
        mr_waiters_add(&event->waiters, &wait->waiter);
    }
    return waits;
}

void mr_event_notify(mr_event *event, mr_event_wait *wait, mr_waiter_function *function, void *context) {
    if (wait->event != event) {
        mr_event_forget(wait);
        wait->event = mr_event_ref(event);
    }
    if (add_waiter(event, wait, function, context))
        return;
    mr_event_unref(&wait->event);
    function(context);
}

void mr_event_forget(mr_event_wait *wait) {
    if (!wait->event)
        return;
    pthread_mutex_lock(&wait->event->lock);
    mr_waiters_remove(&wait->event->waiters, &wait->waiter);
    pthread_mutex_unlock(&wait->event->lock);
    mr_event_unref(&wait->event);
}

/* Takes the first waiter and calls it without the lock, which is held before and after. False: there is none. */
static bool tell_one(mr_event *event) {
    mr_waiter *first = event->waiters.first;
    if (!first)
        return false;
    mr_waiters_remove(&event->waiters, first);
    mr_waiter_function *function = first->function;
    void *context = first->context;
    pthread_mutex_unlock(&event->lock);
    function(context);
    pthread_mutex_lock(&event->lock);
    return true;
}

void mr_event_complete(mr_event *event, int status) {
    /* A waiter can drop the others' last reference; this one keeps the event until all were called. */
    mr_event *kept = mr_event_ref(event);
    pthread_mutex_lock(&event->lock);
    event->status = status;
    atomic_store_explicit(&event->done, true, memory_order_release);
    while (tell_one(event))
        ;
    pthread_mutex_unlock(&event->lock);
    mr_event_unref(&kept);
}
