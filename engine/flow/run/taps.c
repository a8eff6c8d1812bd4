#include "engine/flow/run/taps.h"

#include <pthread.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/device.h"
#include "engine/flow/run/ending.h"

/* How often a look asks whether the run has ended, and whether the device is done. */
static const int64_t look_ns = 50000000, poll_ns = 500000;

typedef struct look {
    size_t vertex;
    mr_frame *frame; /* NULL: none has passed yet */
    struct look *next;
} look;

struct mr_taps {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    look *first;        /* the waiting looks, on stacks */
    _Atomic int wanted[]; /* by vertex: looks without a frame */
};

int mr_taps_create(mr_taps **taps, const mr_plan *plan) {
    mr_taps *made = mr_calloc(1, sizeof *made + plan->vertex_count * sizeof *made->wanted);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    pthread_mutex_init(&made->lock, NULL);
    mr_condition_init(&made->changed);
    *taps = made;
    return MR_OK;
}

void mr_taps_destroy(mr_taps **taps) {
    if (!*taps)
        return;
    pthread_cond_destroy(&(*taps)->changed);
    pthread_mutex_destroy(&(*taps)->lock);
    mr_free(*taps);
    *taps = NULL;
}

void mr_taps_show(const mr_run *run, const mr_plan_vertex *stage, const mr_frame *frame) {
    mr_taps *taps = run->taps;
    const size_t vertex = (size_t)(stage - run->plan->vertices);
    if (!atomic_load_explicit(&taps->wanted[vertex], memory_order_relaxed) || pthread_mutex_trylock(&taps->lock))
        return;
    for (look *one = taps->first; one; one = one->next)
        if (one->vertex == vertex && !one->frame && !mr_store_copy(run->store, frame, &one->frame))
            taps->wanted[vertex]--;
    pthread_cond_broadcast(&taps->changed);
    pthread_mutex_unlock(&taps->lock);
}

static void leave(mr_taps *taps, look *mine) {
    look **at = &taps->first;
    while (*at != mine)
        at = &(*at)->next;
    *at = mine->next;
    if (!mine->frame)
        taps->wanted[mine->vertex]--;
}

static mr_frame *wait_for_frame(const mr_run *run, size_t vertex, int64_t until_ns) {
    mr_taps *taps = run->taps;
    look mine = {.vertex = vertex};
    MR_LOCKED(&taps->lock);
    mine.next = taps->first;
    taps->first = &mine;
    taps->wanted[vertex]++;
    for (int64_t left; !mine.frame && (left = until_ns - mr_now_ns()) > 0 && !mr_ending_is_over(run->ending);) {
        const struct timespec until = mr_condition_until(left < look_ns ? left : look_ns);
        pthread_cond_timedwait(&taps->changed, &taps->lock, &until);
    }
    leave(taps, &mine);
    return mine.frame;
}

static int wait_for_device(const mr_frame *frame, int64_t until_ns) {
    const struct timespec pause = {.tv_nsec = poll_ns};
    while (frame->ready && !mr_event_done(frame->ready)) {
        if (mr_now_ns() >= until_ns)
            return MR_ERROR_AGAIN;
        nanosleep(&pause, NULL);
    }
    return frame->ready ? mr_event_status(frame->ready) : MR_OK;
}

int mr_taps_wait(const mr_run *run, const mr_plan_vertex *stage, int64_t timeout_ns, mr_frame **frame) {
    const int64_t until_ns = mr_now_ns() + timeout_ns;
    *frame = wait_for_frame(run, (size_t)(stage - run->plan->vertices), until_ns);
    int status = mr_ending_is_over(run->ending) ? MR_ERROR_CLOSED : MR_ERROR_AGAIN;
    if (*frame)
        status = wait_for_device(*frame, until_ns);
    if (status && *frame)
        mr_frame_unref(frame);
    if (status == MR_ERROR_CLOSED)
        return mr_fail(status, "the run has ended");
    if (status == MR_ERROR_AGAIN)
        return mr_fail(status, "no frame has passed %s in time", stage->id);
    return status ? mr_fail(status, "a device failed while it worked on a frame of %s", stage->id) : MR_OK;
}
