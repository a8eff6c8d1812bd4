#include "engine/transport/cut/arrivals.h"

#include <pthread.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"

/* The part of `many` that is reported once nothing more is open. */
enum { FEW = 2 };

struct mr_arrivals {
    mr_arrival *free;            /* I/O thread only */
    atomic_size_t open;          /* receipts */
    pthread_mutex_t lock;        /* guards what follows */
    mr_io_thread *io_thread;         /* NULL: closed */
    bool closed;
    mr_arrival *first, **last;   /* closed and not yet read */
    size_t count, many;
    bool gathering;              /* the I/O thread will poll by itself */
    bool expected;               /* a call of mr_arrivals_take is about to follow */
    int64_t gather_ns, until_ns;
    int returned;
};

int mr_arrivals_create(mr_arrivals **arrivals, size_t many, int64_t gather_ns) {
    mr_arrivals *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for what arrives");
    mr_lock_init(&made->lock);
    made->many = many;
    made->gather_ns = gather_ns;
    made->last = &made->first;
    *arrivals = made;
    return MR_OK;
}

void mr_arrivals_attach(mr_arrivals *arrivals, mr_io_thread *io_thread) {
    MR_LOCKED(&arrivals->lock);
    arrivals->io_thread = io_thread;
}

void mr_arrivals_set_returned(mr_arrivals *arrivals, int returned) {
    arrivals->returned = returned;
}

static void free_list(mr_arrival *first) {
    while (first) {
        mr_arrival *next = first->next;
        mr_free(first);
        first = next;
    }
}

static void destroy(mr_arrivals *arrivals) {
    free_list(arrivals->free);
    free_list(arrivals->first);
    pthread_mutex_destroy(&arrivals->lock);
    mr_free(arrivals);
}

void mr_arrivals_close(mr_arrivals **arrivals) {
    mr_arrivals *gone = *arrivals;
    *arrivals = NULL;
    if (!gone)
        return;
    pthread_mutex_lock(&gone->lock);
    gone->io_thread = NULL;
    gone->closed = true;
    bool last = gone->open == 0;
    pthread_mutex_unlock(&gone->lock);
    if (last)
        destroy(gone);
}

/* With nothing left to wait for, a part of many is as well: but where one comes after the other, not each by itself. */
static bool is_enough(const mr_arrivals *arrivals) {
    return !arrivals->gathering || arrivals->count >= arrivals->many ||
           (arrivals->open == 0 && arrivals->count * FEW >= arrivals->many);
}

/* A receipt has closed. The I/O thread is woken under the lock, so that it still exists. */
static void note_closed(mr_receipt_watcher *watcher, mr_note record, const char *stage, const char *reason) {
    mr_arrival *arrival = (mr_arrival *)(void *)watcher;
    mr_arrivals *arrivals = arrival->arrivals;
    pthread_mutex_lock(&arrivals->lock);
    arrival->record = record;
    arrival->stage = stage;
    arrival->reason = reason;
    arrival->next = NULL;
    *arrivals->last = arrival;
    arrivals->last = &arrival->next;
    arrivals->open--;
    arrivals->count++;
    if (arrivals->io_thread && is_enough(arrivals) && (!arrivals->expected || arrivals->count >= arrivals->many))
        mr_io_thread_wake(arrivals->io_thread);
    bool last = arrivals->closed && arrivals->open == 0;
    pthread_mutex_unlock(&arrivals->lock);
    if (last)
        destroy(arrivals);
}

int mr_arrivals_open(mr_arrivals *arrivals, mr_ledger *ledger, const mr_identity *frame, const mr_span_context *sent,
                     uint64_t ticket, mr_receipt **receipt) {
    mr_arrival *arrival = arrivals->free;
    if (arrival)
        arrivals->free = arrival->next;
    else if (!(arrival = mr_alloc(sizeof *arrival)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for what arrives");
    *arrival = (mr_arrival){
        .watcher = {.closed = note_closed, .returned = arrivals->returned},
        .arrivals = arrivals,
        .ticket = ticket,
        .source = frame->source};
    atomic_fetch_add(&arrivals->open, 1);
    int status = mr_ledger_arrive(ledger, frame, sent, &arrival->watcher, receipt);
    if (status) {
        atomic_fetch_sub(&arrivals->open, 1);
        arrival->next = NULL;
        mr_arrivals_give_back(arrivals, arrival);
    }
    return status;
}

void mr_arrivals_expect(mr_arrivals *arrivals) {
    MR_LOCKED(&arrivals->lock);
    arrivals->expected = true;
}

/* A single closing does not start a wait for others. */
mr_arrival *mr_arrivals_take(mr_arrivals *arrivals, bool all, int64_t now_ns, int64_t *wake_ns) {
    mr_arrival *first = NULL;
    MR_LOCKED(&arrivals->lock);
    bool due = now_ns >= arrivals->until_ns, alone = due && arrivals->count == 1;
    arrivals->expected = false;
    if (arrivals->first && (all || due || is_enough(arrivals))) {
        first = arrivals->first;
        arrivals->first = NULL;
        arrivals->last = &arrivals->first;
        arrivals->count = 0;
    }
    if (first || due) {
        arrivals->gathering = first && !alone;
        arrivals->until_ns = now_ns + arrivals->gather_ns;
    }
    if (arrivals->gathering && arrivals->until_ns < *wake_ns)
        *wake_ns = arrivals->until_ns;
    return first;
}

void mr_arrivals_give_back(mr_arrivals *arrivals, mr_arrival *first) {
    mr_arrival **end = &first;
    while (*end)
        end = &(*end)->next;
    *end = arrivals->free;
    arrivals->free = first;
}
