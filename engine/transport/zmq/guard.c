#include "engine/transport/zmq/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/log/repeats.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/observe/audit_log.h"
#include "engine/transport/zmq/peers.h"
#include "millrace/log.h"
#include "millrace/status.h"

enum { PART_BYTES = 256, ID_BYTES = 256, WHY_BYTES = 64 };
static const int64_t NS_PER_MS = 1000000;

typedef struct part {
    size_t bytes; /* as sent, which may be more than is kept */
    char data[PART_BYTES];
} part;

/* A handshake that is not answered until a peer has left. */
typedef struct waiting {
    struct waiting *next;
    part route, request;
    char address[PART_BYTES], key[MR_KEY_TEXT];
    int64_t until_ns; /* libzmq has closed the connection by then */
} waiting;

struct mr_zmq_guard {
    void *requests, *events; /* the guard thread's sockets */
    char id[ID_BYTES];
    pthread_mutex_t lock; /* of allow */
    mr_allow_list allow;
    _Atomic uint64_t refused;
    _Atomic int present; /* peers.made, for other threads */
    mr_zmq_peers peers;
    mr_zmq_taken taken;
    waiting *first, **last; /* handshakes that wait, in order */
    bool failed;      /* a handshake failed; libzmq's next event names the closed connection */
    char why[WHY_BYTES]; /* the reason; "": already reported by the answer */
    /* A peer that is refused tries again ten times a second, and one that is let in may come and go as often. */
    mr_audit_allowance refusals, welcomes;
    pthread_t thread;
    bool running;
};

/* ---- authentication (https://rfc.zeromq.org/spec/27) ------------------------------------------------------------- */

/* A request's parts in order, as a ROUTER gets them. CURVE's credentials are one key. */
enum { ROUTE, EMPTY, VERSION, REQUEST, DOMAIN, ADDRESS, ROUTING, MECHANISM, CREDENTIALS, PARTS };

/* Reads all parts of a message and keeps the first PARTS. Returns how many, or -1. */
static int receive(void *socket, part parts[PARTS], int flags) {
    part beyond;
    int count = 0, more = 1;
    for (size_t size = sizeof more; more; count++) {
        part *to = count < PARTS ? &parts[count] : &beyond;
        int bytes = zmq_recv(socket, to->data, PART_BYTES - 1, flags);
        if (bytes < 0)
            return -1;
        to->bytes = (size_t)bytes;
        to->data[to->bytes < PART_BYTES ? to->bytes : PART_BYTES - 1] = '\0';
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    }
    return count;
}

static size_t kept(const part *one) {
    return one->bytes < PART_BYTES ? one->bytes : 0;
}

/* False: the connection has closed since it asked. */
static bool reply(void *socket, const part *route, const part *request, const char *why, const char *user) {
    if (zmq_send(socket, route->data, kept(route), ZMQ_SNDMORE) < 0)
        return false;
    zmq_send(socket, "", 0, ZMQ_SNDMORE);
    zmq_send(socket, "1.0", 3, ZMQ_SNDMORE);
    zmq_send(socket, request->data, kept(request), ZMQ_SNDMORE);
    zmq_send(socket, why ? "400" : "200", 3, ZMQ_SNDMORE);
    zmq_send(socket, why ? why : "OK", why ? strlen(why) : 2, ZMQ_SNDMORE);
    zmq_send(socket, user, strlen(user), ZMQ_SNDMORE);
    zmq_send(socket, "", 0, 0);
    return true;
}

/* Why the peer is refused; NULL if it may connect. */
static const char *refusal(mr_zmq_guard *guard, const part parts[PARTS], int count) {
    if (count < CREDENTIALS || strcmp(parts[VERSION].data, "1.0") != 0)
        return "malformed request";
    bool curve = strcmp(parts[MECHANISM].data, "CURVE") == 0;
    MR_LOCKED(&guard->lock);
    if (guard->allow.count == 0 && strcmp(parts[MECHANISM].data, "NULL") != 0)
        return "no such mechanism";
    if (guard->allow.count && (!curve || count != PARTS || parts[CREDENTIALS].bytes != MR_KEY_BYTES))
        return "no key";
    if (guard->allow.count && !mr_allow_list_has(&guard->allow, (const uint8_t *)parts[CREDENTIALS].data))
        return "key not allowed";
    return NULL;
}

static void note_refused(mr_zmq_guard *guard, const char *address, const char *key, const char *why) {
    uint64_t before = atomic_fetch_add(&guard->refused, 1);
    const char *open = *address ? " (" : "", *close = *address ? ")" : "";
    if (*key)
        mr_log_repeating_key(MR_LOG_WARNING, guard->id, key, "%s: a peer was refused%s%s%s: %s", guard->id, open,
                             address, close, why);
    else
        mr_log_repeating(MR_LOG_WARNING, guard->id, "%s: a peer was refused%s%s%s: %s", guard->id, open, address, close,
                         why);
    if (mr_audit_may(&guard->refusals, mr_now_ns()))
        mr_audit("peer refused", mr_audit_text("stage", guard->id), mr_audit_text("address", *address ? address : NULL),
                 mr_audit_text("key", *key ? key : NULL), mr_audit_text("reason", why),
                 mr_audit_number("refused", before + 1),
                 mr_audit_number("left_out", mr_audit_left_out(&guard->refusals)));
}

static void note_accepted(mr_zmq_guard *guard, const char *address, const char *key) {
    if (mr_audit_may(&guard->welcomes, mr_now_ns()))
        mr_audit("peer accepted", mr_audit_text("stage", guard->id),
                 mr_audit_text("address", *address ? address : NULL), mr_audit_text("key", *key ? key : NULL),
                 mr_audit_number("left_out", mr_audit_left_out(&guard->welcomes)));
}

/* ---- connections that come and go -------------------------------------------------------------------------------- */

/* The answer already reported peers that failed ZAP. */
static void note_failure(mr_zmq_guard *guard, uint16_t what, uint32_t how) {
    guard->failed = true;
    guard->why[0] = '\0';
    if (what == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
        snprintf(guard->why, WHY_BYTES, "handshake failed: protocol error 0x%x", (unsigned)how);
    else if (what == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
        snprintf(guard->why, WHY_BYTES, "handshake failed: %s", how ? zmq_strerror((int)how) : "no detail");
}

static void note_end(mr_zmq_guard *guard, int fd, const char *address) {
    bool news = mr_zmq_peers_go(&guard->peers, fd, guard->failed);
    if (guard->failed && guard->why[0] && news)
        note_refused(guard, address, "", guard->why);
    guard->failed = false;
}

/* An event has a 16-bit kind and a 32-bit value, the descriptor for those that open or close; then the address. */
static int receive_from(mr_zmq_guard *guard, int flags) {
    part parts[PARTS] = {0};
    uint16_t what = 0;
    uint32_t how = 0;
    if (receive(guard->events, parts, flags) < 0)
        return -1;
    memcpy(&what, parts[0].data, sizeof what);
    memcpy(&how, parts[0].data + sizeof what, sizeof how);
    if (what == ZMQ_EVENT_ACCEPTED)
        mr_zmq_peers_come(&guard->peers, (int)how, mr_now_ns());
    else if (what == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
        mr_zmq_peers_made(&guard->peers);
    else if (what == ZMQ_EVENT_DISCONNECTED)
        note_end(guard, (int)how, parts[1].data);
    else
        note_failure(guard, what, how);
    atomic_store(&guard->present, guard->peers.made);
    return 0;
}

/* Reads all libzmq events so far. */
static int receive_all(mr_zmq_guard *guard) {
    int last_received;
    do
        last_received = receive_from(guard, ZMQ_DONTWAIT);
    while (last_received == 0);
    return last_received;
}

static void cut_strangers(mr_zmq_guard *guard) {
    char address[MR_ZMQ_ADDRESS];
    bool stranger;
    const char *why;
    while ((why = mr_zmq_peers_cut(&guard->peers, mr_now_ns(), address, &stranger)))
        if (stranger)
            note_refused(guard, address, "", why);
}

static void cut_endless(mr_zmq_guard *guard) {
    char address[MR_ZMQ_ADDRESS];
    const char *why;
    while ((why = mr_zmq_peers_cut_endless(&guard->peers, &guard->taken, mr_now_ns(), address)))
        note_refused(guard, address, "", why);
}

/* ---- peers that wait for others to leave ------------------------------------------------------------------------- */

/* A refusal that invites to try again (300) would not do: libzmq then says nothing to the peer, and keeps the
 * connection until the time for a handshake is over. */
static void note_waiting(mr_zmq_guard *guard, const waiting *one) {
    mr_log_repeating(MR_LOG_WARNING, guard->id,
                     "%s: a peer%s%s%s waits until another leaves: too many peers (max_peers: %d)", guard->id,
                     *one->address ? " (" : "", one->address, *one->address ? ")" : "", guard->peers.most);
    if (mr_audit_may(&guard->refusals, mr_now_ns()))
        mr_audit("peer waits", mr_audit_text("stage", guard->id),
                 mr_audit_text("address", *one->address ? one->address : NULL),
                 mr_audit_text("key", *one->key ? one->key : NULL), mr_audit_text("reason", "too many peers"),
                 mr_audit_number("left_out", mr_audit_left_out(&guard->refusals)));
}

static void remove_first(mr_zmq_guard *guard) {
    waiting *gone = guard->first;
    guard->first = gone->next;
    if (!guard->first)
        guard->last = &guard->first;
    mr_free(gone);
}

/* Answers those for which there is room, and forgets those whose time is over. */
static void admit_waiting(mr_zmq_guard *guard) {
    const int64_t now_ns = mr_now_ns();
    while (guard->first && guard->first->until_ns <= now_ns)
        remove_first(guard);
    while (guard->first && !mr_zmq_peers_ask(&guard->peers, now_ns)) {
        const waiting *one = guard->first;
        if (reply(guard->requests, &one->route, &one->request, NULL, one->key))
            note_accepted(guard, one->address, one->key);
        else
            mr_zmq_peers_unask(&guard->peers);
        remove_first(guard);
    }
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* libzmq writes "localhost:USER:GROUP:PROCESS" for a peer of an ipc socket. */
static void name_process(part *address) {
    unsigned user, group, process;
    char more;
    if (sscanf(address->data, "localhost:%u:%u:%u%c", &user, &group, &process, &more) == 3)
        snprintf(address->data, PART_BYTES, "process %u of user %u", process, user);
}

static int answer(mr_zmq_guard *guard) {
    part parts[PARTS] = {0};
    waiting *one = mr_calloc(1, sizeof *one);
    char key[MR_KEY_TEXT] = "";
    int count = receive(guard->requests, parts, 0);
    if (count < 0 || !one) {
        mr_free(one);
        return count < 0 ? -1 : 0; /* Without memory the peer has no answer, and tries again. */
    }
    const char *why = refusal(guard, parts, count);
    name_process(&parts[ADDRESS]);
    if (count == PARTS && parts[CREDENTIALS].bytes == MR_KEY_BYTES)
        mr_key_encode((const uint8_t *)parts[CREDENTIALS].data, key);
    if (why) {
        note_refused(guard, parts[ADDRESS].data, key, why);
        reply(guard->requests, &parts[ROUTE], &parts[REQUEST], why, key);
        mr_free(one);
        return 0;
    }
    *one = (waiting){.route = parts[ROUTE], .request = parts[REQUEST],
                     .until_ns = mr_now_ns() + guard->peers.handshake_ns};
    memcpy(one->address, parts[ADDRESS].data, sizeof one->address);
    memcpy(one->key, key, sizeof one->key);
    *guard->last = one;
    guard->last = &one->next;
    /* Connections that opened or closed before the request must be counted first. */
    receive_all(guard);
    admit_waiting(guard);
    if (guard->first) /* They are answered in order, so the last waits as long as any does. */
        note_waiting(guard, one);
    return 0;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

/* Rounded up, so that it is time when the thread wakes. */
static long wait_ms(const mr_zmq_guard *guard) {
    int64_t wake_ns = mr_zmq_peers_wake_ns(&guard->peers), now_ns = mr_now_ns();
    if (wake_ns == INT64_MAX)
        return -1;
    return wake_ns > now_ns ? (long)((wake_ns - now_ns) / NS_PER_MS + 1) : 0;
}

static void *watch(void *context) {
    mr_zmq_guard *guard = context;
    zmq_pollitem_t items[] = {{guard->requests, 0, ZMQ_POLLIN, 0}, {guard->events, 0, ZMQ_POLLIN, 0}};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (bool ended = false; !ended;) {
        if (zmq_poll(items, 2, wait_ms(guard)) < 0) {
            ended = errno != EINTR;
            continue;
        }
        if (items[0].revents)
            ended = answer(guard) && errno == ETERM;
        if (!ended)
            ended = receive_all(guard) && errno == ETERM;
        if (!ended)
            cut_strangers(guard);
        if (!ended)
            cut_endless(guard);
        if (!ended)
            admit_waiting(guard);
    }
    while (guard->first)
        remove_first(guard);
    zmq_close(guard->requests);
    zmq_close(guard->events);
    return NULL;
}

enum {
    EVENTS = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
             ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_ACCEPTED |
             ZMQ_EVENT_DISCONNECTED
};

static int start(mr_zmq_guard *guard, void *context, void *socket) {
    static const char events[] = "inproc://events";
    const int yes = 1;
    guard->requests = zmq_socket(context, ZMQ_ROUTER);
    guard->events = zmq_socket(context, ZMQ_PAIR);
    if (!guard->requests || !guard->events ||
        zmq_setsockopt(guard->requests, ZMQ_ROUTER_MANDATORY, &yes, sizeof yes) ||
        zmq_bind(guard->requests, "inproc://zeromq.zap.01") ||
        zmq_socket_monitor(socket, events, EVENTS) || zmq_connect(guard->events, events))
        return mr_fail(MR_ERROR_UNAVAILABLE, "ZeroMQ cannot create sockets: %s", zmq_strerror(errno));
    int error = mr_thread_create(&guard->thread, watch, guard);
    if (error)
        return mr_thread_fail(error, "a thread for a socket");
    guard->running = true;
    pthread_setname_np(guard->thread, "mr-zmq-guard");
    return MR_OK;
}

int mr_zmq_guard_begin(mr_zmq_guard **guard, void *context, void *socket, const mr_zmq_guard_params *params,
                       mr_allow_list *allow) {
    mr_zmq_guard *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory");
    snprintf(made->id, sizeof made->id, "%s", params->id);
    made->last = &made->first;
    mr_lock_init(&made->lock);
    made->allow = *allow;
    mr_zmq_peers_init(&made->peers, params->most, params->handshake_ns, params->unknown_ns);
    mr_zmq_peers_bind(&made->peers, &params->bound);
    made->refusals = made->welcomes = mr_audit_allowance_at(mr_now_ns());
    int status = start(made, context, socket);
    if (status) {
        made->allow = (mr_allow_list){0};
        mr_zmq_guard_end(&made);
        return status;
    }
    *allow = (mr_allow_list){0};
    *guard = made;
    return MR_OK;
}

void mr_zmq_guard_allow(mr_zmq_guard *guard, mr_allow_list *allow) {
    MR_LOCKED(&guard->lock);
    mr_allow_list_fini(&guard->allow);
    guard->allow = *allow;
    *allow = (mr_allow_list){0};
}

void mr_zmq_guard_know(mr_zmq_guard *guard, uint32_t peer, int fd) {
    mr_zmq_peers_know(&guard->peers, peer, fd);
}

mr_zmq_taken *mr_zmq_guard_taken(mr_zmq_guard *guard) {
    return &guard->taken;
}

int mr_zmq_guard_present(const mr_zmq_guard *guard) {
    return atomic_load(&guard->present);
}

uint64_t mr_zmq_guard_refused(const mr_zmq_guard *guard) {
    return atomic_load(&guard->refused);
}

void mr_zmq_guard_end(mr_zmq_guard **guard) {
    mr_zmq_guard *gone = *guard;
    if (!gone)
        return;
    if (gone->running) {
        pthread_join(gone->thread, NULL);
    } else {
        if (gone->requests)
            zmq_close(gone->requests);
        if (gone->events)
            zmq_close(gone->events);
    }
    mr_audit_settle(&gone->refusals, "peer refused", "stage", gone->id);
    mr_audit_settle(&gone->welcomes, "peer accepted", "stage", gone->id);
    mr_zmq_peers_fini(&gone->peers);
    mr_allow_list_fini(&gone->allow);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
    *guard = NULL;
}
