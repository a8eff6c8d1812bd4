/* Sockets that anyone on this machine can reach: a peer that connects without a handshake, or stays silent after one,
 * must not keep known peers out, and is cut off and counted. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/transport/zmq/peers.h"
#include "engine/transport/zmq/socket.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

enum { PATIENCE = 6000, TURN_MS = 10, STRANGERS = 20, MUTE = 5, MOST = 8, QUESTIONS = 100 };
static const int64_t S = 1000000000;

static void rest(void) {
    sleep_ms(TURN_MS);
}

/* ---- who is connected ------------------------------------------------------------------------------------------ */

/* Connections within this process: libzmq has ends[i][0]. */
typedef struct ends {
    int of[8][2];
    mr_zmq_peers peers;
} ends;

static void ends_open(ends *e, int most, int64_t unknown_ns) {
    mr_zmq_peers_init(&e->peers, most, 100, unknown_ns);
    for (int i = 0; i < 8; i++)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, e->of[i]), 0);
}

static void ends_close(ends *e) {
    mr_zmq_peers_fini(&e->peers);
    for (int i = 0; i < 8; i++)
        for (int end = 0; end < 2; end++)
            close(e->of[i][end]);
}

/* Whether the other end has closed. */
static bool is_cut(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static int count_cut(const ends *e, int count) {
    int cut = 0;
    for (int i = 0; i < count; i++)
        cut += is_cut(e->of[i][1]);
    return cut;
}

static int cut_all(ends *e, int64_t now_ns, const char *reason, int *strangers) {
    char address[MR_ZMQ_ADDRESS];
    int count = 0;
    bool stranger;
    const char *why;
    while ((why = mr_zmq_peers_cut(&e->peers, now_ns, address, &stranger))) {
        assert_string_equal(why, reason);
        *strangers += stranger;
        count++;
    }
    return count;
}

/* A test with such connections, `e`. */
#define ENDS_TEST(name, most, unknown_ns)                                                                             \
    TEST_GIVEN(name, ends, e, ends_open(&made, most, unknown_ns), ends_close(&made))

ENDS_TEST(test_only_who_has_shaken_hands_counts, 2, 0) {
    for (int i = 0; i < 6; i++)
        mr_zmq_peers_come(&e->peers, e->of[i][0], 10);
    assert_false(mr_zmq_peers_ask(&e->peers, 10));
    assert_false(mr_zmq_peers_ask(&e->peers, 10));
    assert_true(mr_zmq_peers_ask(&e->peers, 10)); /* two can already, although neither has shaken hands */
    mr_zmq_peers_made(&e->peers);
    mr_zmq_peers_made(&e->peers);
    assert_true(mr_zmq_peers_ask(&e->peers, 11));
    /* Others fail, which makes no room; one of the two leaves, which does. */
    for (int i = 2; i < 5; i++)
        assert_true(mr_zmq_peers_go(&e->peers, e->of[i][0], true));
    assert_true(mr_zmq_peers_ask(&e->peers, 12));
    assert_true(mr_zmq_peers_go(&e->peers, e->of[0][0], false));
    mr_zmq_peers_come(&e->peers, e->of[6][0], 13);
    assert_false(mr_zmq_peers_ask(&e->peers, 13));
    mr_zmq_peers_come(&e->peers, e->of[7][0], 13);
    assert_true(mr_zmq_peers_ask(&e->peers, 13));
}

/* One that was admitted and then left. */
ENDS_TEST(test_who_fails_makes_room, 1, 0) {
    mr_zmq_peers_come(&e->peers, e->of[0][0], 10);
    assert_false(mr_zmq_peers_ask(&e->peers, 10));
    mr_zmq_peers_come(&e->peers, e->of[1][0], 11);
    assert_true(mr_zmq_peers_ask(&e->peers, 11));
    mr_zmq_peers_go(&e->peers, e->of[0][0], true);
    mr_zmq_peers_go(&e->peers, e->of[1][0], true);
    mr_zmq_peers_come(&e->peers, e->of[2][0], 12);
    assert_false(mr_zmq_peers_ask(&e->peers, 12));
}

/* libzmq silently closes connections that speak something else. */
ENDS_TEST(test_garbage_makes_no_room_for_long, 1, 0) {
    mr_zmq_peers_come(&e->peers, e->of[0][0], 10);
    assert_false(mr_zmq_peers_ask(&e->peers, 10));
    mr_zmq_peers_made(&e->peers);
    mr_zmq_peers_come(&e->peers, e->of[1][0], 20);
    mr_zmq_peers_go(&e->peers, e->of[1][0], false);
    mr_zmq_peers_come(&e->peers, e->of[2][0], 10 + 101);
    assert_true(mr_zmq_peers_ask(&e->peers, 10 + 101));
}

ENDS_TEST(test_strangers_give_way, 3, 1000) {
    int strangers = 0;
    for (int i = 0; i < 8; i++)
        mr_zmq_peers_come(&e->peers, e->of[i][0], 10);
    mr_zmq_peers_know(&e->peers, 0, e->of[4][0]);
    mr_zmq_peers_know(&e->peers, 1, e->of[7][0]);
    assert_int_equal(cut_all(e, 20, "too many peers", &strangers), 5);
    assert_int_equal(strangers, 5);
    assert_int_equal(count_cut(e, 8), 5);
    assert_false(is_cut(e->of[4][1]) || is_cut(e->of[7][1]));
    /* What libzmq then reports about them is not new; what it reports about others is. */
    int news = 0;
    for (int i = 0; i < 8; i++)
        news += mr_zmq_peers_go(&e->peers, e->of[i][0], true);
    assert_int_equal(news, 3);
}

ENDS_TEST(test_time_is_limited, 8, 1000) {
    int strangers = 0;
    assert_true(mr_zmq_peers_wake_ns(&e->peers) == INT64_MAX);
    for (int i = 0; i < 3; i++)
        mr_zmq_peers_come(&e->peers, e->of[i][0], 10 + 100 * i);
    assert_true(mr_zmq_peers_wake_ns(&e->peers) == 1010);
    mr_zmq_peers_know(&e->peers, 0, e->of[0][0]);
    assert_int_equal(cut_all(e, 1109, "", &strangers), 0);
    assert_true(mr_zmq_peers_wake_ns(&e->peers) == 1110);
    assert_int_equal(cut_all(e, 1110, "it did not identify itself in time", &strangers), 1);
    assert_true(is_cut(e->of[1][1]) && !is_cut(e->of[0][1]) && !is_cut(e->of[2][1]));
    assert_int_equal(strangers, 1);
    /* A peer that has another connection does not need the first; nobody refused it. */
    mr_zmq_peers_know(&e->peers, 0, e->of[2][0]);
    assert_int_equal(cut_all(e, 5000, "it did not identify itself in time", &strangers), 1);
    assert_true(is_cut(e->of[0][1]) && !is_cut(e->of[2][1]));
    assert_int_equal(strangers, 1);
    assert_true(mr_zmq_peers_wake_ns(&e->peers) == INT64_MAX);
}

/* ---- real strangers -------------------------------------------------------------------------------------------- */

static mr_zmq *listen_at(int type, int most, int64_t handshake_ns, int64_t unknown_ns) {
    const mr_zmq_params params = {.id = "test", .type = type, .endpoint = "tcp://127.0.0.1:*", .bind = true,
                                  .max_peers = most, .handshake_ns = handshake_ns, .unknown_ns = unknown_ns};
    mr_zmq *socket = NULL;
    assert_int_equal(mr_zmq_create(&socket, &params), MR_OK);
    assert_int_equal(mr_zmq_attach(socket), MR_OK);
    return socket;
}

/* A connection that sends only the first part of a handshake. */
static int connect_to(const mr_zmq *listening, size_t bytes) {
    static const char greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL";
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(mr_zmq_endpoint(listening), ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    assert_true(send(fd, greeting, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
    return fd;
}

/* Strangers' connections: some stay silent, some stop during the handshake, and some shake hands and then stay
 * silent. */
typedef struct strangers {
    int fd[3 * STRANGERS + 2 * QUESTIONS];
    size_t count;
    void *context, *mute[MUTE];
} strangers;

static void add(strangers *all, const mr_zmq *listening, size_t bytes) {
    all->fd[all->count++] = connect_to(listening, bytes);
}

static void set(void *socket, int option, int value) {
    assert_int_equal(zmq_setsockopt(socket, option, &value, sizeof value), 0);
}

static void *dealer(void *context, const mr_zmq *listening) {
    void *socket = zmq_socket(context, ZMQ_DEALER);
    set(socket, ZMQ_LINGER, 0);
    set(socket, ZMQ_IMMEDIATE, 1);
    assert_int_equal(zmq_connect(socket, mr_zmq_endpoint(listening)), 0);
    return socket;
}

static void strangers_come(strangers *all, const mr_zmq *listening) {
    *all = (strangers){.context = zmq_ctx_new()};
    for (int i = 0; i < STRANGERS; i++) {
        add(all, listening, 0);
        add(all, listening, 11);
        add(all, listening, 64);
    }
    for (int i = 0; i < MUTE; i++)
        all->mute[i] = dealer(all->context, listening);
}

static void strangers_leave(strangers *all) {
    for (size_t i = 0; i < all->count; i++)
        close(all->fd[i]);
    for (int i = 0; i < MUTE; i++)
        zmq_close(all->mute[i]);
    zmq_ctx_term(all->context);
}

/* Whether nothing more can come; reads handshake bytes on the way. */
static bool is_over(int fd) {
    char bytes[256];
    ssize_t count;
    do
        count = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    while (count > 0);
    return count == 0 || (errno != EAGAIN && errno != EINTR);
}

static void await_the_end_of(const strangers *all) {
    for (size_t i = 0; i < all->count; i++) {
        int turn = 0;
        while (!is_over(all->fd[i]) && turn++ < PATIENCE)
            rest();
        assert_true(turn < PATIENCE);
    }
}

/* Echoes what comes to a ROUTER and marks that connection as known. Returns it; -1: nothing came. */
static int echo(const mr_zmq *listening) {
    void *router = mr_zmq_handle(listening);
    zmq_msg_t id, number;
    int fd = -1;
    zmq_msg_init(&id);
    zmq_msg_init(&number);
    if (zmq_msg_recv(&id, router, ZMQ_DONTWAIT) >= 0 && zmq_msg_recv(&number, router, ZMQ_DONTWAIT) >= 0) {
        fd = zmq_msg_get(&id, ZMQ_SRCFD);
        mr_zmq_know(listening, 0, fd);
        if (zmq_msg_send(&id, router, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0)
            zmq_msg_send(&number, router, ZMQ_DONTWAIT);
    }
    zmq_msg_close(&id);
    zmq_msg_close(&number);
    return fd;
}

/* Asks until the answer comes, like a peer that may be cut off. Returns the connection that brought it. */
static int ask(const mr_zmq *listening, void *real, int question) {
    int fd = -1, answer = -1;
    for (int turn = 0; turn < PATIENCE; turn++) {
        zmq_send(real, &question, sizeof question, ZMQ_DONTWAIT);
        rest();
        for (int last_received; (last_received = echo(listening)) >= 0;)
            fd = last_received;
        while (zmq_recv(real, &answer, sizeof answer, ZMQ_DONTWAIT) == sizeof answer)
            if (answer == question)
                return fd;
    }
    fail_msg("question %d has no answer", question);
    return -1;
}

TEST(test_strangers_keep_nobody_out) {
    mr_zmq *listening = listen_at(ZMQ_ROUTER, MOST, 2 * S, 4 * S);
    void *context = zmq_ctx_new();
    strangers all;
    strangers_come(&all, listening);
    void *real = dealer(context, listening);
    int question = 0, fd = ask(listening, real, question++);
    /* With an answer it is known, whoever comes then. */
    fd = ask(listening, real, question++);
    while (question < QUESTIONS) {
        add(&all, listening, question % 2 ? 0 : 64);
        assert_int_equal(ask(listening, real, question++), fd);
    }
    await_the_end_of(&all);
    assert_int_equal(ask(listening, real, question), fd);
    for (int turn = 0; mr_zmq_refused(listening) < all.count && turn < PATIENCE; turn++)
        rest();
    assert_true(mr_zmq_refused(listening) >= all.count);
    strangers_leave(&all);
    zmq_close(real);
    zmq_ctx_term(context);
    mr_zmq_close(&listening, 0);
}

/* Each must be counted once, whoever gave it up. */
TEST(test_each_is_counted_once) {
    mr_zmq *listening = listen_at(ZMQ_ROUTER, MOST, S / 2, S);
    strangers all = {0};
    for (int i = 0; i < STRANGERS; i++)
        add(&all, listening, i % 2 ? 0 : 64);
    await_the_end_of(&all);
    for (int turn = 0; mr_zmq_refused(listening) < all.count && turn < PATIENCE; turn++)
        rest();
    assert_int_equal(mr_zmq_refused(listening), all.count);
    for (size_t i = 0; i < all.count; i++)
        close(all.fd[i]);
    mr_zmq_close(&listening, 0);
}

static void receive(const mr_zmq *listening, const char *wanted) {
    char got[8];
    int count = -1;
    for (int turn = 0; count < 0 && turn < PATIENCE; turn++) {
        rest();
        count = zmq_recv(mr_zmq_handle(listening), got, sizeof got, ZMQ_DONTWAIT);
    }
    assert_int_equal(count, strlen(wanted));
    assert_memory_equal(got, wanted, strlen(wanted));
}

/* One too many gets a place when another leaves, and not only when libzmq gives up a handshake. */
TEST(test_one_too_many_waits_for_a_place) {
    mr_zmq *listening = listen_at(ZMQ_PULL, 2, 3600 * S, 0);
    void *context = zmq_ctx_new(), *peer[4];
    static const char *const said[] = {"zero", "one", "two", "three"};
    for (int i = 0; i < 4; i++) {
        peer[i] = zmq_socket(context, ZMQ_PUSH);
        set(peer[i], ZMQ_LINGER, 0);
        assert_int_equal(zmq_connect(peer[i], mr_zmq_endpoint(listening)), 0);
        assert_int_equal(zmq_send(peer[i], said[i], strlen(said[i]), 0), strlen(said[i]));
        if (i < 2)
            receive(listening, said[i]);
        else
            for (int turn = 0; turn < 10; turn++)
                rest(); /* so that they wait in this order */
    }
    assert_int_equal(mr_zmq_present(listening), 2);
    for (int i = 0; i < 2; i++) {
        zmq_close(peer[i]);
        receive(listening, said[i + 2]);
    }
    assert_int_equal(mr_zmq_refused(listening), 0);
    zmq_close(peer[2]);
    zmq_close(peer[3]);
    zmq_ctx_term(context);
    mr_zmq_close(&listening, 0);
}

/* If nobody says who is known, connections without a handshake take nobody's place, however long they stay. */
TEST(test_half_made_take_no_place) {
    mr_zmq *listening = listen_at(ZMQ_PULL, 1, 3600 * S, 0);
    void *context = zmq_ctx_new(), *real = zmq_socket(context, ZMQ_PUSH);
    strangers all = {0};
    for (int i = 0; i < STRANGERS; i++)
        add(&all, listening, i % 2 ? 0 : 11);
    set(real, ZMQ_LINGER, 0);
    assert_int_equal(zmq_connect(real, mr_zmq_endpoint(listening)), 0);
    assert_int_equal(zmq_send(real, "frame", 5, 0), 5);
    receive(listening, "frame");
    assert_int_equal(mr_zmq_refused(listening), 0);
    for (size_t i = 0; i < all.count; i++)
        close(all.fd[i]);
    zmq_close(real);
    zmq_ctx_term(context);
    mr_zmq_close(&listening, 0);
}

RUN_TESTS(NULL, NULL)
