#include "engine/transport/zmq/io_thread.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/transport/zmq/routes.h"
#include "millrace/status.h"

/* Messages to read from one socket before other work is done. */
enum { BURST = 64 };
/* Smaller parts are copied by those that keep them: a buffer costs as much. */
enum { KEPT_BYTES = 4096 };
enum { MOST_PARTS = MR_WIRE_BLOCKS + 1 };
enum { THREAD_NAME = 16 };
static const int64_t NS_PER_S = 1000000000;

struct mr_io_thread {
    mr_io_thread_params params;
    mr_zmq **sockets;
    struct pollfd *polled;  /* the sockets' descriptors, then the eventfd, then the watched ones */
    nfds_t polled_count;
    bool routed;            /* one ROUTER */
    mr_routes routes;
    bool has_broken;        /* routes that are not reported as lost yet */
    int event;
    atomic_bool woken, asleep;
    pthread_mutex_t turn_lock;   /* held by the thread that uses the sockets and calls the owner: the I/O thread, unless
                                    it sleeps */
    int64_t wake_ns;        /* when it is to work again at the latest */
    bool sent;              /* since a turn began */
    pthread_t thread;
    bool running;
    /* the message that is being received */
    zmq_msg_t messages[MOST_PARTS];
    mr_wire_part parts[MOST_PARTS];
    size_t part_count;
};

/* ---- libzmq ------------------------------------------------------------------------------------------------------ */

/* Inline work may run on a thread that receives signals, and libzmq returns EINTR without any fault. */
static long give_bytes(void *socket, const void *data, size_t count, int more) {
    return TEMP_FAILURE_RETRY(zmq_send(socket, data, count, ZMQ_DONTWAIT | more));
}

static bool has_part(mr_zmq *socket) {
    int events;
    size_t bytes = sizeof events;
    if (TEMP_FAILURE_RETRY(zmq_getsockopt(mr_zmq_handle(socket), ZMQ_EVENTS, &events, &bytes)))
        return false;
    if (!(events & ZMQ_POLLIN))
        mr_zmq_note_empty(socket);
    return events & ZMQ_POLLIN;
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* A part that frames may point into. */
static void release_message(void *context) {
    zmq_msg_close(context);
    mr_free(context);
}

/* Without memory for a buffer the part is borrowed, and copied. */
static mr_buffer *keep(zmq_msg_t *message) {
    zmq_msg_t *kept = mr_alloc(sizeof *kept);
    if (!kept)
        return NULL;
    zmq_msg_init(kept);
    mr_buffer *buffer = NULL;
    if (!zmq_msg_move(kept, message))
        buffer = mr_buffer_wrap(zmq_msg_data(kept), zmq_msg_size(kept), release_message, kept);
    if (!buffer) {
        zmq_msg_move(message, kept);
        release_message(kept);
    }
    return buffer;
}

static void add_part(mr_io_thread *io_thread, zmq_msg_t *message) {
    mr_wire_part *part = &io_thread->parts[io_thread->part_count++];
    *part = (mr_wire_part){zmq_msg_data(message), zmq_msg_size(message), NULL};
    if (io_thread->part_count > 1 && part->bytes >= KEPT_BYTES && (part->buffer = keep(message)))
        part->data = part->buffer->data;
}

static void drop_parts(mr_io_thread *io_thread) {
    for (size_t i = 0; i < io_thread->part_count; i++) {
        zmq_msg_close(&io_thread->messages[i]);
        mr_buffer_unref(&io_thread->parts[i].buffer);
    }
    io_thread->part_count = 0;
}

/* Reads the remaining parts. False: too many, and all are discarded. */
static bool receive_parts(mr_io_thread *io_thread, mr_zmq *socket) {
    bool fits = true, more = true;
    while (more) {
        zmq_msg_t beyond, *message = fits ? &io_thread->messages[io_thread->part_count] : &beyond;
        zmq_msg_init(message);
        if (mr_zmq_receive(socket, message) < 0) {
            zmq_msg_close(message);
            return false;
        }
        more = zmq_msg_more(message);
        if (fits)
            add_part(io_thread, message);
        else
            zmq_msg_close(message);
        fits = fits && (io_thread->part_count < MOST_PARTS || !more);
    }
    return fits;
}

/* libzmq reports the connection of each part, but not for the id if it has read that ahead. */
static uint32_t receive_from(mr_io_thread *io_thread, zmq_msg_t *id) {
    uint32_t forgotten;
    int fd = io_thread->part_count ? zmq_msg_get(&io_thread->messages[0], ZMQ_SRCFD) : -1;
    uint32_t route = mr_routes_receive(&io_thread->routes, zmq_msg_data(id), zmq_msg_size(id), fd, &forgotten);
    if (forgotten != MR_NO_ROUTE)
        io_thread->params.lost(io_thread->params.context, forgotten);
    return route;
}

/* Reads one message; false if there is none. On a ROUTER the first part is the peer's id. A message without further
 * parts is empty. */
static bool receive(mr_io_thread *io_thread, size_t index) {
    mr_zmq *socket = io_thread->sockets[index];
    uint32_t route = (uint32_t)index;
    bool more = true;
    zmq_msg_t id;
    zmq_msg_init(&id);
    if (io_thread->routed) {
        if (mr_zmq_receive(socket, &id) < 0)
            return zmq_msg_close(&id), false;
        more = zmq_msg_more(&id);
    }
    bool whole = more && receive_parts(io_thread, socket);
    if (io_thread->routed)
        route = receive_from(io_thread, &id);
    zmq_msg_close(&id);
    if (!whole && io_thread->part_count == 0 && !io_thread->routed)
        return false;
    io_thread->params.receive(io_thread->params.context, route, io_thread->parts, whole ? io_thread->part_count : 0);
    drop_parts(io_thread);
    return true;
}

/* Receives up to a burst from each socket. Whether there may be more. */
static bool receive_some(mr_io_thread *io_thread) {
    bool more = false;
    for (size_t i = 0; i < io_thread->params.socket_count; i++) {
        int count = 0;
        while (count < BURST && receive(io_thread, i))
            count++;
        more |= count == BURST;
    }
    return more;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void release_buffer(void *data, void *buffer) {
    mr_buffer *gone = buffer;
    mr_buffer_unref(&gone);
}

static int fill(zmq_msg_t *message, const mr_wire_part *part) {
    if (part->buffer) {
        void *data = (void *)(uintptr_t)part->data;
        mr_buffer *buffer = mr_buffer_ref(part->buffer);
        if (!zmq_msg_init_data(message, data, part->bytes, release_buffer, buffer))
            return 0;
        mr_buffer_unref(&buffer);
        return -1;
    }
    if (zmq_msg_init_size(message, part->bytes))
        return -1;
    if (part->bytes)
        memcpy(zmq_msg_data(message), part->data, part->bytes);
    return 0;
}

static long send_part(void *socket, const mr_wire_part *part, int more) {
    zmq_msg_t message;
    if (fill(&message, part))
        return -1;
    long sent = TEMP_FAILURE_RETRY(zmq_msg_send(&message, socket, ZMQ_DONTWAIT | more));
    if (sent < 0) {
        int error = errno;
        zmq_msg_close(&message);
        errno = error;
    }
    return sent;
}

static bool send_id(mr_io_thread *io_thread, uint32_t route) {
    mr_route_entry *entry = mr_routes_find(&io_thread->routes, route);
    if (!entry)
        io_thread->params.lost(io_thread->params.context, route);
    if (!entry || entry->broken)
        return false;
    if (give_bytes(mr_zmq_handle(io_thread->sockets[0]), entry->id, entry->bytes, ZMQ_SNDMORE) >= 0)
        return true;
    entry->broken = errno != EAGAIN;
    io_thread->has_broken |= entry->broken;
    return false;
}

bool mr_io_thread_send(mr_io_thread *io_thread, uint32_t route, const mr_wire_part *parts, size_t count) {
    io_thread->sent = true;
    if (io_thread->routed && !send_id(io_thread, route))
        return false;
    void *socket = mr_zmq_handle(io_thread->sockets[io_thread->routed ? 0 : route]);
    for (size_t i = 0; i < count; i++)
        if (send_part(socket, &parts[i], i + 1 < count ? ZMQ_SNDMORE : 0) < 0) {
            /* A message that has begun must be completed, or the next one would be appended to it; the peer refuses it.
             */
            if (io_thread->routed || i > 0)
                give_bytes(socket, "", 0, 0);
            return false;
        }
    return true;
}

void mr_io_thread_identify(mr_io_thread *io_thread, uint32_t route, uint32_t peer) {
    const mr_route_entry *entry = mr_routes_know(&io_thread->routes, route, peer);
    if (entry)
        mr_zmq_know(io_thread->sockets[0], peer, entry->fd);
}

uint64_t mr_io_thread_refused(const mr_io_thread *io_thread) {
    uint64_t refused = 0;
    for (size_t i = 0; i < io_thread->params.socket_count; i++)
        refused += mr_zmq_refused(io_thread->sockets[i]);
    return refused;
}

void mr_io_thread_renew(mr_io_thread *io_thread, uint32_t route) {
    io_thread->sent = true;
    mr_zmq_renew(io_thread->sockets[route]);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Whether a message waits. A socket's descriptor signals only changes, so this is checked before each sleep. */
static bool has_message(const mr_io_thread *io_thread) {
    for (size_t i = 0; i < io_thread->params.socket_count; i++)
        if (has_part(io_thread->sockets[i]))
            return true;
    return false;
}

static void note_wait(const mr_io_thread *io_thread, bool waits) {
    for (size_t i = 0; i < io_thread->params.socket_count; i++)
        mr_zmq_note_wait(io_thread->sockets[i], waits);
}

static void wait_until(mr_io_thread *io_thread, int64_t wake_ns) {
    int64_t left_ns = wake_ns == INT64_MAX ? 0 : wake_ns - mr_now_ns();
    const struct timespec left = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    if (left_ns < 0)
        return;
    note_wait(io_thread, true);
    pthread_mutex_unlock(&io_thread->turn_lock);
    ppoll(io_thread->polled, io_thread->polled_count, wake_ns == INT64_MAX ? NULL : &left, NULL);
    note_wait(io_thread, false);
    pthread_mutex_lock(&io_thread->turn_lock);
}

/* The waking thread stores its flag and then checks for sleep; here the order is reversed. */
static void sleep_a_while(mr_io_thread *io_thread) {
    struct pollfd *event = &io_thread->polled[io_thread->params.socket_count];
    event->revents = 0;
    atomic_store(&io_thread->asleep, true);
    if (!atomic_load(&io_thread->woken) && !has_message(io_thread))
        wait_until(io_thread, io_thread->wake_ns);
    atomic_store(&io_thread->asleep, false);
    if (event->revents & POLLIN) {
        uint64_t count;
        ssize_t got = read(io_thread->event, &count, sizeof count);
        (void)got; /* Nothing to read is as well: it was a wake-up all the same. */
    }
}

/* By now everything that a peer sent before it closed the connection, such as a goodbye, has been received. */
static void report_broken(mr_io_thread *io_thread) {
    uint32_t route;
    if (!io_thread->has_broken)
        return;
    io_thread->has_broken = false;
    while ((route = mr_routes_forget_broken(&io_thread->routes)) != MR_NO_ROUTE)
        io_thread->params.lost(io_thread->params.context, route);
}

static void *run(void *context) {
    mr_io_thread *io_thread = context;
    pthread_mutex_lock(&io_thread->turn_lock);
    for (bool goes_on = true; goes_on;) {
        atomic_store(&io_thread->woken, false);
        bool more = receive_some(io_thread);
        report_broken(io_thread);
        goes_on = io_thread->params.work(io_thread->params.context, &io_thread->wake_ns);
        if (goes_on && !more && !io_thread->has_broken)
            sleep_a_while(io_thread);
    }
    pthread_mutex_unlock(&io_thread->turn_lock);
    return NULL;
}

void mr_io_thread_wake(mr_io_thread *io_thread) {
    if (atomic_exchange(&io_thread->woken, true) || !atomic_load(&io_thread->asleep))
        return;
    uint64_t one = 1;
    ssize_t written = write(io_thread->event, &one, sizeof one);
    (void)written; /* It cannot be full: one is written for one sleep. */
}

/* Locks the turn if the thread sleeps; otherwise wakes it. */
static bool try_turn(mr_io_thread *io_thread) {
    if (atomic_load(&io_thread->asleep) && !pthread_mutex_trylock(&io_thread->turn_lock))
        return true;
    mr_io_thread_wake(io_thread);
    return false;
}

bool mr_io_thread_receive_inline(mr_io_thread *io_thread) {
    if (!try_turn(io_thread))
        return false;
    io_thread->params.listen(io_thread->params.context);
    pthread_mutex_unlock(&io_thread->turn_lock);
    return true;
}

/* Sending may consume a socket's signal for a message; so the thread is woken if one waits, or if it would sleep too
 * long after the inline work. */
void mr_io_thread_work_inline(mr_io_thread *io_thread) {
    if (!try_turn(io_thread))
        return;
    const int64_t until_ns = io_thread->wake_ns;
    io_thread->sent = false;
    bool goes_on = io_thread->params.work(io_thread->params.context, &io_thread->wake_ns);
    bool wake = !goes_on || io_thread->has_broken || io_thread->wake_ns < until_ns ||
                (io_thread->sent && has_message(io_thread));
    pthread_mutex_unlock(&io_thread->turn_lock);
    if (wake)
        mr_io_thread_wake(io_thread);
}

void mr_io_thread_watch(mr_io_thread *io_thread, int fd) {
    if (fd >= 0)
        io_thread->polled[io_thread->polled_count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

/* Signals are for the threads of the program. */
int mr_io_thread_start(mr_io_thread *io_thread) {
    sigset_t all, before;
    char name[THREAD_NAME];
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = mr_thread_create(&io_thread->thread, run, io_thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    io_thread->running = error == 0;
    if (error)
        return mr_thread_fail(error, "a thread for %s", io_thread->params.id);
    snprintf(name, sizeof name, "%s", io_thread->params.id);
    pthread_setname_np(io_thread->thread, name);
    return MR_OK;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static int set(const mr_zmq *socket, int option, int value) {
    return zmq_setsockopt(mr_zmq_handle(socket), option, &value, sizeof value);
}

/* Without a connection messages are not kept. */
static int set_options(const mr_io_thread *io_thread, const mr_zmq *socket) {
    if (io_thread->routed ? set(socket, ZMQ_ROUTER_MANDATORY, 1) : set(socket, ZMQ_IMMEDIATE, 1))
        return mr_fail(MR_ERROR_INTERNAL, "ZeroMQ refuses an option: %s", zmq_strerror(errno));
    return MR_OK;
}

static int open_socket(mr_io_thread *io_thread, size_t index) {
    int fd = -1;
    size_t bytes = sizeof fd;
    int status = mr_zmq_create(&io_thread->sockets[index], &io_thread->params.sockets[index]);
    if (!status)
        status = set_options(io_thread, io_thread->sockets[index]);
    if (!status)
        status = mr_zmq_attach(io_thread->sockets[index]);
    if (!status && zmq_getsockopt(mr_zmq_handle(io_thread->sockets[index]), ZMQ_FD, &fd, &bytes))
        status = mr_fail(MR_ERROR_INTERNAL, "ZeroMQ gives no file descriptor: %s", zmq_strerror(errno));
    io_thread->polled[index] = (struct pollfd){.fd = fd, .events = POLLIN};
    return status;
}

static int open_all(mr_io_thread *io_thread) {
    size_t count = io_thread->params.socket_count;
    io_thread->sockets = mr_calloc(count, sizeof(mr_zmq *));
    io_thread->polled = mr_calloc(count + 2, sizeof *io_thread->polled);
    if (!io_thread->sockets || !io_thread->polled)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the sockets of %s", io_thread->params.id);
    if ((io_thread->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "no eventfd: %s", strerror(errno));
    io_thread->polled[count] = (struct pollfd){.fd = io_thread->event, .events = POLLIN};
    io_thread->polled_count = count + 1;
    int status = io_thread->routed ? mr_routes_init(&io_thread->routes, io_thread->params.most_routes) : MR_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = open_socket(io_thread, i);
    return status;
}

int mr_io_thread_open(mr_io_thread **io_thread, const mr_io_thread_params *params) {
    mr_io_thread *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", params->id);
    made->params = *params;
    made->routed = params->sockets[0].type == ZMQ_ROUTER;
    made->event = -1;
    made->wake_ns = INT64_MAX;
    pthread_mutex_init(&made->turn_lock, NULL);
    int status = open_all(made);
    made->params.sockets = NULL;
    if (status)
        mr_io_thread_close(&made, 0);
    else
        *io_thread = made;
    return status;
}

void mr_io_thread_close(mr_io_thread **io_thread, int linger_ms) {
    mr_io_thread *gone = *io_thread;
    if (!gone)
        return;
    if (gone->running)
        pthread_join(gone->thread, NULL);
    for (size_t i = 0; gone->sockets && i < gone->params.socket_count; i++)
        mr_zmq_close(&gone->sockets[i], linger_ms);
    if (gone->event >= 0)
        close(gone->event);
    pthread_mutex_destroy(&gone->turn_lock);
    mr_routes_fini(&gone->routes);
    mr_free(gone->sockets);
    mr_free(gone->polled);
    mr_free(gone);
    *io_thread = NULL;
}
