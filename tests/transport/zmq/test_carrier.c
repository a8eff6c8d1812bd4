/* Carriers: whole messages between a ROUTER and DEALERs on separate threads, wake-ups, routes, and impossible
 * messages. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "engine/transport/zmq/io_thread.h"
#include "engine/base/thread.h"
#include "engine/transport/zmq/routes.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

enum { PATIENCE = 24000, LARGE = 100000, MESSAGES = 1000 };
static const int64_t UNKNOWN_NS = 2000000000; /* a stranger's time; a peer must be known before that */

/* ---- libzmq, interrupted by signals ------------------------------------------------------------------------------ */

static atomic_bool interrupting;
static atomic_uint calls, interrupted;

/* On request, every other call fails as if a signal had come. */
static bool is_interrupted(void) {
    if (!atomic_load(&interrupting) || atomic_fetch_add(&calls, 1) % 2)
        return false;
    atomic_fetch_add(&interrupted, 1);
    errno = EINTR;
    return true;
}

/* The library's function with that name, which the one here hides. */
#define ORIGINAL(name, of) memcpy(&(of), &(void *){dlsym(RTLD_NEXT, name)}, sizeof(of))

int zmq_msg_send(zmq_msg_t *part, void *socket, int flags) {
    int (*original)(zmq_msg_t *, void *, int);
    ORIGINAL("zmq_msg_send", original);
    return is_interrupted() ? -1 : original(part, socket, flags);
}

/* Asks whether there is a message before each read, as if one came just when the thread was about to sleep: libzmq has
 * then read it ahead. */
static atomic_bool asking;

static void ask(void *socket) {
    int (*original)(void *, int, void *, size_t *), events;
    size_t bytes = sizeof events;
    ORIGINAL("zmq_getsockopt", original);
    original(socket, ZMQ_EVENTS, &events, &bytes);
}

int zmq_msg_recv(zmq_msg_t *part, void *socket, int flags) {
    int (*original)(zmq_msg_t *, void *, int);
    ORIGINAL("zmq_msg_recv", original);
    if (atomic_load(&asking))
        ask(socket);
    return is_interrupted() ? -1 : original(part, socket, flags);
}

int zmq_send(void *socket, const void *data, size_t bytes, int flags) {
    int (*original)(void *, const void *, size_t, int);
    ORIGINAL("zmq_send", original);
    return is_interrupted() ? -1 : original(socket, data, bytes, flags);
}

int zmq_getsockopt(void *socket, int option, void *value, size_t *bytes) {
    int (*original)(void *, int, void *, size_t *);
    ORIGINAL("zmq_getsockopt", original);
    return option == ZMQ_EVENTS && is_interrupted() ? -1 : original(socket, option, value, bytes);
}

/* One end: sends what it is given, and counts. */
typedef struct end {
    mr_io_thread *io_thread;
    pthread_mutex_t lock;
    size_t got, large, bytes, partless, lost_count, worked;
    uint32_t route;         /* from the last message */
    mr_buffer *kept;        /* the last large part */
    size_t to_send;
    uint32_t send_to;
    mr_buffer *payload;     /* sent with each message */
    size_t listened;
    bool ending, echoes;
    bool waits;             /* `work` neither returns nor sends */
    bool sends_all;         /* `work` sends until the route is closed */
    size_t got_before;      /* messages received before the last route was lost */
    int linger_ms;
    size_t known_at;        /* this message's connection then becomes the first peer's; 0: none does */
    pthread_t worker;       /* who worked last */
    int64_t next_ns;        /* when it must work again; 0: never */
} end;

static void end_receive(void *context, uint32_t route, const mr_wire_part *parts, size_t count) {
    end *self = context;
    pthread_mutex_lock(&self->lock);
    self->route = route;
    self->partless += count == 0;
    self->got += count > 0;
    for (size_t i = 0; i < count; i++) {
        self->bytes += parts[i].bytes;
        if (parts[i].buffer) {
            self->large++;
            mr_buffer_unref(&self->kept);
            self->kept = mr_buffer_ref(parts[i].buffer);
        }
    }
    bool echoes = self->echoes && count, known = self->known_at && self->got == self->known_at;
    pthread_mutex_unlock(&self->lock);
    if (known)
        mr_io_thread_identify(self->io_thread, route, 0);
    if (echoes)
        mr_io_thread_send(self->io_thread, route, parts, count);
}

static void end_lost(void *context, uint32_t route) {
    end *self = context;
    MR_LOCKED(&self->lock);
    self->lost_count++;
    self->got_before = self->got;
}

static bool end_work(void *context, int64_t *wake_ns) {
    end *self = context;
    pthread_mutex_lock(&self->lock);
    self->worked++;
    while (self->waits) {
        pthread_mutex_unlock(&self->lock);
        sleep_ms(1);
        pthread_mutex_lock(&self->lock);
    }
    *wake_ns = self->next_ns ? self->next_ns : INT64_MAX;
    self->next_ns = 0;
    self->worker = pthread_self();
    size_t count = self->to_send;
    self->to_send = 0;
    uint32_t route = self->send_to;
    bool ending = self->ending, sends_all = self->sends_all;
    self->sends_all = false;
    pthread_mutex_unlock(&self->lock);
    while (sends_all && mr_io_thread_send(self->io_thread, route, &(mr_wire_part){(const uint8_t *)"x", 1, NULL}, 1))
        sleep_ms(1);
    for (size_t i = 0; i < count; i++) {
        const mr_wire_part parts[] = {{(const uint8_t *)"hello", 5, NULL},
                                      {self->payload ? self->payload->data : NULL,
                                       self->payload ? self->payload->bytes : 0, self->payload}};
        mr_io_thread_send(self->io_thread, route, parts, self->payload ? 2 : 1);
    }
    return !ending;
}

static void end_listen(void *context) {
    end *self = context;
    MR_LOCKED(&self->lock);
    self->listened++;
}

static void end_begin(end *self) {
    assert_int_equal(mr_io_thread_start(self->io_thread), MR_OK);
}

static void end_create(end *self, int type, size_t count, const char *const *endpoints, size_t most_routes) {
    mr_zmq_params sockets[4] = {{0}};
    for (size_t i = 0; i < count; i++)
        sockets[i] = (mr_zmq_params){.id = "test", .type = type, .endpoint = endpoints[i], .bind = type == ZMQ_ROUTER,
                                     .max_message_bytes = 10 * LARGE,
                                     .unknown_ns = self->known_at ? UNKNOWN_NS : 0};
    const mr_io_thread_params params = {.id = "test", .socket_count = count, .sockets = sockets,
                                      .most_routes = most_routes, .receive = end_receive, .lost = end_lost,
                                      .work = end_work, .listen = end_listen, .context = self};
    pthread_mutex_init(&self->lock, NULL);
    assert_int_equal(mr_io_thread_open(&self->io_thread, &params), MR_OK);
}

static void end_open(end *self, int type, size_t count, const char *const *endpoints, size_t most_routes) {
    end_create(self, type, count, endpoints, most_routes);
    end_begin(self);
}

static void end_close(end *self) {
    pthread_mutex_lock(&self->lock);
    self->ending = true;
    pthread_mutex_unlock(&self->lock);
    mr_io_thread_wake(self->io_thread);
    mr_io_thread_close(&self->io_thread, self->linger_ms);
    assert_null(self->io_thread);
    mr_buffer_unref(&self->kept);
    pthread_mutex_destroy(&self->lock);
}

static void end_send(end *self, uint32_t to, size_t count) {
    pthread_mutex_lock(&self->lock);
    self->send_to = to;
    self->to_send = count;
    pthread_mutex_unlock(&self->lock);
    mr_io_thread_wake(self->io_thread);
}

/* Reads a counter while the I/O thread may be counting. */
static size_t counted(end *self, const size_t *counter) {
    MR_LOCKED(&self->lock);
    return *counter;
}

/* Waits until the counter reaches a value. */
static void await(end *self, const size_t *counter, size_t wanted) {
    for (int turn = 0; turn < PATIENCE; turn++) {
        if (counted(self, counter) >= wanted)
            return;
        sleep_ms(10);
    }
    fail_msg("only %zu of %zu came", counted(self, counter), wanted);
}

/* A DEALER without a connection sends nothing: like the protocol, it says hello until somebody answers. */
static void greet(end *dealer, uint32_t socket, end *router) {
    size_t before = counted(router, &router->got);
    for (int turn = 0; turn < PATIENCE; turn++) {
        end_send(dealer, socket, 1);
        sleep_ms(10);
        if (counted(router, &router->got) > before)
            return;
    }
    fail_msg("nothing came");
}

/* An address in the test's folder. */
static char endpoint[128];
static const char *const endpoints[] = {endpoint};

static int make_folder(void **state) {
    int failed = make_temporary_folder(state);
    snprintf(endpoint, sizeof endpoint, "ipc://%s/socket", temporary_folder);
    return failed;
}

static int released;

static void release(void *context) {
    free(context);
    __atomic_fetch_add(&released, 1, __ATOMIC_SEQ_CST);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

TEST_WITH(test_messages_pass_both_ways, make_folder, remove_temporary_folder) {
    end router = {.echoes = true}, dealer = {0};
    end_open(&router, ZMQ_ROUTER, 1, endpoints, 8);
    end_open(&dealer, ZMQ_DEALER, 1, endpoints, 0);
    greet(&dealer, 0, &router);
    await(&dealer, &dealer.got, 1);
    uint8_t *bytes = malloc(LARGE);
    memset(bytes, 7, LARGE);
    dealer.payload = mr_buffer_wrap(bytes, LARGE, release, bytes);
    end_send(&dealer, 0, MESSAGES);
    await(&dealer, &dealer.large, MESSAGES);
    end_close(&router);
    /* What came back is what was sent, and stays while somebody refers to it. How many hellos were needed is open, and
     * more may still arrive. */
    pthread_mutex_lock(&dealer.lock);
    assert_non_null(dealer.kept);
    assert_int_equal(dealer.kept->bytes, LARGE);
    for (size_t i = 0; i < LARGE; i++)
        assert_int_equal(dealer.kept->data[i], 7);
    assert_int_equal(dealer.large, MESSAGES);
    assert_int_equal(dealer.bytes, dealer.got * 5 + MESSAGES * LARGE);
    pthread_mutex_unlock(&dealer.lock);
    end_close(&dealer);
    assert_int_equal(released, 0);
    mr_buffer_unref(&dealer.payload);
    assert_int_equal(released, 1);
}

TEST_WITH(test_routes_have_numbers, make_folder, remove_temporary_folder) {
    char first[128], second[128];
    const char *both[] = {first, second};
    end routers[2] = {{.echoes = true}, {.echoes = true}}, dealer = {0};
    snprintf(first, sizeof first, "ipc://%s/first", temporary_folder);
    snprintf(second, sizeof second, "ipc://%s/second", temporary_folder);
    end_open(&routers[0], ZMQ_ROUTER, 1, &both[0], 8);
    end_open(&routers[1], ZMQ_ROUTER, 1, &both[1], 8);
    end_open(&dealer, ZMQ_DEALER, 2, both, 0);
    greet(&dealer, 1, &routers[1]);
    await(&dealer, &dealer.got, 1);
    pthread_mutex_lock(&dealer.lock);
    assert_int_equal(dealer.route, 1);
    pthread_mutex_unlock(&dealer.lock);
    greet(&dealer, 0, &routers[0]);
    end_close(&dealer);
    end_close(&routers[0]);
    end_close(&routers[1]);
}

static bool worked_here(end *self) {
    MR_LOCKED(&self->lock);
    return pthread_equal(self->worker, pthread_self());
}

static bool is_due(end *self) {
    MR_LOCKED(&self->lock);
    return self->next_ns != 0;
}

/* When the I/O thread sleeps, the caller does the work; a time set by that work is met by the I/O thread. */
TEST_WITH(test_a_turn_is_taken, make_folder, remove_temporary_folder) {
    ENDED_BY(end_close) end router = {0};
    end_open(&router, ZMQ_ROUTER, 1, endpoints, 8);
    for (int turn = 0; turn < PATIENCE && !worked_here(&router); turn++) {
        sleep_ms(10);
        mr_io_thread_work_inline(router.io_thread);
    }
    assert_true(worked_here(&router));
    size_t listened = 0;
    for (int turn = 0; turn < PATIENCE && !listened; turn++) {
        sleep_ms(10);
        listened = mr_io_thread_receive_inline(router.io_thread);
        assert_int_equal(counted(&router, &router.listened), listened);
    }
    assert_int_equal(listened, 1);
    const size_t worked = counted(&router, &router.worked);
    pthread_mutex_lock(&router.lock);
    router.next_ns = 1;
    pthread_mutex_unlock(&router.lock);
    /* If another has the turn just then, this one takes it a little later. */
    for (int turn = 0; turn < PATIENCE && is_due(&router); turn++) {
        mr_io_thread_work_inline(router.io_thread);
        sleep_ms(10);
    }
    await(&router, &router.worked, worked + 2);
    /* The thread may have had one of these before it was taken here. */
    for (int turn = 0; turn < PATIENCE && worked_here(&router); turn++)
        sleep_ms(10);
    assert_false(worked_here(&router));
}

/* Sends messages in turns taken here; each comes back. */
static void exchange_by_turns(bool with_signals) {
    ENDED_BY(end_close) end router = {.echoes = true}, dealer = {0};
    end_open(&router, ZMQ_ROUTER, 1, endpoints, 8);
    end_open(&dealer, ZMQ_DEALER, 1, endpoints, 0);
    greet(&dealer, 0, &router);
    const size_t greetings = counted(&router, &router.got);
    atomic_store(&interrupting, with_signals);
    for (int i = 0; i < MESSAGES; i++) {
        pthread_mutex_lock(&dealer.lock);
        dealer.to_send++;
        pthread_mutex_unlock(&dealer.lock);
        mr_io_thread_work_inline(dealer.io_thread);
    }
    await(&dealer, &dealer.got, greetings + MESSAGES);
    atomic_store(&interrupting, false);
}

/* Sending in a taken turn must not miss incoming messages. */
TEST_WITH(test_messages_come_while_turns_are_taken, make_folder, remove_temporary_folder) {
    exchange_by_turns(false);
}

/* A thread interrupted by signals must lose nothing, although libzmq gives up every other call. */
TEST_WITH(test_signals_come_while_turns_are_taken, make_folder, remove_temporary_folder) {
    exchange_by_turns(true);
    assert_true(atomic_load(&interrupted) > MESSAGES);
}

/* A ROUTER learns that a connection is gone when it sends there. */
TEST_WITH(test_connections_get_lost, make_folder, remove_temporary_folder) {
    end router = {0}, dealer = {0};
    end_open(&router, ZMQ_ROUTER, 1, endpoints, 8);
    end_open(&dealer, ZMQ_DEALER, 1, endpoints, 0);
    greet(&dealer, 0, &router);
    pthread_mutex_lock(&router.lock);
    uint32_t route = router.route;
    pthread_mutex_unlock(&router.lock);
    end_send(&router, route, 1);
    await(&dealer, &dealer.got, 1);
    end_close(&dealer);
    for (int turn = 0; turn < PATIENCE && counted(&router, &router.lost_count) == 0; turn++) {
        end_send(&router, route, 1);
        sleep_ms(10);
    }
    assert_true(counted(&router, &router.lost_count) >= 1);
    end_close(&router);
}

/* A peer says goodbye and closes the connection while the other end sends: the goodbye must be received first. */
TEST_WITH(test_a_goodbye_comes_before_the_end, make_folder, remove_temporary_folder) {
    end router = {0}, dealer = {.linger_ms = 10000};
    end_open(&router, ZMQ_ROUTER, 1, endpoints, 8);
    end_open(&dealer, ZMQ_DEALER, 1, endpoints, 0);
    greet(&dealer, 0, &router);
    pthread_mutex_lock(&router.lock);
    router.waits = router.sends_all = true;
    router.send_to = router.route;
    size_t worked = router.worked;
    pthread_mutex_unlock(&router.lock);
    mr_io_thread_wake(router.io_thread);
    await(&router, &router.worked, worked + 1);
    size_t got = counted(&router, &router.got);
    end_send(&dealer, 0, 1);
    end_close(&dealer);
    pthread_mutex_lock(&router.lock);
    router.waits = false;
    pthread_mutex_unlock(&router.lock);
    await(&router, &router.lost_count, 1);
    assert_true(router.got > got);
    assert_int_equal(router.got_before, router.got);
    end_close(&router);
}

TEST_WITH(test_too_many_parts, make_folder, remove_temporary_folder) {
    ENDED_BY(end_close) end router = {0};
    end_open(&router, ZMQ_ROUTER, 1, endpoints, 8);
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(zmq_send(socket, "x", 1, i < 999 ? ZMQ_SNDMORE : 0), 1);
    for (int i = 0; i < MR_WIRE_BLOCKS + 1; i++)
        assert_int_equal(zmq_send(socket, "x", 1, i < MR_WIRE_BLOCKS ? ZMQ_SNDMORE : 0), 1);
    await(&router, &router.got, 1);
    assert_int_equal(router.partless, 1);
    assert_int_equal(router.bytes, MR_WIRE_BLOCKS + 1);
    zmq_close(socket);
    zmq_ctx_term(context);
}

/* A plain libzmq DEALER, which does not return after it was cut off. */
static void *guest(void *context, size_t messages) {
    void *socket = zmq_socket(context, ZMQ_DEALER);
    const int never = -1, none = 0;
    assert_non_null(socket);
    zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    assert_int_equal(zmq_connect(socket, endpoint), 0);
    for (size_t i = 0; i < messages; i++)
        assert_int_equal(zmq_send(socket, "hello", 5, 0), 5);
    return socket;
}

/* The connection that brought a message is known however the message was read. Once it is known as a peer's, it is no
 * stranger's, and stays when a later stranger's time runs out. */
static void assert_connection_is_known(bool asks) {
    end router = {.known_at = MESSAGES / 2};
    atomic_store(&asking, asks);
    end_create(&router, ZMQ_ROUTER, 1, endpoints, 8);
    void *context = zmq_ctx_new(), *peer = guest(context, MESSAGES);
    end_begin(&router);
    await(&router, &router.got, MESSAGES);
    void *stranger = guest(context, 0);
    for (int turn = 0; turn < PATIENCE && !mr_io_thread_refused(router.io_thread); turn++)
        sleep_ms(10);
    assert_int_equal(mr_io_thread_refused(router.io_thread), 1);
    const int patience_ms = 60000;
    assert_int_equal(zmq_setsockopt(peer, ZMQ_SNDTIMEO, &patience_ms, sizeof patience_ms), 0);
    assert_int_equal(zmq_send(peer, "hello", 5, 0), 5);
    await(&router, &router.got, MESSAGES + 1);
    zmq_close(peer);
    zmq_close(stranger);
    end_close(&router);
    zmq_ctx_term(context);
    atomic_store(&asking, false);
}

TEST_WITH(test_connections_are_known_by_any_message, make_folder, remove_temporary_folder) {
    assert_connection_is_known(false);
    assert_connection_is_known(true);
}

TEST(test_oldest_route_is_forgotten) {
    ENDED_BY(mr_routes_fini) mr_routes routes;
    uint32_t forgotten;
    assert_int_equal(mr_routes_init(&routes, 2), MR_OK);
    uint32_t one = mr_routes_receive(&routes, "one", 3, 0, &forgotten);
    uint32_t two = mr_routes_receive(&routes, "two", 3, 0, &forgotten);
    assert_int_equal(forgotten, MR_NO_ROUTE);
    assert_int_equal(mr_routes_receive(&routes, "one", 3, 0, &forgotten), one);
    uint32_t three = mr_routes_receive(&routes, "three", 5, 7, &forgotten);
    assert_int_equal(forgotten, two);
    assert_null(mr_routes_find(&routes, two));
    assert_memory_equal(mr_routes_find(&routes, three)->id, "three", 5);
    assert_int_equal(mr_routes_forget_broken(&routes), MR_NO_ROUTE);
    mr_routes_find(&routes, one)->broken = true;
    assert_int_equal(mr_routes_forget_broken(&routes), one);
    assert_null(mr_routes_find(&routes, one));
    /* A known connection stays, whoever has been heard since. */
    assert_null(mr_routes_know(&routes, one, 0));
    assert_int_equal(mr_routes_know(&routes, three, 0)->fd, 7);
    uint32_t four = mr_routes_receive(&routes, "four", 4, 0, &forgotten);
    mr_routes_receive(&routes, "five", 4, 0, &forgotten);
    assert_int_equal(forgotten, four);
    mr_routes_find(&routes, three)->broken = true;
    assert_int_equal(mr_routes_forget_broken(&routes), three);
    /* A peer that returns has another number. */
    assert_int_not_equal(mr_routes_receive(&routes, "one", 3, 0, &forgotten), one);
    assert_int_equal(forgotten, MR_NO_ROUTE);
}

RUN_TESTS(NULL, NULL)
