#include "engine/device/finish.h"

#include <pthread.h>

#include "millrace/status.h"

typedef struct completion {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
} completion;

static void complete(void *context) {
    completion *c = context;
    pthread_mutex_lock(&c->lock);
    c->done = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void wait_for(mr_event *event) {
    completion c = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    mr_event_wait wait = {0};
    mr_event_notify(event, &wait, complete, &c);
    pthread_mutex_lock(&c.lock);
    while (!c.done)
        pthread_cond_wait(&c.changed, &c.lock);
    pthread_mutex_unlock(&c.lock);
    mr_event_forget(&wait);
    pthread_cond_destroy(&c.changed);
    pthread_mutex_destroy(&c.lock);
}

static int let_time_pass(mr_device *device, const mr_event *event, int64_t *now_ns) {
    while (!mr_event_done(event)) {
        int64_t next_ns = mr_device_advance(device, *now_ns);
        if (mr_event_done(event))
            return MR_OK;
        if (next_ns == INT64_MAX)
            return mr_fail(MR_ERROR_INTERNAL, "%s has no work left, but an event is not done", device->name);
        *now_ns = next_ns;
    }
    return MR_OK;
}

int mr_stream_finish(mr_stream *stream, int64_t *now_ns) {
    mr_event *event = NULL;
    int status = mr_event_create(&event, stream->device, NULL);
    if (!status)
        status = mr_stream_record(stream, event);
    if (!status && stream->device->type->advance)
        status = let_time_pass(stream->device, event, now_ns);
    else if (!status)
        wait_for(event);
    if (!status && mr_event_status(event))
        status = mr_fail(mr_event_status(event), "%s: the work failed: %s", stream->device->name, mr_message());
    mr_event_unref(&event);
    return status;
}
