/* A simulated device's work: when each piece is due, and doing it. A device thread does it in real time; mr_sim_advance
 * does it for a manual device. */
#include "engine/device/sim/sim_run.h"

#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/device/sim/sim_memory.h"
#include "engine/device/sim/sim_order.h"
#include "millrace/status.h"

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

/* ---- when ------------------------------------------------------------------------------------------------------ */

/* A manual device advances to the end of time when a stream is destroyed; nothing comes after that. */
static int64_t later(int64_t now_ns, int64_t step_ns) {
    return now_ns > INT64_MAX - step_ns ? INT64_MAX : now_ns + step_ns;
}

static int64_t time_of(size_t bytes, int64_t rate) {
    return rate ? (int64_t)((double)bytes * 1e9 / (double)rate) : 0;
}

static int64_t launch_of(const sim_device *self, const sim_item *work) {
    return work->joined ? 0 : self->params.call_ns;
}

static int64_t cost_of(const sim_device *self, const sim_item *work) {
    const mr_sim_params *p = &self->params;
    switch (work->engine) {
    case MR_ENGINE_UPLOAD:
        return time_of(work->copied_bytes, p->upload_rate);
    case MR_ENGINE_DOWNLOAD:
        return time_of(work->copied_bytes, p->download_rate);
    default:
        break;
    }
    return work->copied_bytes ? time_of(2 * work->copied_bytes, p->compute_rate)
                              : launch_of(self, work) + time_of(work->touched_bytes, p->compute_rate);
}

/* Which of the kernels that run side by side ends first; NULL: there is only one at a time, or the work is a copy. */
static int64_t *free_lane(sim_device *self, const sim_item *work) {
    int64_t lanes = self->params.kernels < SIM_LANES ? self->params.kernels : SIM_LANES;
    int64_t *first = lanes > 1 && work->engine == MR_ENGINE_COMPUTE && !work->copied_bytes ? self->lane_ns : NULL;
    for (int64_t i = 1; first && i < lanes; i++)
        if (self->lane_ns[i] < *first)
            first = &self->lane_ns[i];
    return first;
}

/* A kernel among others: its launch runs in parallel, and its bytes wait for theirs. */
static void share_compute(sim_device *self, sim_item *work, int64_t *lane, int64_t begin, int64_t cost) {
    int64_t *busy = &self->free_ns[MR_ENGINE_COMPUTE], launch = launch_of(self, work);
    work->begin_ns = begin < *lane ? *lane : begin;
    int64_t moved = later(work->begin_ns, launch);
    if (cost > launch) {
        moved = later(moved < *busy ? *busy : moved, cost - launch);
        *busy = moved;
    }
    work->due_ns = *lane = moved;
}

/* The engine that a piece keeps busy. */
static mr_engine engine_of(const sim_device *self, const sim_item *work) {
    return work->engine == MR_ENGINE_DOWNLOAD && self->params.copies == 1 ? MR_ENGINE_UPLOAD : work->engine;
}

/* Sets the time for work that is now first in its stream. In real time that may have passed when it is looked at, and
 * must not add up. */
static void schedule(sim_device *self, sim_item *work, int64_t now_ns) {
    const mr_sim_params *p = &self->params;
    int64_t begin = now_ns;
    if (self->timed && !p->manual)
        begin = work->submitted_ns > work->stream->at_ns ? work->submitted_ns : work->stream->at_ns;
    int64_t cost = cost_of(self, work) + draw_delay(self);
    if (p->slow_after && ++self->begun_count >= p->slow_after && p->slow > 1)
        cost = cost > INT64_MAX / p->slow ? INT64_MAX : cost * p->slow;
    int64_t *lane = self->timed ? free_lane(self, work) : NULL;
    if (lane) {
        share_compute(self, work, lane, begin, cost);
        return;
    }
    int64_t *busy = &self->free_ns[engine_of(self, work)];
    work->begin_ns = self->timed && begin < *busy ? *busy : begin;
    work->due_ns = *busy = later(work->begin_ns, cost);
}

/* When the head of a stream can be done; INT64_MAX: when something tells. */
static int64_t head_due_ns(sim_device *self, sim_item *head, int64_t now_ns) {
    switch (head->kind) {
    case SIM_WORK:
        if (head->due_ns < 0)
            schedule(self, head, now_ns);
        return head->due_ns;
    case SIM_WAIT:
        return head->arrived ? now_ns : INT64_MAX;
    case SIM_RECORD:
        break;
    }
    return now_ns;
}

/* True if the head of a stream can be done now; else *next_ns is moved up to when it can, if that is known. */
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

/* ---- doing it -------------------------------------------------------------------------------------------------- */

static sim_item *take_head(sim_stream *stream) {
    sim_item *head = stream->head;
    stream->head = head->next;
    if (!stream->head)
        stream->tail = NULL;
    return head;
}

/* Counts a piece and returns whether it must fail. */
static bool must_fail(sim_device *self) {
    const mr_sim_params *p = &self->params;
    int64_t number = ++self->work_count;
    self->lost = self->lost || (p->lose_after && number >= p->lose_after);
    return self->lost || (p->fail_after && number >= p->fail_after) || (p->fail_every && number % p->fail_every == 0);
}

static void tell_trace(const sim_device *self, const sim_item *work) {
    const mr_work_note note = {work->engine,       work->stage,    work->frame,
                               work->copied_bytes, work->begin_ns, work->due_ns};
    self->device.trace(self->device.trace_context, &self->device, &note);
}

/* The parameter `corrupt`. */
static int do_wrong(sim_device *self, sim_item *work) {
    uint8_t *before = mr_sim_keep_touched(work);
    if (!before)
        return mr_fail(MR_ERROR_MEMORY, "%s: no memory to find the bytes that work changes", self->device.name);
    int status = work->function(work->u.arguments);
    self->corrupted = !status && mr_sim_corrupt_touched(work, before);
    mr_free(before);
    return status;
}

/* Without the lock; only one thread at a time does work. */
static int perform(sim_device *self, sim_item *work, bool fails) {
    /* Work that fails may have begun, so its memory must exist as well. */
    int status = mr_sim_check_touched(work);
    if (!status && fails)
        status = mr_fail(MR_ERROR_DEVICE, "%s: simulated failure", self->device.name);
    bool corrupts = self->params.corrupt && !self->corrupted && !work->copied_bytes &&
                    work->frame.seq + 1 == (uint64_t)self->params.corrupt;
    if (!status)
        status = corrupts ? do_wrong(self, work) : work->function(work->u.arguments);
    mr_sim_untouch(work);
    mr_sim_lock();
    work->stream->done = work->tick;
    mr_sim_unlock();
    if (self->device.trace)
        tell_trace(self, work);
    return status;
}

static void do_work(sim_device *self, sim_stream *stream) {
    sim_item *work = take_head(stream);
    bool fails = must_fail(self);
    stream->busy = true;
    pthread_mutex_unlock(&self->lock);
    int status = perform(self, work, fails);
    pthread_mutex_lock(&self->lock);
    stream->busy = false;
    stream->at_ns = work->due_ns;
    if (status)
        stream->status = status;
    mr_sim_recycle(self, work);
}

static void do_record(sim_device *self, sim_stream *stream) {
    sim_item *record = take_head(stream);
    mr_event *event = record->event;
    int status = self->lost ? MR_ERROR_DEVICE : stream->status;
    stream->status = MR_OK;
    stream->busy = true;
    mr_sim_lock();
    mr_sim_order_recorded(record);
    mr_sim_unlock();
    mr_sim_recycle(self, record);
    pthread_mutex_unlock(&self->lock);
    mr_event_complete(event, status);
    mr_event_unref(&event);
    pthread_mutex_lock(&self->lock);
    stream->busy = false;
}

static void do_wait(sim_device *self, sim_stream *stream, int64_t now_ns) {
    sim_item *wait = take_head(stream);
    if (mr_event_status(wait->event))
        stream->status = mr_event_status(wait->event);
    stream->at_ns = now_ns;
    mr_event_forget(&wait->wait);
    mr_event_unref(&wait->event);
    mr_sim_recycle(self, wait);
}

/* Does the head of a stream. Called with the lock, which is given up meanwhile. */
static void do_head(sim_device *self, sim_stream *stream, int64_t now_ns) {
    switch (stream->head->kind) {
    case SIM_WORK:
        do_work(self, stream);
        break;
    case SIM_RECORD:
        do_record(self, stream);
        break;
    case SIM_WAIT:
        do_wait(self, stream, now_ns);
        break;
    }
    pthread_cond_broadcast(&self->changed);
}

int64_t mr_sim_advance(mr_device *device, int64_t now_ns) {
    sim_device *self = (sim_device *)device;
    int64_t next;
    MR_LOCKED(&self->lock);
    for (sim_stream *stream; (stream = find_ready(self, now_ns, &next));)
        do_head(self, stream, now_ns);
    return next;
}

void *mr_sim_run(void *context) {
    sim_device *self = context;
    MR_LOCKED(&self->lock);
    while (!self->ending) {
        int64_t next, now = mr_now_ns();
        sim_stream *stream = find_ready(self, now, &next);
        if (stream) {
            do_head(self, stream, now);
        } else if (next == INT64_MAX) {
            pthread_cond_wait(&self->changed, &self->lock);
        } else {
            struct timespec until = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
            pthread_cond_timedwait(&self->changed, &self->lock, &until);
        }
    }
    return NULL;
}
