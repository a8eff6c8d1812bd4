/* Peers that send a message without end: libzmq does not limit the number of parts. They must be closed before they
 * take much memory, and no peer that keeps to the limits may be, however long its messages wait. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/transport/zmq/endless.h"
#include "engine/transport/zmq/socket.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

enum { PART = 65536, QUEUED = 8, MANY = 64 << 20, PATIENCE_MS = 30000 };
static const int64_t NS_PER_MS = 1000000;

/* Without TCP_INFO the guard takes no peer to be endless. */
static void need_counts(void) {
    skip_emulated("its getsockopt gives 4 bytes of TCP_INFO, without those that a connection has received");
}
#define COUNTED_TEST(name) TEST_THAT(name, need_counts)

static mr_zmq *listen_at(int type, int64_t most_bytes) {
    const mr_zmq_params params = {.id = "test", .type = type, .endpoint = "tcp://127.0.0.1:*", .bind = true,
                                  .max_peers = 8, .max_message_bytes = most_bytes, .receive_hwm = QUEUED};
    mr_zmq *socket = NULL;
    assert_int_equal(mr_zmq_create(&socket, &params), MR_OK);
    assert_int_equal(mr_zmq_attach(socket), MR_OK);
    return socket;
}

/* A peer that has shaken hands (https://rfc.zeromq.org/spec/23). */
static int connect_as(const mr_zmq *listening, const char *type) {
    static const char greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL";
    char ready[64] = "\4\0\5READY\13Socket-Type\0\0\0";
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(mr_zmq_endpoint(listening), ':') + 1));
    const size_t length = strlen(type), bytes = 24 + length;
    ready[1] = (char)(bytes - 2);
    ready[23] = (char)length;
    memcpy(ready + 24, type, length);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
    assert_int_equal(send(fd, ready, bytes, MSG_NOSIGNAL), bytes);
    /* The other end's greeting, and the beginning of its answer, which comes once the peer is admitted. */
    assert_int_equal(recv(fd, ready, sizeof ready, MSG_WAITALL), sizeof ready);
    assert_true(recv(fd, ready, sizeof ready, 0) > 2);
    assert_memory_equal(ready + 2, "\5READY", 6);
    return fd;
}

static bool is_closed(int fd) {
    char bytes[256];
    const ssize_t came = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    return came == 0 || (came < 0 && errno != EAGAIN && errno != EINTR);
}

/* Sends a part of no bytes, which is not the last, again and again, until the other end has closed. Returns how many
 * bytes that took; at most MANY. */
static size_t send_parts(int fd, mr_zmq *owner) {
    char parts[65536];
    size_t sent = 0;
    for (size_t i = 0; i < sizeof parts; i++)
        parts[i] = i % 2 == 0;
    while (sent < MANY && !is_closed(fd)) {
        zmq_msg_t message;
        /* Never half a part: the rest of these goes first. */
        const ssize_t count = send(fd, parts + sent % 2, sizeof parts - 2, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += count > 0 ? (size_t)count : 0;
        if (count < 0)
            sleep_ms(1);
        zmq_msg_init(&message);
        if (owner)
            assert_int_equal(mr_zmq_receive(owner, &message), -1);
        zmq_msg_close(&message);
    }
    return sent;
}

static void await_refused(const mr_zmq *listening) {
    for (const int64_t end_ns = mr_now_ns() + PATIENCE_MS * NS_PER_MS; !mr_zmq_refused(listening);) {
        assert_true(mr_now_ns() < end_ns);
        sleep_ms(10);
    }
    assert_int_equal(mr_zmq_refused(listening), 1);
}

static void check_closed(int type, const char *peer, bool owner_looks) {
    mr_zmq *listening = listen_at(type, PART);
    int fd = connect_as(listening, peer);
    assert_true(send_parts(fd, owner_looks ? listening : NULL) < MANY);
    await_refused(listening);
    close(fd);
    mr_zmq_close(&listening, 0);
}

/* The owner does not even receive. */
COUNTED_TEST(test_one_that_only_sends) {
    check_closed(ZMQ_PUSH, "PULL", false);
    check_closed(ZMQ_XPUB, "SUB", false);
}

COUNTED_TEST(test_one_that_receives) {
    check_closed(ZMQ_PULL, "PUSH", true);
    check_closed(ZMQ_ROUTER, "DEALER", true);
}

static void receive_one(mr_zmq *owner, int *got) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    *got += mr_zmq_receive(owner, &message) >= 0;
    zmq_msg_close(&message);
}

/* A peer's whole messages wait, and one without end comes after them. The owner receives one whole message after
 * another, and never so few that a suspicion could last. */
COUNTED_TEST(test_one_after_whole_messages) {
    enum { PART_BYTES = 60000, MOST = 128 << 20, RECEIVE_MS = 200 };
    static char part[9 + PART_BYTES];
    size_t sent = 0;
    int got = 0;
    mr_zmq *listening = listen_at(ZMQ_PULL, PART);
    const int fd = connect_as(listening, "PUSH");
    for (int i = 0; i + 1 < QUEUED; i++) /* If the queue is full, nothing is read. */
        assert_int_equal(send(fd, "\0\1x", 3, MSG_NOSIGNAL), 3);
    part[0] = 3; /* long, and more will come */
    part[7] = (char)(PART_BYTES >> 8);
    part[8] = (char)(PART_BYTES & 255);
    for (int64_t next_ns = mr_now_ns(); sent < MOST && !is_closed(fd);) {
        const size_t at = sent % sizeof part;
        const ssize_t count = send(fd, part + at, sizeof part - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent += count > 0 ? (size_t)count : 0;
        sleep_ms(1);
        if (mr_now_ns() < next_ns)
            continue;
        receive_one(listening, &got);
        next_ns += RECEIVE_MS * NS_PER_MS;
    }
    assert_true(sent < MOST);
    await_refused(listening);
    close(fd);
    mr_zmq_close(&listening, 0);
}

static void *pusher(void *context, const mr_zmq *listening) {
    const int none = 0, one = 1;
    void *socket = zmq_socket(context, ZMQ_PUSH);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_IMMEDIATE, &one, sizeof one);
    assert_int_equal(zmq_connect(socket, mr_zmq_endpoint(listening)), 0);
    return socket;
}

/* Messages of the largest size wait for an owner that does not receive for longer than a suspicion must last. Another
 * peer's messages come all the time. All must arrive. */
TEST(test_messages_that_wait_are_no_reason) {
    enum { LARGE = 8 << 20, MESSAGES = 3, WAIT_MS = 3000 };
    static char large[LARGE];
    mr_zmq *listening = listen_at(ZMQ_PULL, LARGE);
    void *context = zmq_ctx_new(), *slow = pusher(context, listening), *quick = pusher(context, listening);
    int whole = 0, small = 0;
    receive_one(listening, &whole); /* That there was none before they came is no reason either. */
    for (int i = 0; i < MESSAGES; i++)
        assert_int_equal(zmq_send(slow, large, LARGE, 0), LARGE);
    sleep_ms(WAIT_MS);
    for (int64_t end_ns = mr_now_ns() + PATIENCE_MS * NS_PER_MS; whole < MESSAGES || small < 100;) {
        zmq_msg_t got;
        assert_true(mr_now_ns() < end_ns);
        zmq_send(quick, "x", 1, ZMQ_DONTWAIT);
        zmq_msg_init(&got);
        const long bytes = mr_zmq_receive(listening, &got);
        whole += bytes == LARGE;
        small += bytes == 1;
        zmq_msg_close(&got);
    }
    assert_int_equal(mr_zmq_refused(listening), 0);
    assert_int_equal(mr_zmq_present(listening), 2);
    zmq_close(slow);
    zmq_close(quick);
    zmq_ctx_term(context);
    mr_zmq_close(&listening, 0);
}

/* While others' messages come, one that sends no whole message is found all the same. */
COUNTED_TEST(test_one_among_others) {
    mr_zmq *listening = listen_at(ZMQ_PULL, PART);
    void *context = zmq_ctx_new(), *real = pusher(context, listening);
    int fd = connect_as(listening, "PUSH");
    char parts[65536];
    int64_t end_ns = mr_now_ns() + PATIENCE_MS * NS_PER_MS;
    for (size_t i = 0; i < sizeof parts; i++)
        parts[i] = i % 2 == 0;
    /* More than one message may have, and less than those that may wait. */
    for (size_t sent = 0; sent < 8 << 20; sent += sizeof parts)
        assert_int_equal(send(fd, parts, sizeof parts, MSG_NOSIGNAL), sizeof parts);
    while (!mr_zmq_refused(listening)) {
        zmq_msg_t got;
        assert_true(mr_now_ns() < end_ns);
        for (int i = 0; i < 4; i++)
            zmq_send(real, "x", 1, ZMQ_DONTWAIT);
        zmq_msg_init(&got);
        mr_zmq_receive(listening, &got);
        zmq_msg_close(&got);
    }
    assert_int_equal(mr_zmq_refused(listening), 1);
    close(fd);
    zmq_close(real);
    zmq_ctx_term(context);
    mr_zmq_close(&listening, 0);
}

typedef struct sender {
    void *socket;
    atomic_bool stop, ended;
    int sent;
} sender;

static void *send_fast(void *context) {
    static char message[PART];
    sender *at = context;
    while (!atomic_load(&at->stop))
        at->sent += zmq_send(at->socket, message, sizeof message, 0) == sizeof message;
    atomic_store(&at->ended, true);
    return NULL;
}

static void receive_for(mr_zmq *owner, int for_ms, int *got) {
    for (const int64_t end_ns = mr_now_ns() + for_ms * NS_PER_MS; mr_now_ns() < end_ns;)
        receive_one(owner, got);
}

/* However much comes between two looks, and also if the owner then is late: all must arrive. */
TEST(test_a_fast_sender) {
    enum { FAST_MS = 1500, LATE_MS = 700 };
    mr_zmq *listening = listen_at(ZMQ_PULL, PART);
    void *context = zmq_ctx_new();
    sender fast = {.socket = pusher(context, listening)};
    pthread_t thread;
    int got = 0;
    assert_int_equal(pthread_create(&thread, NULL, send_fast, &fast), 0);
    receive_for(listening, FAST_MS, &got);
    sleep_ms(LATE_MS);
    receive_for(listening, FAST_MS, &got);
    atomic_store(&fast.stop, true);
    while (!atomic_load(&fast.ended)) /* The sender may wait until there is room. */
        receive_one(listening, &got);
    pthread_join(thread, NULL);
    for (const int64_t end_ns = mr_now_ns() + PATIENCE_MS * NS_PER_MS; got < fast.sent && mr_now_ns() < end_ns;)
        receive_one(listening, &got);
    assert_int_equal(mr_zmq_refused(listening), 0);
    assert_int_equal(got, fast.sent);
    zmq_close(fast.socket);
    zmq_ctx_term(context);
    mr_zmq_close(&listening, 0);
}

/* The owner has found nothing and waits: a whole message would wake it. */
COUNTED_TEST(test_an_owner_that_waits) {
    char parts[65536];
    int got = 0;
    mr_zmq *listening = listen_at(ZMQ_PULL, PART);
    const int fd = connect_as(listening, "PUSH");
    for (size_t i = 0; i < sizeof parts; i++)
        parts[i] = i % 2 == 0;
    receive_one(listening, &got);
    for (size_t sent = 0; sent < 8 << 20; sent += sizeof parts)
        assert_int_equal(send(fd, parts, sizeof parts, MSG_NOSIGNAL), sizeof parts);
    sleep_ms(3000);
    assert_int_equal(mr_zmq_refused(listening), 0);
    mr_zmq_note_wait(listening, true);
    await_refused(listening);
    mr_zmq_note_wait(listening, false);
    close(fd);
    mr_zmq_close(&listening, 0);
}

/* Two ends of a TCP connection. */
static void make_pair(int fd[2]) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int listening = socket(AF_INET, SOCK_STREAM, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(bind(listening, (struct sockaddr *)&at, sizeof at) == 0 && listen(listening, 1) == 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &size), 0);
    assert_int_equal(connect(fd[0], (struct sockaddr *)&at, sizeof at), 0);
    assert_true((fd[1] = accept(listening, NULL, NULL)) >= 0);
    close(listening);
}

/* Bytes from a connection with so many a second, until the guard would close it; at most MANY. */
static size_t pass_beside(uint64_t most, size_t each_second) {
    enum { SECONDS = 4 };
    static mr_zmq_taken taken;
    const mr_zmq_bound bound = {.message_bytes = PART, .most = most, .beside = MR_ZMQ_BESIDE};
    mr_zmq_endless endless = {0};
    char bytes[SECONDS * 2048] = {0};
    size_t passed = 0;
    bool close_it = false;
    int fd[2];
    make_pair(fd);
    for (int64_t now_ns = 1; !close_it && passed < MANY / 4; passed += SECONDS * each_second) {
        assert_int_equal(send(fd[0], bytes, SECONDS * each_second, 0), SECONDS * each_second);
        assert_int_equal(recv(fd[1], bytes, SECONDS * each_second, MSG_WAITALL), SECONDS * each_second);
        mr_zmq_taken_note_empty(&taken);
        now_ns += SECONDS * 1000 * NS_PER_MS;
        close_it = mr_zmq_endless_look(&endless, &taken, &bound, fd[1], fd[1], 1, now_ns);
    }
    close(fd[0]);
    close(fd[1]);
    return passed;
}

/* With CURVE ten heartbeats a second are 420 bytes. */
COUNTED_TEST(test_heartbeats_for_months) {
    assert_true(pass_beside(1, 420) >= MANY / 4);
    assert_true(pass_beside(QUEUED, 420) >= MANY / 4);
    assert_true(pass_beside(1, 2048) < MANY / 4);
    assert_true(pass_beside(QUEUED, 2048) < MANY / 4);
}

RUN_TESTS(NULL, NULL)
