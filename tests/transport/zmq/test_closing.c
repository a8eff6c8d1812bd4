/* A socket is closed while a connection breaks: messages still to be sent there must hold nothing up. */
#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/transport/zmq/socket.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

enum { PATIENCE_S = 60, LARGE_BYTES = 64 << 20, SOME_BYTES = 4096, LINGER_MS = 100, TURN_MS = 10, REAPING_MS = 200 };

static void rest(int ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static struct timespec at_the_latest(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    return until;
}

/* ---- a peer that reads nothing -------------------------------------------------------------------------------- */

static void say(int fd, const char *bytes, size_t count) {
    assert_true(send(fd, bytes, count, MSG_NOSIGNAL) == (ssize_t)count);
}

static void receive_from(int fd, char *bytes, size_t count) {
    assert_true(recv(fd, bytes, count, MSG_WAITALL) == (ssize_t)count);
}

/* Shakes hands as a DEALER does and sends one byte (https://rfc.zeromq.org/spec/23). Nothing may follow READY before
 * the other side has sent READY too. */
static int connect_to(const mr_zmq *listening) {
    static const char greeting[64] = "\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL",
                      ready[] = "\4\x1c\5READY\xbSocket-Type\0\0\0\6DEALER", message[] = "\0\1x";
    char last_received[256];
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(mr_zmq_endpoint(listening), ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    say(fd, greeting, sizeof greeting);
    say(fd, ready, sizeof ready - 1);
    receive_from(fd, last_received, sizeof greeting);
    receive_from(fd, last_received, 2);
    receive_from(fd, last_received, (unsigned char)last_received[1]);
    say(fd, message, sizeof message - 1);
    return fd;
}

/* Breaks the connection when the other side sends more than it can. */
static void break_off(int fd) {
    int waiting = 0;
    while (waiting < SOME_BYTES) {
        rest(TURN_MS);
        assert_int_equal(ioctl(fd, FIONREAD, &waiting), 0);
    }
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){.l_onoff = 1}, sizeof(struct linger)), 0);
    close(fd);
}

/* ---- libzmq's thread, held where it has found that out -------------------------------------------------------- */

typedef struct held {
    sem_t here, go_on;
} held;

/* For a message that is given up: libzmq's last action on a broken connection, before it looks for other work. */
static void hold(void *data, void *context) {
    held *thread = context;
    free(data);
    sem_post(&thread->here);
    sem_wait(&thread->go_on);
}

static void send_large(void *router, const void *id, size_t bytes, held *thread) {
    zmq_msg_t message;
    assert_int_equal(zmq_msg_init_data(&message, calloc(1, LARGE_BYTES), LARGE_BYTES, hold, thread), 0);
    assert_int_equal(zmq_send(router, id, bytes, ZMQ_SNDMORE), bytes);
    assert_int_equal(zmq_msg_send(&message, router, 0), LARGE_BYTES);
}

static void *close_it(void *socket) {
    mr_zmq *gone = socket;
    mr_zmq_close(&gone, LINGER_MS);
    return NULL;
}

/* The pause lets libzmq's reaper report the socket closed before the other thread continues: a shorter one finds less,
 * but does not fail. */
TEST(test_what_a_broken_connection_has_not_sent) {
    const mr_zmq_params params = {.id = "test", .type = ZMQ_ROUTER, .endpoint = "tcp://127.0.0.1:*", .bind = true};
    mr_zmq *listening = NULL;
    held thread;
    char id[256], byte;
    pthread_t closing;
    assert_int_equal(mr_zmq_create(&listening, &params), MR_OK);
    assert_int_equal(mr_zmq_attach(listening), MR_OK);
    void *router = mr_zmq_handle(listening);
    assert_true(sem_init(&thread.here, 0, 0) == 0 && sem_init(&thread.go_on, 0, 0) == 0);
    int fd = connect_to(listening), bytes = zmq_recv(router, id, sizeof id, 0);
    assert_true(bytes > 0 && zmq_recv(router, &byte, 1, 0) == 1);
    send_large(router, id, (size_t)bytes, &thread);
    break_off(fd);
    struct timespec until = at_the_latest();
    assert_int_equal(sem_timedwait(&thread.here, &until), 0);
    assert_int_equal(zmq_send(router, id, (size_t)bytes, ZMQ_SNDMORE), bytes);
    assert_int_equal(zmq_send(router, "x", 1, 0), 1);
    assert_int_equal(pthread_create(&closing, NULL, close_it, listening), 0);
    rest(REAPING_MS);
    sem_post(&thread.go_on);
    until = at_the_latest();
    assert_int_equal(pthread_timedjoin_np(closing, NULL, &until), 0);
    sem_destroy(&thread.here);
    sem_destroy(&thread.go_on);
}

RUN_TESTS(NULL, NULL)
