#include "engine/observe/trace_parts.h"

#include <string.h>
#include <time.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/log.h"
#include "millrace/status.h"

/* A ring holds the events of a busy thread for many times the writer's pause. If there are very many threads, late ones
 * have smaller rings. */
enum { ROOM = 8192, ROOM_LATE = 512, LATE = 64, PAUSE_NS = 5000000 };

static _Thread_local struct {
    uint64_t serial;
    mr_trace_ring *ring;
} here;

/* ---- rings ------------------------------------------------------------------------------------------------------- */

static mr_trace_ring *find_ring(mr_trace *trace) {
    for (mr_trace_ring *ring = trace->rings; ring; ring = ring->next)
        if (pthread_equal(ring->thread, pthread_self()))
            return ring;
    return NULL;
}

/* A ring for this thread; that of one which has ended may have the same name by now, and serves on. */
static mr_trace_ring *make_ring(mr_trace *trace) {
    if (trace->ring_count == MR_TRACE_RINGS)
        return NULL;
    uint64_t room = trace->ring_count < LATE ? ROOM : ROOM_LATE;
    mr_trace_ring *made = mr_calloc(1, sizeof *made + room * sizeof(mr_trace_event));
    if (!made)
        return NULL;
    made->thread = pthread_self();
    made->room = room;
    made->next = trace->rings;
    trace->rings = made;
    trace->ring_count++;
    return made;
}

/* Once for each thread and trace. */
static mr_trace_ring *take_ring(mr_trace *trace) {
    pthread_mutex_lock(&trace->lock);
    mr_trace_ring *ring = find_ring(trace);
    if (!ring)
        ring = make_ring(trace);
    pthread_mutex_unlock(&trace->lock);
    here.serial = trace->serial;
    here.ring = ring;
    return ring;
}

static void empty_ring(mr_trace *trace, mr_trace_ring *ring) {
    uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    uint64_t written = atomic_load_explicit(&ring->written, memory_order_acquire);
    for (; read < written; read++) {
        if (mr_trace_file_add(&trace->file, &ring->events[read & (ring->room - 1)], trace->origin_ns))
            mr_trace_file_flush(&trace->file, mr_trace_lost(trace), false);
        atomic_store_explicit(&ring->read, read + 1, memory_order_release);
    }
}

static void drain(mr_trace *trace) {
    pthread_mutex_lock(&trace->lock);
    mr_trace_ring *first = trace->rings;
    pthread_mutex_unlock(&trace->lock);
    for (mr_trace_ring *ring = first; ring; ring = ring->next)
        empty_ring(trace, ring);
    mr_trace_file_flush(&trace->file, mr_trace_lost(trace), false);
}

/* If the ring is full, waits until the writer has taken an event, or has ended. */
static void put(mr_trace *trace, const mr_trace_event *event) {
    mr_trace_ring *ring = here.serial == trace->serial ? here.ring : take_ring(trace);
    if (!ring || !event->track || atomic_load(&trace->finished)) {
        atomic_fetch_add_explicit(&trace->lost, 1, memory_order_relaxed);
        return;
    }
    uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    while (written - atomic_load_explicit(&ring->read, memory_order_acquire) == ring->room) {
        const struct timespec pause = {.tv_nsec = PAUSE_NS / 10};
        if (trace->lossy || atomic_load(&trace->finished)) {
            atomic_fetch_add_explicit(&ring->lost, 1, memory_order_relaxed);
            return;
        }
        nanosleep(&pause, NULL);
    }
    ring->events[written & (ring->room - 1)] = *event;
    atomic_store_explicit(&ring->written, written + 1, memory_order_release);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

void mr_trace_span(mr_trace *trace, mr_track *track, const char *name, int64_t begin_ns, int64_t end_ns,
                   const mr_trace_about *about) {
    mr_trace_event event = {.kind = MR_TRACE_SPAN, .track = track, .name = name, .at_ns = begin_ns, .more = end_ns};
    if (about)
        event.about = *about;
    put(trace, &event);
}

void mr_trace_instant(mr_trace *trace, mr_track *track, const char *name, int64_t at_ns, const mr_trace_about *about) {
    mr_trace_event event = {.kind = MR_TRACE_INSTANT, .track = track, .name = name, .at_ns = at_ns};
    if (about)
        event.about = *about;
    put(trace, &event);
}

void mr_trace_value(mr_trace *trace, mr_track *track, int64_t at_ns, int64_t value) {
    put(trace, &(mr_trace_event){.kind = MR_TRACE_VALUE, .track = track, .at_ns = at_ns, .more = value});
}

void mr_trace_arrow(mr_trace *trace, mr_track *track, mr_trace_step step, int64_t at_ns, const mr_identity *frame) {
    mr_trace_event event = {.kind = MR_TRACE_ARROW, .step = step, .track = track, .at_ns = at_ns};
    event.about.frame = *frame;
    put(trace, &event);
}

int64_t mr_trace_now_ns(const mr_trace *trace) {
    return mr_clock_now_ns(trace->clock);
}

/* After the writer's end, what is still in the rings is lost too. */
uint64_t mr_trace_lost(mr_trace *trace) {
    MR_LOCKED(&trace->lock);
    const bool finished = atomic_load(&trace->finished);
    uint64_t lost = atomic_load_explicit(&trace->lost, memory_order_relaxed);
    for (mr_trace_ring *ring = trace->rings; ring; ring = ring->next) {
        lost += atomic_load_explicit(&ring->lost, memory_order_relaxed);
        if (finished)
            lost += atomic_load_explicit(&ring->written, memory_order_relaxed) -
                    atomic_load_explicit(&ring->read, memory_order_relaxed);
    }
    return lost;
}

/* ---- tracks ------------------------------------------------------------------------------------------------------ */

/* The newest group is the first in the list. */
static mr_trace_group *take_group(mr_trace *trace, const char *name) {
    for (mr_trace_group *group = trace->groups; group; group = group->next)
        if (strcmp(group->name, name) == 0)
            return group;
    mr_trace_group *made = mr_calloc(1, sizeof *made);
    if (!made || !(made->name = mr_strdup(name))) {
        mr_free(made);
        return NULL;
    }
    made->number = trace->groups ? trace->groups->number + 1 : 1;
    made->next = trace->groups;
    return trace->groups = made;
}

static mr_track *make_track(mr_trace *trace, const char *group, const char *name) {
    mr_track *made = mr_calloc(1, sizeof *made);
    if (!made || !(made->name = mr_strdup(name)) || !(made->group = take_group(trace, group))) {
        if (made)
            mr_free(made->name);
        mr_free(made);
        return NULL;
    }
    made->number = ++trace->track_count;
    made->next = trace->tracks;
    return trace->tracks = made;
}

int mr_trace_add_track(mr_trace *trace, const char *group, const char *name, mr_track **track) {
    pthread_mutex_lock(&trace->lock);
    *track = make_track(trace, group, name);
    pthread_mutex_unlock(&trace->lock);
    return *track ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a track of the trace");
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static void *write_on(void *context) {
    mr_trace *trace = context;
    for (bool ending = false; !ending;) {
        const struct timespec until = mr_condition_until(PAUSE_NS);
        pthread_mutex_lock(&trace->lock);
        if (!trace->ending)
            pthread_cond_timedwait(&trace->changed, &trace->lock, &until);
        ending = trace->ending;
        pthread_mutex_unlock(&trace->lock);
        drain(trace);
    }
    return NULL;
}

static int start_writer(mr_trace *trace) {
    const int error = mr_thread_create(&trace->writer, write_on, trace);
    if (error)
        return mr_thread_fail(error, "the thread that writes %s", trace->file.path);
    trace->writing = true;
    pthread_setname_np(trace->writer, "mr-trace");
    return MR_OK;
}

static void init_lock(mr_trace *trace) {
    pthread_mutex_init(&trace->lock, NULL);
    mr_condition_init(&trace->changed);
}

int mr_trace_create(mr_trace **trace, const mr_trace_params *params) {
    static _Atomic uint64_t serial;
    *trace = NULL;
    mr_trace *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a trace");
    init_lock(made);
    made->serial = atomic_fetch_add(&serial, 1) + 1;
    made->clock = params->clock;
    made->origin_ns = mr_clock_now_ns(params->clock);
    made->lossy = params->lossy;
    int status = mr_trace_file_open(&made->file, params->path);
    if (!status)
        status = start_writer(made);
    if (status)
        mr_trace_destroy(&made);
    *trace = made;
    return status;
}

int mr_trace_finish(mr_trace *trace) {
    if (!atomic_load(&trace->finished)) {
        pthread_mutex_lock(&trace->lock);
        trace->ending = true;
        pthread_cond_signal(&trace->changed);
        pthread_mutex_unlock(&trace->lock);
        if (trace->writing)
            pthread_join(trace->writer, NULL);
        atomic_store(&trace->finished, true);
        const uint64_t lost = mr_trace_lost(trace);
        mr_trace_file_flush(&trace->file, lost, true);
        if (lost)
            mr_log(MR_LOG_WARNING,
                   "%s: %llu events are missing from the trace: they came faster than they could be written",
                   trace->file.path, (unsigned long long)lost);
    }
    return trace->file.status ? mr_fail(trace->file.status, "%s", trace->file.message) : MR_OK;
}

static void destroy_parts(mr_trace *trace) {
    for (mr_trace_ring *ring; (ring = trace->rings);) {
        trace->rings = ring->next;
        mr_free(ring);
    }
    for (mr_track *track; (track = trace->tracks);) {
        trace->tracks = track->next;
        mr_free(track->name);
        mr_free(track);
    }
    for (mr_trace_group *group; (group = trace->groups);) {
        trace->groups = group->next;
        mr_free(group->name);
        mr_free(group);
    }
}

void mr_trace_destroy(mr_trace **trace) {
    mr_trace *gone = *trace;
    if (!gone)
        return;
    *trace = NULL;
    if (gone->file.fd >= 0)
        mr_trace_finish(gone);
    mr_trace_file_close(&gone->file);
    destroy_parts(gone);
    pthread_cond_destroy(&gone->changed);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
}
