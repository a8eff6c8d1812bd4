/* Sockets that connect come back after libzmq has given up their connection: the other end refused the key, which it
 * allows later, or the protocol was broken. */
#include <arpa/inet.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/transport/zmq/socket.h"
#include "millrace/channel.h"
#include "millrace/keys.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

static const int64_t LONGEST_NS = INT64_C(20000000000);
static char key[3][256], pub[3][256];

static int make_keys(void **state) {
    int status = make_temporary_folder(state);
    static const char *const names[] = {"binds", "connects", "other"};
    for (int i = 0; !status && i < 3; i++) {
        mr_key_pair pair;
        status = mr_key_pair_generate(&pair) || mr_key_pair_write(&pair, temporary_folder, names[i]);
        mr_key_pair_forget(&pair);
        snprintf(key[i], sizeof key[i], "%s/%s.key", temporary_folder, names[i]);
        snprintf(pub[i], sizeof pub[i], "%s/%s.pub", temporary_folder, names[i]);
    }
    return status;
}

static mr_zmq *open_socket(const mr_zmq_params *params) {
    mr_zmq *made = NULL;
    const int yes = 1;
    assert_int_equal(mr_zmq_create(&made, params), MR_OK);
    if (params->type == ZMQ_PUSH)
        assert_int_equal(zmq_setsockopt(mr_zmq_handle(made), ZMQ_IMMEDIATE, &yes, sizeof yes), 0);
    if (params->type == ZMQ_SUB)
        assert_int_equal(zmq_setsockopt(mr_zmq_handle(made), ZMQ_SUBSCRIBE, "", 0), 0);
    assert_int_equal(mr_zmq_attach(made), MR_OK);
    return made;
}

/* Whether a new message comes through; the sender repeats it. */
static bool passes(mr_zmq *from, mr_zmq *to, mr_zmq *connecting, int64_t longest_ns) {
    static uint64_t text = 0;
    const int64_t until_ns = mr_now_ns() + longest_ns;
    uint64_t got;
    text++;
    while (mr_now_ns() < until_ns) {
        mr_zmq_keep(connecting);
        zmq_send(mr_zmq_handle(from), &text, sizeof text, ZMQ_DONTWAIT);
        while (zmq_recv(mr_zmq_handle(to), &got, sizeof got, ZMQ_DONTWAIT) == sizeof got)
            if (got == text)
                return true;
        zmq_poll(NULL, 0, 10);
    }
    return false;
}

/* The type of the socket that connects, and of the other. */
static void come_back(int type, int other) {
    const char *allow = pub[2];
    mr_zmq *bound = open_socket(&(mr_zmq_params){.id = "binds", .type = other, .endpoint = "tcp://127.0.0.1:*",
                                                 .bind = true, .key = key[0], .allow_count = 1, .allow = &allow});
    char endpoint[128];
    snprintf(endpoint, sizeof endpoint, "%s", mr_zmq_endpoint(bound));
    mr_zmq *connecting = open_socket(&(mr_zmq_params){.id = "connects", .type = type, .endpoint = endpoint,
                                                      .key = key[1], .server = pub[0], .keeps = true});
    const bool sends = type == ZMQ_PUSH || type == ZMQ_PUB || type == ZMQ_XPUB;
    mr_zmq *from = sends ? connecting : bound, *to = sends ? bound : connecting;
    while (!mr_zmq_refused(bound))
        zmq_poll(NULL, 0, 5);
    assert_false(passes(from, to, connecting, 100000000));
    assert_int_equal(mr_zmq_allow(bound, pub[1]), MR_OK);
    assert_true(passes(from, to, connecting, LONGEST_NS));
    mr_zmq_close(&connecting, 0);
    mr_zmq_close(&bound, 0);
}

TEST_WITH(a_refused_key_that_is_allowed_later, make_keys, remove_temporary_folder) {
    come_back(ZMQ_PUSH, ZMQ_PULL);
    come_back(ZMQ_PULL, ZMQ_PUSH);
    come_back(ZMQ_SUB, ZMQ_XPUB);
    come_back(ZMQ_XPUB, ZMQ_SUB);
}

TEST_WITH(a_channel_whose_key_is_allowed_later, make_keys, remove_temporary_folder) {
    mr_channel *receiver = NULL, *sender = NULL;
    assert_int_equal(mr_channel_listen(&receiver, "tcp://127.0.0.1:*", key[0], pub[2], 1000, 8), MR_OK);
    assert_int_equal(mr_channel_connect(&sender, mr_channel_endpoint(receiver), key[1], pub[0]), MR_OK);
    while (!mr_channel_refused(receiver))
        zmq_poll(NULL, 0, 5);
    assert_int_equal(mr_channel_allow(receiver, pub[1]), MR_OK);
    const int64_t until_ns = mr_now_ns() + LONGEST_NS;
    int status;
    while ((status = mr_channel_send(sender, "a", 1)) == MR_ERROR_AGAIN && mr_now_ns() < until_ns)
        zmq_poll(NULL, 0, 10);
    assert_int_equal(status, MR_OK);
    mr_channel_close(&sender, 0);
    mr_channel_close(&receiver, 0);
}

/* Answers a peer's handshake (ZMTP 3.1, https://rfc.zeromq.org/spec/37) as a socket of that type, and nothing later. */
static void greet(int fd, const char *type) {
    unsigned char greeting[64] = {0xff, [9] = 0x7f, 3, 1, 'N', 'U', 'L', 'L'};
    static const char ready[] = "\x04-\x05READY\x0bSocket-Type\0\0\0";
    unsigned char text[64];
    const size_t bytes = strlen(type);
    memcpy(text, ready, sizeof ready - 1);
    text[1] = (unsigned char)(sizeof ready - 1 - 2 + 1 + bytes);
    text[sizeof ready - 1] = (unsigned char)bytes;
    memcpy(text + sizeof ready, type, bytes);
    assert_int_equal(write(fd, greeting, sizeof greeting), sizeof greeting);
    assert_int_equal(write(fd, text, sizeof ready + bytes), sizeof ready + bytes);
}

/* A plain TCP socket of the test. */
static int listen_plainly(char endpoint[64]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    const int server = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server, 8), 0);
    assert_int_equal(getsockname(server, (struct sockaddr *)&address, &bytes), 0);
    snprintf(endpoint, 64, "tcp://127.0.0.1:%d", ntohs(address.sin_port));
    return server;
}

/* The linker brings all calls here (tests/CMakeLists.txt). A channel asks a silent receiver after a tenth of the time
 * that it sets, `asks_ms`, and waits for the answer for a tenth of `waits_ms`. */
static int asks_ms, waits_ms;
int __real_zmq_setsockopt(void *socket, int option, const void *value, size_t bytes);
int __wrap_zmq_setsockopt(void *socket, int option, const void *value, size_t bytes);

int __wrap_zmq_setsockopt(void *socket, int option, const void *value, size_t bytes) {
    int given_ms = 0;
    if (option != ZMQ_HEARTBEAT_IVL && option != ZMQ_HEARTBEAT_TIMEOUT)
        return __real_zmq_setsockopt(socket, option, value, bytes);
    assert_int_equal(bytes, sizeof given_ms);
    memcpy(&given_ms, value, sizeof given_ms);
    *(option == ZMQ_HEARTBEAT_IVL ? &asks_ms : &waits_ms) = given_ms;
    given_ms /= 10;
    return __real_zmq_setsockopt(socket, option, &given_ms, sizeof given_ms);
}

/* As one whose machine has disappeared: the connection is open, and nothing is answered. */
TEST(a_receiver_that_is_silent) {
    char endpoint[64];
    int fds[2] = {-1, -1}, server = listen_plainly(endpoint);
    mr_channel *sender = NULL;
    assert_int_equal(mr_channel_connect(&sender, endpoint, NULL, NULL), MR_OK);
    assert_int_equal(asks_ms, 5000);
    assert_int_equal(waits_ms, 20000);
    for (int i = 0; i < 2; i++) {
        struct pollfd one = {.fd = server, .events = POLLIN};
        assert_int_equal(poll(&one, 1, 60000), 1); /* the second time since the first is given up */
        greet(fds[i] = accept(server, NULL, NULL), "PULL");
    }
    mr_channel_close(&sender, 0);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    close(server);
}

/* A message that is too long ends the connection of a socket that receives. */
TEST(a_message_that_was_too_long) {
    mr_zmq *bound = open_socket(&(mr_zmq_params){.id = "binds", .type = ZMQ_PUSH, .endpoint = "tcp://127.0.0.1:*",
                                                 .bind = true});
    char endpoint[128];
    static const char large[1001];
    snprintf(endpoint, sizeof endpoint, "%s", mr_zmq_endpoint(bound));
    mr_zmq *connecting = open_socket(&(mr_zmq_params){.id = "connects", .type = ZMQ_PULL, .endpoint = endpoint,
                                                      .max_message_bytes = 1000, .keeps = true});
    for (int i = 0; i < 2; i++) {
        assert_true(passes(bound, connecting, connecting, LONGEST_NS));
        assert_int_equal(zmq_send(mr_zmq_handle(bound), large, sizeof large, ZMQ_DONTWAIT), sizeof large);
    }
    assert_true(passes(bound, connecting, connecting, LONGEST_NS));
    mr_zmq_close(&connecting, 0);
    mr_zmq_close(&bound, 0);
}

/* What waits to be read is not lost with the connection. */
TEST(messages_before_one_that_was_too_long) {
    enum { SENT = 5 };
    mr_zmq *bound = open_socket(&(mr_zmq_params){.id = "binds", .type = ZMQ_PUSH, .endpoint = "tcp://127.0.0.1:*",
                                                 .bind = true});
    char endpoint[128];
    static const char large[1001];
    snprintf(endpoint, sizeof endpoint, "%s", mr_zmq_endpoint(bound));
    mr_zmq *connecting = open_socket(&(mr_zmq_params){.id = "connects", .type = ZMQ_PULL, .endpoint = endpoint,
                                                      .max_message_bytes = 1000, .keeps = true});
    for (int i = 0; i < SENT; i++)
        assert_int_equal(zmq_send(mr_zmq_handle(bound), &i, sizeof i, 0), sizeof i);
    assert_int_equal(zmq_send(mr_zmq_handle(bound), large, sizeof large, 0), sizeof large);
    for (int i = 0; i < 250; i++) { /* longer than the first pause */
        mr_zmq_keep(connecting);
        zmq_poll(NULL, 0, 10);
    }
    for (int i = 0, got = -1; i < SENT; i++) {
        assert_int_equal(zmq_recv(mr_zmq_handle(connecting), &got, sizeof got, ZMQ_DONTWAIT), sizeof got);
        assert_int_equal(got, i);
    }
    assert_true(passes(bound, connecting, connecting, LONGEST_NS));
    mr_zmq_close(&connecting, 0);
    mr_zmq_close(&bound, 0);
}

/* The other end breaks the protocol after the handshake: one that only sends connects again, too. */
static void connects_after_nonsense(int type, const char *other) {
    static const char too_long[] = "\x02\0\0\0\0\0\0\x10\0"; /* a message of 4096 bytes */
    char endpoint[64];
    const int server = listen_plainly(endpoint);
    mr_zmq *connecting = open_socket(&(mr_zmq_params){.id = "connects", .type = type, .endpoint = endpoint,
                                                      .max_message_bytes = 1000, .keeps = true});
    struct pollfd one = {.fd = server, .events = POLLIN};
    assert_int_equal(poll(&one, 1, 60000), 1);
    const int fd = accept(server, NULL, NULL);
    greet(fd, other);
    assert_int_equal(write(fd, too_long, sizeof too_long - 1), sizeof too_long - 1);
    const int64_t until_ns = mr_now_ns() + LONGEST_NS;
    int again = 0;
    while (!again && mr_now_ns() < until_ns) {
        mr_zmq_keep(connecting);
        again = poll(&one, 1, 10);
    }
    assert_int_equal(again, 1);
    mr_zmq_close(&connecting, 0);
    close(fd);
    close(server);
}

TEST(a_receiver_that_breaks_the_protocol) {
    connects_after_nonsense(ZMQ_PUSH, "PULL");
    connects_after_nonsense(ZMQ_XPUB, "SUB");
}

/* libzmq's news of each try must not fill the memory while the owner does nothing with the socket, as a source that is
 * held back: here hundreds of tries, each with two messages of 64 bytes. */
TEST(nobody_listens_for_long) {
    char endpoint[64];
    const int often_ms = 1;
    mr_zmq *connecting = NULL;
    close(listen_plainly(endpoint));
    assert_int_equal(mr_zmq_create(&connecting, &(mr_zmq_params){.id = "connects", .type = ZMQ_PULL,
                                                                 .endpoint = endpoint, .keeps = true}), MR_OK);
    assert_int_equal(zmq_setsockopt(mr_zmq_handle(connecting), ZMQ_RECONNECT_IVL, &often_ms, sizeof often_ms), 0);
    assert_int_equal(mr_zmq_attach(connecting), MR_OK);
    zmq_poll(NULL, 0, 500);
    const size_t before = mallinfo2().uordblks;
    zmq_poll(NULL, 0, 2000);
    assert_in_range(mallinfo2().uordblks, 0, before + 32768);
    mr_zmq_close(&connecting, 0);
}

/* libzmq connects again by itself. */
TEST(a_peer_that_is_away_for_a_while) {
    const mr_zmq_params binds = {.id = "binds", .type = ZMQ_PULL, .endpoint = "tcp://127.0.0.1:*", .bind = true};
    mr_zmq *bound = open_socket(&binds);
    char endpoint[128];
    snprintf(endpoint, sizeof endpoint, "%s", mr_zmq_endpoint(bound));
    mr_zmq *connecting = NULL;
    const mr_zmq_params connects = {.id = "connects", .type = ZMQ_PUSH, .endpoint = endpoint, .keeps = true};
    assert_int_equal(mr_zmq_create(&connecting, &connects), MR_OK);
    assert_int_equal(mr_zmq_attach(connecting), MR_OK);
    assert_true(passes(connecting, bound, connecting, LONGEST_NS));
    mr_zmq_close(&bound, 0);
    for (int i = 0; i < 250; i++) { /* longer than the first pause */
        mr_zmq_keep(connecting);
        zmq_poll(NULL, 0, 10);
    }
    bound = open_socket(&(mr_zmq_params){.id = "binds", .type = ZMQ_PULL, .endpoint = endpoint, .bind = true});
    assert_true(passes(connecting, bound, connecting, LONGEST_NS));
    mr_zmq_close(&connecting, 0);
    mr_zmq_close(&bound, 0);
}

RUN_TESTS_AT_ONCE(NULL, NULL)
