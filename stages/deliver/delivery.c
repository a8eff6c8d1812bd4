#include "stages/deliver/delivery.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"

/* How often a stage that waits is called again, and how often a waiting thread looks around. */
static const int64_t ASK_NS = 20000000, LOOK_NS = 100000000, LONGEST_PAUSE_NS = INT64_C(30000000000);

enum { SPARES = 2 };

const char *const mr_delivery_on_full[] = {[MR_DELIVERY_WAIT] = "wait",
                                           [MR_DELIVERY_FAIL] = "fail",
                                           [MR_DELIVERY_DROP_OLDEST] = "drop-oldest",
                                           [MR_DELIVERY_DROP_NEWEST] = "drop-newest",
                                           NULL};

/* A batch: open while it is the queue's last one, then closed. */
typedef struct block {
    struct block *next;
    mr_delivered *items;
    char *data;
    size_t count, room, bytes, data_room;
    int64_t since_ns; /* when the first record came */
    bool closed;
} block;

struct mr_delivery {
    const mr_stage *self;
    const mr_delivery_options *options;
    const mr_service_type *type;
    void *service;
    pthread_t thread;
    bool reached; /* the service has answered since the thread connected */
    atomic_bool stops;
    int wake;                 /* an eventfd, written once it stops */
    pthread_mutex_t lock;     /* guards the fields below */
    pthread_cond_t changed;
    block *first, *last;      /* oldest first */
    block *spare;             /* to be used again: at most SPARES, and none large */
    size_t spares;
    block *sending;           /* the thread reads it without the lock; always the first */
    bool ended;               /* flush has seen the end; the thread may still report a failure */
    bool hurries;             /* a source has ended: batches do not wait for more frames */
    int status;               /* the service's failure */
    char message[256];
    mr_service_report report;
};

bool mr_delivery_stops(const mr_delivery *delivery) {
    return atomic_load_explicit(&delivery->stops, memory_order_relaxed);
}

int mr_delivery_wake(const mr_delivery *delivery) {
    return delivery->wake;
}

const char *mr_delivery_run(const mr_stage *self) {
    const char *run = mr_stage_run(self);
    if (!run)
        mr_fail(MR_ERROR_CONFIG, "nothing says which run this process belongs to, so its records could not be told "
                "from others: start all processes of the run with the same number in MILLRACE_RUN");
    return run;
}

const mr_stage *mr_delivery_stage(const mr_delivery *delivery) {
    return delivery->self;
}

mr_service_report mr_delivery_report(const mr_delivery *delivery) {
    MR_LOCKED(&((mr_delivery *)(uintptr_t)delivery)->lock);
    return delivery->report;
}

/* ---- planning ---------------------------------------------------------------------------------------------------- */

int mr_delivery_negotiate(mr_negotiation *n) {
    const mr_delivery_options *given = n->options;
    if (given->send_bytes > given->backlog)
        return mr_refuse(n, "send_bytes", "a batch of %lld bytes does not fit into a backlog of %lld",
                         (long long)given->send_bytes, (long long)given->backlog);
    /* The block that grows last may pass the backlog by half of it, and spares may have a quarter each. */
    n->waiting_bytes = 2 * (size_t)given->backlog;
    n->threads = 1;
    return MR_OK;
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/* The memory that it has. */
static size_t memory_of(const block *one) {
    return one->data_room + one->room * sizeof *one->items + sizeof *one;
}

static void free_block(block *gone) {
    mr_free(gone->items);
    mr_free(gone->data);
    mr_free(gone);
}

static void free_blocks(block *one) {
    for (block *next; one; one = next) {
        next = one->next;
        free_block(one);
    }
}

/* Appends an empty block. */
static block *add_block(mr_delivery *d) {
    block *made = d->spare;
    if (made) {
        d->spare = made->next;
        d->spares--;
    } else if (!(made = mr_calloc(1, sizeof *made))) {
        return NULL;
    }
    *made = (block){.items = made->items, .room = made->room, .data = made->data, .data_room = made->data_room,
                    .since_ns = mr_now_ns()};
    d->report.waiting_bytes += memory_of(made);
    if (d->last)
        d->last->next = made;
    else
        d->first = made;
    d->last = made;
    return made;
}

/* Removes a block whose predecessor is `before`, or NULL, and keeps it for later unless it is large. */
static void remove_block(mr_delivery *d, block *before, block *gone) {
    *(before ? &before->next : &d->first) = gone->next;
    if (d->last == gone)
        d->last = before;
    d->report.waiting_bytes -= memory_of(gone);
    if (d->spares == SPARES || memory_of(gone) > (size_t)d->options->backlog / 4) {
        free_block(gone);
        return;
    }
    gone->next = d->spare;
    d->spare = gone;
    d->spares++;
}

/* Releases the frames of a block. */
static void release(mr_delivery *d, block *of, const char *dropped) {
    for (size_t i = 0; i < of->count; i++)
        mr_stage_release(d->self, &of->items[i].held, of->items[i].refused ? "refused" : dropped);
    d->report.waiting -= of->count;
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

/* `why`: NULL keeps the reason. After the end only a failure is news. */
static void set_phase(mr_delivery *d, mr_link_state phase, const char *why, int64_t next_ns) {
    MR_LOCKED(&d->lock);
    if (d->ended && phase != MR_LINK_FAILED && phase != MR_LINK_ENDED)
        return;
    d->ended |= phase == MR_LINK_ENDED;
    if (d->report.phase != phase)
        d->report.since_ns = mr_clock_date_ns();
    d->report.phase = phase;
    d->report.next_ns = next_ns;
    if (why)
        snprintf(d->report.why, sizeof d->report.why, "%s", why);
    mr_stage_report_service(d->self, &d->report);
}

static void fail(mr_delivery *d, int status) {
    set_phase(d, MR_LINK_FAILED, mr_message(), 0);
    MR_LOCKED(&d->lock);
    snprintf(d->message, sizeof d->message, "%s", mr_message());
    d->status = status;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Waits for a change, but not longer than that. With the lock. */
static void await(mr_delivery *d, int64_t most_ns) {
    const struct timespec until = mr_condition_until(most_ns);
    pthread_cond_timedwait(&d->changed, &d->lock, &until);
}

/* A batch that is due: if it is closed, or its time has come, or a source has ended. Closes it. */
static block *find_due(mr_delivery *d, int64_t *left_ns) {
    block *first = d->first;
    d->hurries &= first != NULL;
    *left_ns = first ? first->since_ns + d->options->send_after - mr_now_ns() : LOOK_NS;
    if (!first || (!first->closed && !d->hurries && *left_ns > 0))
        return NULL;
    first->closed = true;
    return d->sending = first;
}

/* Waits until a batch is due, but no longer than LOOK_NS. NULL: none is, or the delivery stops. */
static block *take(mr_delivery *d) {
    const int64_t until_ns = mr_now_ns() + LOOK_NS;
    int64_t left_ns, look_ns;
    block *due = NULL;
    MR_LOCKED(&d->lock);
    while (!mr_delivery_stops(d) && !(due = find_due(d, &left_ns)) && (look_ns = until_ns - mr_now_ns()) > 0)
        await(d, mr_earlier_ns(left_ns, look_ns));
    return due;
}

/* The batch is acknowledged, or refused for good, or records in it are refused. */
static void finish(mr_delivery *d, block *sent, bool refused) {
    size_t count = refused ? sent->count : 0, bytes = refused ? sent->bytes : 0;
    for (size_t i = 0; i < sent->count && !refused; i++) {
        count += sent->items[i].refused;
        bytes += sent->items[i].refused ? sent->items[i].bytes : 0;
    }
    if (count)
        mr_stage_warn(d->self, "%s; the records are dropped", mr_message());
    MR_LOCKED(&d->lock);
    snprintf(d->report.why, sizeof d->report.why, "%s", count ? mr_message() : "");
    d->report.batches += count < sent->count;
    d->report.frames += sent->count - count;
    d->report.bytes += sent->bytes - bytes;
    d->report.dropped += count;
    d->report.last_ns = count < sent->count ? mr_clock_date_ns() : d->report.last_ns;
    release(d, sent, refused ? "refused" : NULL);
    d->sending = NULL;
    remove_block(d, NULL, sent);
    mr_stage_report_service(d->self, &d->report);
}

/* Half to all of it, so that several runs do not come at the same moment. */
static int64_t jittered(int64_t pause_ns) {
    uint32_t random = 0;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = 0;
    return pause_ns / 2 + (int64_t)((double)pause_ns / 2 * random / UINT32_MAX);
}

static void pause_for(mr_delivery *d, int64_t pause_ns) {
    const int64_t until_ns = mr_now_ns() + pause_ns;
    MR_LOCKED(&d->lock);
    for (int64_t left_ns; !mr_delivery_stops(d) && (left_ns = until_ns - mr_now_ns()) > 0;) {
        await(d, mr_earlier_ns(left_ns, LOOK_NS));
        mr_stage_report_service(d->self, &d->report); /* more frames wait by now */
    }
}

/* Counts one more of them, and returns how many there are. */
static uint64_t count(mr_delivery *d, uint64_t *counter) {
    MR_LOCKED(&d->lock);
    return ++*counter;
}

/* The service has answered. */
static void note_live(mr_delivery *d) {
    d->reached = true;
    if (count(d, &d->report.connections) > 1)
        mr_stage_info(d->self, "connected again");
    set_phase(d, MR_LINK_LIVE, "", 0);
}

static int connect_once(mr_delivery *d) {
    set_phase(d, MR_LINK_CONNECTING, NULL, 0);
    count(d, &d->report.tries);
    d->reached = false;
    int status = d->type->connect(d->service, d);
    if (!status && !d->type->connects_late)
        note_live(d);
    return status;
}

static int send_once(mr_delivery *d, const block *due, bool *connected, bool again) {
    const mr_batch batch = {.count = due ? due->count : 0, .items = due ? due->items : NULL,
                            .data = due ? due->data : NULL, .bytes = due ? due->bytes : 0, .again = again};
    int status = *connected ? MR_OK : connect_once(d);
    *connected = !status;
    if (!status && due)
        status = d->type->send(d->service, d, &batch);
    else if (!status && d->type->idle)
        status = d->type->idle(d->service, d);
    const bool answered = !status || (status == MR_ERROR_PROTOCOL && d->type->connects_late);
    if (answered && due && !d->reached)
        note_live(d);
    if (!answered)
        d->type->disconnect(d->service);
    *connected &= answered;
    return status;
}

/* Sends a batch, or only connects or looks after the connection if there is none, until that succeeds. */
static int deliver(mr_delivery *d, block *due, bool *connected) {
    const int64_t since_ns = mr_now_ns();
    int64_t pause_ns = d->options->retry;
    for (int tries = 0;; tries++) {
        int status = send_once(d, due, connected, tries);
        if (status != MR_ERROR_AGAIN || mr_delivery_stops(d))
            return mr_delivery_stops(d) && status ? MR_ERROR_CANCELLED : status;
        const int64_t left_ns = d->options->give_up ? since_ns + d->options->give_up - mr_now_ns() : INT64_MAX;
        if (left_ns <= 0)
            return mr_fail(MR_ERROR_IO, "%s; it was away for longer than give_up allows", mr_message());
        const int64_t asked_ns = d->type->pause ? d->type->pause(d->service) : 0;
        const int64_t next_ns = mr_earlier_ns(asked_ns ? asked_ns : jittered(pause_ns), left_ns);
        mr_stage_warn(d->self, "%s; tries again", mr_message());
        set_phase(d, MR_LINK_AWAY, mr_message(), mr_clock_date_ns() + next_ns);
        pause_for(d, next_ns);
        if (due)
            count(d, &d->report.again);
        pause_ns = mr_earlier_ns(2 * pause_ns, LONGEST_PAUSE_NS);
    }
}

/* Until it is known whether the run begins or continues, no frame comes. */
static void await_state(mr_delivery *d) {
    MR_LOCKED(&d->lock);
    while (!mr_delivery_stops(d) && mr_stage_run_state(d->self) == MR_RUN_UNKNOWN)
        await(d, ASK_NS);
}

static void *run(void *context) {
    mr_delivery *d = context;
    bool connected = false;
    await_state(d);
    int status = mr_delivery_stops(d) ? MR_ERROR_CANCELLED : deliver(d, NULL, &connected);
    while (!status && !mr_delivery_stops(d)) {
        block *due = take(d);
        status = deliver(d, due, &connected);
        if (due && (!status || status == MR_ERROR_PROTOCOL))
            finish(d, due, status);
        status = due && status == MR_ERROR_PROTOCOL ? MR_OK : status;
    }
    if (connected && d->type->end)
        d->type->end(d->service, d);
    d->type->disconnect(d->service);
    if (status && status != MR_ERROR_CANCELLED)
        fail(d, status);
    else
        set_phase(d, MR_LINK_ENDED, "", 0);
    return NULL;
}

/* ---- the stage's calls ------------------------------------------------------------------------------------------- */

static void destroy_service(const mr_service_type *type, void *service) {
    if (type->destroy)
        type->destroy(service);
}

static void destroy(mr_delivery *gone) {
    destroy_service(gone->type, gone->service);
    free_blocks(gone->first);
    free_blocks(gone->spare);
    pthread_cond_destroy(&gone->changed);
    pthread_mutex_destroy(&gone->lock);
    if (gone->wake >= 0)
        close(gone->wake);
    mr_free(gone);
}

int mr_delivery_open(mr_delivery **delivery, const mr_stage *self, const mr_service_type *type, void *service) {
    mr_delivery *made = mr_calloc(1, sizeof *made);
    if (!made) {
        destroy_service(type, service);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a queue");
    }
    made->self = self;
    made->options = self->options;
    made->type = type;
    made->service = service;
    pthread_mutex_init(&made->lock, NULL);
    mr_condition_init(&made->changed);
    made->wake = eventfd(0, EFD_CLOEXEC);
    const int status = made->wake < 0 ? mr_fail(MR_ERROR_UNAVAILABLE, "no descriptor for %s: %s", self->id,
                                                strerror(errno))
                       : mr_thread_create(&made->thread, run, made)
                           ? mr_fail(MR_ERROR_MEMORY, "no thread for %s", self->id) : MR_OK;
    if (status) {
        destroy(made);
        return status;
    }
    pthread_setname_np(made->thread, "mr-deliver");
    *delivery = made;
    return MR_OK;
}

/* Whether the thread has failed; then mr_message has the reason. */
static int failure_of(mr_delivery *d) {
    MR_LOCKED(&d->lock);
    return d->status ? mr_fail(d->status, "%s", d->message) : MR_OK;
}

/* With the lock. False: no batch waits that is not being sent. */
static bool drop_oldest(mr_delivery *d) {
    block *oldest = d->sending ? d->sending->next : d->first;
    if (!oldest)
        return false;
    d->report.dropped += oldest->count;
    release(d, oldest, "queue full");
    remove_block(d, d->sending, oldest);
    return true;
}

static void close_block(mr_delivery *d, block *full) {
    full->closed = true;
    pthread_cond_signal(&d->changed);
}

/* Makes room for a record. MR_ERROR_AGAIN: there is none. *due: the records that wait for more frames are now sent, and
 * the service may be well. With the lock. */
static int make_room(mr_delivery *d, size_t bytes, bool *due) {
    const uint64_t most = (uint64_t)d->options->backlog;
    while (d->report.waiting && d->report.waiting_bytes + bytes > most) {
        *due = !d->first->closed;
        if (*due)
            close_block(d, d->first);
        if (*due || d->options->on_full != MR_DELIVERY_DROP_OLDEST || !drop_oldest(d))
            return MR_ERROR_AGAIN;
    }
    return MR_OK;
}

/* Whether a batch is large enough. Half a backlog can be sent while the other half fills. */
static bool is_full(const mr_delivery *d, const block *one) {
    return one->count >= (size_t)d->options->send_frames || one->bytes >= (size_t)d->options->send_bytes ||
           one->bytes + one->count * sizeof *one->items >= (size_t)d->options->backlog / 2;
}

/* With the lock. */
static int append(mr_delivery *d, mr_io *io, const mr_frame *frame, const void *record, size_t bytes) {
    block *to = d->last && !d->last->closed ? d->last : add_block(d);
    const size_t before = to ? memory_of(to) : 0;
    if (!to || !mr_grow((void **)&to->items, to->count, &to->room, sizeof *to->items) ||
        !mr_grow_bytes((void **)&to->data, &to->data_room, to->bytes + bytes))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a record of %zu bytes", bytes);
    memcpy(to->data + to->bytes, record, bytes);
    to->items[to->count++] = (mr_delivered){.held = mr_io_hold(io, frame), .source = frame->identity.source,
                                            .at = to->bytes, .bytes = bytes};
    to->bytes += bytes;
    d->report.waiting++;
    d->report.waiting_bytes += memory_of(to) - before;
    if (is_full(d, to))
        close_block(d, to);
    else if (to->count == 1)
        pthread_cond_signal(&d->changed);
    return MR_OK;
}

static int put(mr_delivery *d, mr_io *io, const mr_frame *frame, const void *record, size_t bytes) {
    MR_LOCKED(&d->lock);
    bool due = false;
    if (bytes > (size_t)d->options->backlog) {
        d->report.dropped++;
        mr_io_drop(io, frame, "too large");
        return MR_OK;
    }
    int status = make_room(d, bytes + sizeof(mr_delivered) + sizeof(block), &due);
    if (due)
        return status;
    if (status && d->options->on_full == MR_DELIVERY_FAIL)
        return mr_fail(MR_ERROR_IO, "%llu frames wait for the service, and the backlog is full%s%s",
                       (unsigned long long)d->report.waiting, *d->report.why ? ": " : "", d->report.why);
    if (status && d->options->on_full != MR_DELIVERY_WAIT) {
        d->report.dropped++;
        mr_io_drop(io, frame, "queue full");
        return MR_OK;
    }
    return status ? status : append(d, io, frame, record, bytes);
}

static int wait_more(mr_io *io) {
    mr_io_wake_at(io, mr_io_now_ns(io) + ASK_NS);
    return MR_WAIT;
}

int mr_delivery_put(mr_delivery *d, mr_io *io, const mr_frame *frame, const void *record, size_t bytes) {
    int status = failure_of(d);
    if (!status)
        status = put(d, io, frame, record, bytes);
    if (status != MR_ERROR_AGAIN)
        return status ? mr_io_refuse(io, status) : MR_DONE;
    if (!mr_stage_gives_up(d->self))
        return wait_more(io);
    mr_io_drop(io, frame, MR_REASON_STOPPED);
    return MR_DONE;
}

/* Whether frames of that source wait; MR_SOURCE_NONE: any. Batches no longer wait for more frames then. */
static bool hurry(mr_delivery *d, uint32_t source) {
    MR_LOCKED(&d->lock);
    bool any = source == MR_SOURCE_NONE && d->report.waiting;
    for (const block *one = d->first; one && !any && source != MR_SOURCE_NONE; one = one->next)
        for (size_t i = 0; i < one->count && !any; i++)
            any = one->items[i].source == source;
    d->hurries |= any;
    if (any)
        pthread_cond_signal(&d->changed);
    return any;
}

/* Drops all that wait. The batch that is being sent stays where it is, but its frames count as not settled. */
static void drop_all(mr_delivery *d) {
    MR_LOCKED(&d->lock);
    for (block *one = d->first; one; one = one->next)
        for (size_t i = 0; i < one->count; i++)
            mr_stage_release(d->self, &one->items[i].held, MR_REASON_STOPPED);
}

int mr_delivery_flush(mr_delivery *d, mr_io *io, uint32_t source) {
    const mr_release which = mr_io_must_release(io);
    int status = failure_of(d);
    if (status)
        return mr_io_refuse(io, status);
    if (which == MR_RELEASE_NONE)
        return MR_DONE;
    if (!hurry(d, which == MR_RELEASE_ALL ? MR_SOURCE_NONE : source)) {
        if (which == MR_RELEASE_ALL)
            set_phase(d, MR_LINK_ENDED, "", 0);
        return MR_DONE;
    }
    if (!mr_stage_gives_up(d->self))
        return wait_more(io);
    drop_all(d);
    return MR_DONE;
}

void mr_delivery_close(mr_delivery **delivery) {
    mr_delivery *gone = *delivery;
    if (!gone)
        return;
    pthread_mutex_lock(&gone->lock);
    atomic_store(&gone->stops, true);
    eventfd_write(gone->wake, 1);
    pthread_cond_broadcast(&gone->changed);
    pthread_mutex_unlock(&gone->lock);
    pthread_join(gone->thread, NULL);
    drop_all(gone);
    destroy(gone);
    *delivery = NULL;
}
