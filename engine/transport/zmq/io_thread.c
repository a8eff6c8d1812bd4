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
#include "engine/transport/zmq/routes.h"
#include "millrace/status.h"

/* So many messages of one socket are taken before other work is done. */
enum { BURST = 64 };
/* Parts below this are copied by whoever keeps them: a buffer costs as much. */
enum { KEPT_BYTES = 4096 };
enum { MOST_PARTS = MR_WIRE_BLOCKS + 1 };
enum { THREAD_NAME = 16 };
static const int64_t NS_PER_S = 1000000000;

struct mr_carrier {
    mr_carrier_params params;
    mr_zmq **sockets;
    struct pollfd *polled;  /* the sockets' descriptors, then the eventfd, then what is watched */
    nfds_t polled_count;
    bool routed;            /* one ROUTER */
    mr_routes routes;
    int event;
    atomic_bool woken, asleep;
    pthread_mutex_t duty;   /* held by whoever uses the sockets and calls the owner: the thread, unless it sleeps */
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

/* Whoever takes a turn may be a thread that signals come to, and libzmq gives up what a signal interrupts, without that
 * anything was wrong. */
static int take_part(void *socket, zmq_msg_t *part) {
    int bytes;
    do
        bytes = zmq_msg_recv(part, socket, ZMQ_DONTWAIT);
    while (bytes < 0 && errno == EINTR);
    return bytes;
}

static int give_part(void *socket, zmq_msg_t *part, int more) {
    int bytes;
    do
        bytes = zmq_msg_send(part, socket, ZMQ_DONTWAIT | more);
    while (bytes < 0 && errno == EINTR);
    return bytes;
}

static int give_bytes(void *socket, const void *data, size_t count, int more) {
    int bytes;
    do
        bytes = zmq_send(socket, data, count, ZMQ_DONTWAIT | more);
    while (bytes < 0 && errno == EINTR);
    return bytes;
}

static bool has_part(void *socket) {
    int events, failed;
    size_t bytes = sizeof events;
    do
        failed = zmq_getsockopt(socket, ZMQ_EVENTS, &events, &bytes);
    while (failed && errno == EINTR);
    return !failed && events & ZMQ_POLLIN;
}

/* ---- receiving --------------------------------------------------------------------------------------------------- */

/* A part that frames may point into. */
static void release_message(void *context) {
    zmq_msg_close(context);
    mr_free(context);
}

/* Where there is no memory for it, the part is only borrowed, and copied. */
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

static void add_part(mr_carrier *carrier, zmq_msg_t *message) {
    mr_wire_part *part = &carrier->parts[carrier->part_count++];
    *part = (mr_wire_part){zmq_msg_data(message), zmq_msg_size(message), NULL};
    if (carrier->part_count > 1 && part->bytes >= KEPT_BYTES && (part->buffer = keep(message)))
        part->data = part->buffer->data;
}

static void drop_parts(mr_carrier *carrier) {
    for (size_t i = 0; i < carrier->part_count; i++) {
        zmq_msg_close(&carrier->messages[i]);
        mr_buffer_unref(&carrier->parts[i].buffer);
    }
    carrier->part_count = 0;
}

/* Reads the parts that follow. False: there are too many, and all are gone. */
static bool receive_parts(mr_carrier *carrier, void *socket) {
    bool fits = true, more = true;
    while (more) {
        zmq_msg_t beyond, *message = fits ? &carrier->messages[carrier->part_count] : &beyond;
        zmq_msg_init(message);
        if (take_part(socket, message) < 0) {
            zmq_msg_close(message);
            return false;
        }
        more = zmq_msg_more(message);
        if (fits)
            add_part(carrier, message);
        else
            zmq_msg_close(message);
        fits = fits && (carrier->part_count < MOST_PARTS || !more);
    }
    return fits;
}

/* Over which connection it has come libzmq says of each part, but not of the id where it has read that ahead. */
static uint32_t hear(mr_carrier *carrier, zmq_msg_t *id) {
    uint32_t forgotten;
    int fd = carrier->part_count ? zmq_msg_get(&carrier->messages[0], ZMQ_SRCFD) : -1;
    uint32_t route = mr_routes_hear(&carrier->routes, zmq_msg_data(id), zmq_msg_size(id), fd, &forgotten);
    if (forgotten != MR_NO_ROUTE)
        carrier->params.lost(carrier->params.context, forgotten);
    return route;
}

/* One message; false where there is none. What it begins with, at a ROUTER, is the sender's id; that alone is a message
 * without parts. */
static bool receive(mr_carrier *carrier, size_t index) {
    void *socket = mr_zmq_handle(carrier->sockets[index]);
    uint32_t route = (uint32_t)index;
    bool more = true;
    zmq_msg_t id;
    zmq_msg_init(&id);
    if (carrier->routed) {
        if (take_part(socket, &id) < 0)
            return zmq_msg_close(&id), false;
        more = zmq_msg_more(&id);
    }
    bool whole = more && receive_parts(carrier, socket);
    if (carrier->routed)
        route = hear(carrier, &id);
    zmq_msg_close(&id);
    if (!whole && carrier->part_count == 0 && !carrier->routed)
        return false;
    carrier->params.receive(carrier->params.context, route, carrier->parts, whole ? carrier->part_count : 0);
    drop_parts(carrier);
    return true;
}

/* Takes what has come, up to a burst of each socket. Whether there may be more. */
static bool receive_some(mr_carrier *carrier) {
    bool more = false;
    for (size_t i = 0; i < carrier->params.socket_count; i++) {
        int count = 0;
        while (count < BURST && receive(carrier, i))
            count++;
        more |= count == BURST;
    }
    return more;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void release_buffer(void *data, void *buffer) {
    mr_buffer *gone = buffer;
    (void)data;
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

static int send_part(void *socket, const mr_wire_part *part, int more) {
    zmq_msg_t message;
    if (fill(&message, part))
        return -1;
    int sent = give_part(socket, &message, more);
    if (sent < 0) {
        int error = errno;
        zmq_msg_close(&message);
        errno = error;
    }
    return sent;
}

static bool send_id(mr_carrier *carrier, uint32_t route) {
    const mr_route_entry *entry = mr_routes_find(&carrier->routes, route);
    if (entry && give_bytes(mr_zmq_handle(carrier->sockets[0]), entry->id, entry->bytes, ZMQ_SNDMORE) >= 0)
        return true;
    if (entry && errno == EAGAIN)
        return false;
    mr_routes_forget(&carrier->routes, route);
    carrier->params.lost(carrier->params.context, route);
    return false;
}

bool mr_carrier_send(mr_carrier *carrier, uint32_t route, const mr_wire_part *parts, size_t count) {
    carrier->sent = true;
    if (carrier->routed && !send_id(carrier, route))
        return false;
    void *socket = mr_zmq_handle(carrier->sockets[carrier->routed ? 0 : route]);
    for (size_t i = 0; i < count; i++)
        if (send_part(socket, &parts[i], i + 1 < count ? ZMQ_SNDMORE : 0) < 0) {
            /* What has begun must end, or the next message would belong to it; the peer refuses it. */
            if (carrier->routed || i > 0)
                give_bytes(socket, "", 0, 0);
            return false;
        }
    return true;
}

void mr_carrier_know(mr_carrier *carrier, uint32_t route, uint32_t peer) {
    const mr_route_entry *entry = mr_routes_know(&carrier->routes, route, peer);
    if (entry)
        mr_zmq_know(carrier->sockets[0], peer, entry->fd);
}

uint64_t mr_carrier_refused(const mr_carrier *carrier) {
    uint64_t refused = 0;
    for (size_t i = 0; i < carrier->params.socket_count; i++)
        refused += mr_zmq_refused(carrier->sockets[i]);
    return refused;
}

void mr_carrier_renew(mr_carrier *carrier, uint32_t route) {
    carrier->sent = true;
    mr_zmq_renew(carrier->sockets[route]);
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Whether a message waits. A socket's descriptor tells only of changes, so this is asked before each sleep. */
static bool has_message(const mr_carrier *carrier) {
    for (size_t i = 0; i < carrier->params.socket_count; i++)
        if (has_part(mr_zmq_handle(carrier->sockets[i])))
            return true;
    return false;
}

static void wait_until(mr_carrier *carrier, int64_t wake_ns) {
    int64_t left_ns = wake_ns == INT64_MAX ? 0 : wake_ns - mr_clock_now_ns(mr_clock_real());
    const struct timespec left = {.tv_sec = left_ns / NS_PER_S, .tv_nsec = left_ns % NS_PER_S};
    if (left_ns < 0)
        return;
    pthread_mutex_unlock(&carrier->duty);
    ppoll(carrier->polled, carrier->polled_count, wake_ns == INT64_MAX ? NULL : &left, NULL);
    pthread_mutex_lock(&carrier->duty);
}

/* Who wakes notes that first and then looks whether it sleeps; here it is the other way round. */
static void sleep_a_while(mr_carrier *carrier) {
    struct pollfd *event = &carrier->polled[carrier->params.socket_count];
    event->revents = 0;
    atomic_store(&carrier->asleep, true);
    if (!atomic_load(&carrier->woken) && !has_message(carrier))
        wait_until(carrier, carrier->wake_ns);
    atomic_store(&carrier->asleep, false);
    if (event->revents & POLLIN) {
        uint64_t count;
        ssize_t got = read(carrier->event, &count, sizeof count);
        (void)got; /* Nothing to read is as well: it was a wake-up all the same. */
    }
}

static void *run(void *context) {
    mr_carrier *carrier = context;
    pthread_mutex_lock(&carrier->duty);
    for (bool goes_on = true; goes_on;) {
        atomic_store(&carrier->woken, false);
        bool more = receive_some(carrier);
        goes_on = carrier->params.work(carrier->params.context, &carrier->wake_ns);
        if (goes_on && !more)
            sleep_a_while(carrier);
    }
    pthread_mutex_unlock(&carrier->duty);
    return NULL;
}

void mr_carrier_wake(mr_carrier *carrier) {
    if (atomic_exchange(&carrier->woken, true) || !atomic_load(&carrier->asleep))
        return;
    uint64_t one = 1;
    ssize_t written = write(carrier->event, &one, sizeof one);
    (void)written; /* It cannot be full: one is written for one sleep. */
}

/* Whether the thread sleeps, and its duty is now the caller's; else it is woken. */
static bool take_duty(mr_carrier *carrier) {
    if (atomic_load(&carrier->asleep) && !pthread_mutex_trylock(&carrier->duty))
        return true;
    mr_carrier_wake(carrier);
    return false;
}

bool mr_carrier_listen(mr_carrier *carrier) {
    if (!take_duty(carrier))
        return false;
    carrier->params.listen(carrier->params.context);
    pthread_mutex_unlock(&carrier->duty);
    return true;
}

/* Sending may make a socket forget that its descriptor was to tell of a message; so the thread is woken where one is
 * there, or where it sleeps for too long by what the work has changed. */
void mr_carrier_take_turn(mr_carrier *carrier) {
    if (!take_duty(carrier))
        return;
    const int64_t until_ns = carrier->wake_ns;
    carrier->sent = false;
    bool goes_on = carrier->params.work(carrier->params.context, &carrier->wake_ns);
    bool wake = !goes_on || carrier->wake_ns < until_ns || (carrier->sent && has_message(carrier));
    pthread_mutex_unlock(&carrier->duty);
    if (wake)
        mr_carrier_wake(carrier);
}

void mr_carrier_watch(mr_carrier *carrier, int fd) {
    if (fd >= 0)
        carrier->polled[carrier->polled_count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

/* Signals are for the threads of the program. */
int mr_carrier_begin(mr_carrier *carrier) {
    sigset_t all, before;
    char name[THREAD_NAME];
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    carrier->running = pthread_create(&carrier->thread, NULL, run, carrier) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!carrier->running)
        return mr_fail(MR_ERROR_MEMORY, "cannot start a thread for %s", carrier->params.id);
    snprintf(name, sizeof name, "%s", carrier->params.id);
    pthread_setname_np(carrier->thread, name);
    return MR_OK;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static int set(const mr_zmq *socket, int option, int value) {
    return zmq_setsockopt(mr_zmq_handle(socket), option, &value, sizeof value);
}

/* What nobody is there for is not kept for whoever comes later. */
static int set_options(const mr_carrier *carrier, const mr_zmq *socket) {
    if (carrier->routed ? set(socket, ZMQ_ROUTER_MANDATORY, 1) : set(socket, ZMQ_IMMEDIATE, 1))
        return mr_fail(MR_ERROR_INTERNAL, "ZeroMQ refuses an option: %s", zmq_strerror(errno));
    return MR_OK;
}

static int open_socket(mr_carrier *carrier, size_t index) {
    int fd = -1;
    size_t bytes = sizeof fd;
    int status = mr_zmq_create(&carrier->sockets[index], &carrier->params.sockets[index]);
    if (!status)
        status = set_options(carrier, carrier->sockets[index]);
    if (!status)
        status = mr_zmq_attach(carrier->sockets[index]);
    if (!status && zmq_getsockopt(mr_zmq_handle(carrier->sockets[index]), ZMQ_FD, &fd, &bytes))
        status = mr_fail(MR_ERROR_INTERNAL, "ZeroMQ has no descriptor: %s", zmq_strerror(errno));
    carrier->polled[index] = (struct pollfd){.fd = fd, .events = POLLIN};
    return status;
}

static int open_all(mr_carrier *carrier) {
    size_t count = carrier->params.socket_count;
    carrier->sockets = mr_calloc(count, sizeof(mr_zmq *));
    carrier->polled = mr_calloc(count + 2, sizeof *carrier->polled);
    if (!carrier->sockets || !carrier->polled)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the sockets of %s", carrier->params.id);
    if ((carrier->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "no eventfd: %s", strerror(errno));
    carrier->polled[count] = (struct pollfd){.fd = carrier->event, .events = POLLIN};
    carrier->polled_count = count + 1;
    int status = carrier->routed ? mr_routes_init(&carrier->routes, carrier->params.most_routes) : MR_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = open_socket(carrier, i);
    return status;
}

int mr_carrier_open(mr_carrier **carrier, const mr_carrier_params *params) {
    mr_carrier *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %s", params->id);
    made->params = *params;
    made->routed = params->sockets[0].type == ZMQ_ROUTER;
    made->event = -1;
    made->wake_ns = INT64_MAX;
    pthread_mutex_init(&made->duty, NULL);
    int status = open_all(made);
    made->params.sockets = NULL;
    if (status)
        mr_carrier_close(&made, 0);
    else
        *carrier = made;
    return status;
}

void mr_carrier_close(mr_carrier **carrier, int linger_ms) {
    mr_carrier *gone = *carrier;
    if (!gone)
        return;
    if (gone->running)
        pthread_join(gone->thread, NULL);
    for (size_t i = 0; gone->sockets && i < gone->params.socket_count; i++)
        mr_zmq_close(&gone->sockets[i], linger_ms);
    if (gone->event >= 0)
        close(gone->event);
    pthread_mutex_destroy(&gone->duty);
    mr_routes_fini(&gone->routes);
    mr_free(gone->sockets);
    mr_free(gone->polled);
    mr_free(gone);
    *carrier = NULL;
}
