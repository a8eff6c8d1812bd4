#include "stages/zmq/zmq_unsent.h"

#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"

struct mr_zmq_entry {
    mr_zmq_entry *next, **link;
    mr_zmq_unsent *unsent;
    mr_receipt *held;
    uint32_t source;
    max_align_t data[];
};

/* How often a wait checks whether the run is being stopped. */
static const int64_t ASK_NS = 100000000;

void mr_zmq_unsent_init(mr_zmq_unsent *unsent, const mr_stage *self) {
    *unsent = (mr_zmq_unsent){.self = self};
    pthread_mutex_init(&unsent->lock, NULL);
    mr_condition_init(&unsent->changed);
}

void mr_zmq_unsent_fini(mr_zmq_unsent *unsent) {
    if (!unsent->self)
        return;
    pthread_cond_destroy(&unsent->changed);
    pthread_mutex_destroy(&unsent->lock);
    unsent->self = NULL;
}

/* The frame is sent, or dropped for this reason. */
static void release(const mr_zmq_unsent *unsent, mr_zmq_entry *one, const char *reason) {
    if (one->held)
        mr_stage_count_untaken(unsent->self, -1);
    mr_stage_release(unsent->self, &one->held, reason);
}

static void freed(void *data, void *hint) {
    mr_zmq_entry *gone = hint;
    mr_zmq_unsent *unsent = gone->unsent;
    pthread_mutex_lock(&unsent->lock);
    *gone->link = gone->next;
    if (gone->next)
        gone->next->link = gone->link;
    unsent->sent++;
    release(unsent, gone, NULL);
    pthread_cond_signal(&unsent->changed);
    pthread_mutex_unlock(&unsent->lock);
    mr_free(gone);
}

int mr_zmq_unsent_make(mr_zmq_unsent *unsent, zmq_msg_t *part, size_t bytes, mr_receipt **held, uint32_t source) {
    mr_zmq_entry *made = mr_alloc(sizeof *made + bytes);
    if (made)
        *made = (mr_zmq_entry){.unsent = unsent, .source = source};
    if (!made || zmq_msg_init_data(part, made->data, bytes, freed, made)) {
        mr_free(made);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a message of %zu bytes", bytes);
    }
    made->held = *held;
    *held = NULL;
    if (made->held)
        mr_stage_count_untaken(unsent->self, 1);
    MR_LOCKED(&unsent->lock);
    made->next = unsent->first;
    made->link = &unsent->first;
    if (made->next)
        made->next->link = &made->next;
    unsent->first = made;
    return MR_OK;
}

static bool is_of(const mr_zmq_entry *one, uint32_t source) {
    return source == MR_SOURCE_NONE || one->source == source;
}

static bool has_any(const mr_zmq_unsent *unsent, uint32_t source) {
    const mr_zmq_entry *one = unsent->first;
    while (one && !is_of(one, source))
        one = one->next;
    return one;
}

uint64_t mr_zmq_unsent_sent(mr_zmq_unsent *unsent) {
    MR_LOCKED(&unsent->lock);
    return unsent->sent;
}

int mr_zmq_unsent_await(mr_zmq_unsent *unsent, uint32_t source, int64_t patience_ns) {
    int64_t since_ns = mr_now_ns();
    int status = MR_OK;
    pthread_mutex_lock(&unsent->lock);
    uint64_t sent = unsent->sent;
    while (!status && has_any(unsent, source)) {
        const int64_t now_ns = mr_now_ns();
        since_ns = sent == unsent->sent ? since_ns : now_ns;
        sent = unsent->sent;
        if (now_ns - since_ns >= patience_ns) {
            status = MR_ERROR_AGAIN;
            continue;
        }
        const int64_t left_ns = since_ns + patience_ns - now_ns;
        const struct timespec until = mr_condition_until(left_ns < ASK_NS ? left_ns : ASK_NS);
        pthread_cond_timedwait(&unsent->changed, &unsent->lock, &until);
        pthread_mutex_unlock(&unsent->lock);
        status = mr_stage_gives_up(unsent->self) ? MR_ERROR_CANCELLED : MR_OK;
        pthread_mutex_lock(&unsent->lock);
    }
    pthread_mutex_unlock(&unsent->lock);
    return status;
}

size_t mr_zmq_unsent_drop(mr_zmq_unsent *unsent, uint32_t source, const char *reason) {
    size_t dropped = 0;
    MR_LOCKED(&unsent->lock);
    for (mr_zmq_entry *one = unsent->first; one; one = one->next) {
        if (!is_of(one, source) || !one->held)
            continue;
        release(unsent, one, reason);
        dropped++;
    }
    return dropped;
}
