/* Shared memory between processes, either of which is killed at any moment, hundreds of times. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/data/pool.h"
#include "engine/device/device.h"
#include "engine/transport/shm/shm.h"
#include "engine/transport/shm/shm_socket.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"
#include "tests/support/transport/shm_ends.h"

enum { SLOTS = 8, BYTES = 65536, KILLS = 200, PATIENCE_MS = 60000 };

/* What crosses beside the memory, as ZeroMQ would carry it. */
typedef struct message_in {
    mr_shm_reference reference;
    uint64_t number; /* it fills the whole slot */
} message_in;

static void wait_for(int fd) {
    assert_int_equal(poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE_MS), 1);
}

/* cmocka's assertions have no effect in a child: it must end with a status that the parent checks. */
static void must(bool so, int code) {
    if (!so)
        _exit(code);
}

/* A child must end with the parent, even if that fails. */
static pid_t fork_child(void) {
    pid_t child = fork();
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return child;
}

/* ---- the consumer ---------------------------------------------------------------------------------------------- */

static bool is_filled(const mr_buffer *buffer, uint64_t number) {
    const uint64_t *words = (const void *)buffer->data;
    return words[0] == number && words[buffer->bytes / 16] == number && words[buffer->bytes / 8 - 1] == number;
}

/* Takes letters, holds the last few buffers, and ends when the letters end. Returns how many it took. */
static uint64_t consume(int messages, mr_shm_import *import) {
    mr_buffer *held[4] = {0};
    uint64_t count = 0;
    message_in got;
    for (ssize_t bytes; (bytes = recv(messages, &got, sizeof got, 0)) == sizeof got; count++) {
        mr_buffer **place = &held[count % 4];
        mr_buffer_unref(place);
        must(mr_shm_import_take(import, &got.reference, place) == MR_OK, 3);
        must(is_filled(*place, got.number), 4);
    }
    for (int i = 0; i < 4; i++)
        mr_buffer_unref(&held[i]);
    return count;
}

static pid_t start_consumer(const mr_shm_offer *offer, const mr_shm_guest *guest, int messages, int other_end) {
    pid_t child = fork_child();
    if (child)
        return child;
    mr_shm_import *import = NULL;
    int doorbell;
    close(other_end);
    must(mr_shm_doorbell(&doorbell) == MR_OK && mr_shm_import_open(&import, offer, guest, doorbell) == MR_OK, 2);
    consume(messages, import);
    mr_shm_import_close(&import);
    _exit(0);
}

/* ---- the producer ---------------------------------------------------------------------------------------------- */

static void fill(mr_buffer *buffer, uint64_t number) {
    uint64_t *words = (void *)buffer->data;
    for (size_t i = 0; i < buffer->bytes / 8; i++)
        words[i] = number;
}

/* Makes one frame, if there is a buffer. MR_ERROR_AGAIN: there is none; MR_ERROR_IO: nobody reads letters. */
static int produce(mr_shm_export *export, mr_shm_peer *peer, mr_pool *pool, int messages, uint64_t number) {
    mr_buffer *buffer = NULL;
    message_in sent = {.number = number};
    mr_shm_export_drive(export, true);
    int status = mr_pool_acquire(pool, &buffer);
    if (status)
        return status;
    fill(buffer, number);
    status = mr_shm_export_lend(export, peer, buffer, 0, buffer->bytes, &sent.reference);
    mr_buffer_unref(&buffer);
    if (!status && send(messages, &sent, sizeof sent, MSG_NOSIGNAL) != sizeof sent)
        status = MR_ERROR_IO;
    return status;
}

static void await_peer(mr_shm_export *export, mr_shm_peer *peer) {
    while (!mr_shm_export_attached(export, peer)) {
        wait_for(mr_shm_export_fd(export));
        mr_shm_export_drive(export, true);
    }
}

/* The producer in this process: a pool, and a consumer process that gets messages. */
typedef struct producer {
    mr_pool *pool;
    mr_shm_export *export;
    mr_shm_peer *peer;
    mr_shm_offer offer;
    mr_shm_guest guest;
    int messages;
    pid_t consumer;
} producer;

static void producer_begin(producer *p) {
    assert_int_equal(mr_pool_create(&p->pool, mr_device_cpu(), MR_MEMORY_SHARED, BYTES, SLOTS), MR_OK);
    assert_int_equal(mr_shm_export_create(&p->export, "/tmp"), MR_OK);
}

static void producer_end(producer *p) {
    mr_shm_export_destroy(&p->export);
    mr_pool_release(&p->pool);
}

static void invite(producer *p) {
    mr_shm_export_offer(p->export, &p->offer);
    assert_int_equal(mr_shm_guest_make(&p->guest), MR_OK);
    assert_int_equal(mr_shm_export_invite(p->export, &p->guest, &p->peer), MR_OK);
}

static void get_consumer(producer *p) {
    int messages[2];
    invite(p);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, messages), 0);
    p->consumer = start_consumer(&p->offer, &p->guest, messages[1], messages[0]);
    p->messages = messages[0];
    close(messages[1]);
    await_peer(p->export, p->peer);
}

/* The child must end well, or from this signal. */
static void expect_end(pid_t child, int signal_number) {
    int ended;
    assert_int_equal(waitpid(child, &ended, 0), child);
    if (signal_number)
        assert_true(WIFSIGNALED(ended) && WTERMSIG(ended) == signal_number);
    else
        assert_int_equal(ended, 0);
}

#define PRODUCER_TEST(name) TEST_GIVEN(name, producer, p, producer_begin(&made), producer_end(&made))

/* ---- tests ----------------------------------------------------------------------------------------------------- */

PRODUCER_TEST(every_frame_is_seen_as_it_was_sent) {
    get_consumer(p);
    for (uint64_t i = 0; i < 2000;) {
        int status = produce(p->export, p->peer, p->pool, p->messages, i);
        assert_true(status == MR_OK || status == MR_ERROR_AGAIN);
        i += status == MR_OK;
        if (status) /* All slots are out, so one will come back. */
            wait_for(mr_shm_export_fd(p->export));
    }
    close(p->messages);
    expect_end(p->consumer, 0);
    mr_shm_export_drive(p->export, false);
    assert_int_equal(mr_pool_free_count(p->pool), SLOTS);
}

enum { NOTES = 5000 };

static void pause_now_and_then(unsigned *seed) {
    if (rand_r(seed) % 64 == 0)
        nanosleep(&(struct timespec){.tv_nsec = rand_r(seed) % 200000}, NULL);
}

/* Sleeps whenever there is no note, and answers each note. */
static pid_t start_listener(const mr_shm_offer *offer, const mr_shm_guest *guest, unsigned seed) {
    pid_t child = fork_child();
    if (child)
        return child;
    mr_shm_import *import;
    uint8_t *place;
    uint64_t rings, number;
    size_t bytes;
    int doorbell;
    must(mr_shm_doorbell(&doorbell) == MR_OK && mr_shm_import_open(&import, offer, guest, doorbell) == MR_OK, 2);
    for (uint64_t i = 0; i < NOTES;) {
        int status = mr_shm_import_fetch(import, &number, sizeof number, &bytes);
        if (status == MR_ERROR_AGAIN && mr_shm_import_arm(import)) {
            must(poll(&(struct pollfd){.fd = doorbell, .events = POLLIN}, 1, PATIENCE_MS) == 1, 3);
            must(read(doorbell, &rings, sizeof rings) == sizeof rings, 4);
        } else if (status != MR_ERROR_AGAIN) {
            must(status == MR_OK && bytes == sizeof number && number == i, 5);
            must(mr_shm_import_room(import, &place) >= sizeof number, 6);
            memcpy(place, &number, sizeof number);
            mr_shm_import_post(import, sizeof number);
            i++;
        }
        pause_now_and_then(&seed);
    }
    mr_shm_import_close(&import);
    _exit(0);
}

/* Both sleep whenever they have nothing to do: a lost wake-up would stop them for ever. */
PRODUCER_TEST(notes_wake_who_sleeps) {
    uint8_t *place;
    uint64_t number;
    size_t bytes;
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    invite(p);
    pid_t child = start_listener(&p->offer, &p->guest, seed + 1);
    await_peer(p->export, p->peer);
    for (uint64_t sent = 0, answered = 0; answered < NOTES;) {
        pause_now_and_then(&seed);
        if (sent < NOTES && sent - answered < 1 + seed % 100 &&
            mr_shm_export_room(p->export, p->peer, &place) >= sizeof sent) {
            memcpy(place, &sent, sizeof sent);
            mr_shm_export_post(p->export, p->peer, sizeof sent);
            sent++;
            continue;
        }
        int status = mr_shm_export_fetch(p->export, p->peer, &number, sizeof number, &bytes);
        assert_true(status == MR_OK || status == MR_ERROR_AGAIN);
        if (status) {
            mr_shm_export_drive(p->export, true);
            wait_for(mr_shm_export_fd(p->export));
        } else {
            assert_int_equal(number, answered++);
        }
    }
    expect_end(child, 0);
}

/* Consumers are killed one after another while they take, read and return buffers; the pool is complete again each
 * time. */
PRODUCER_TEST(a_killed_consumer_pins_nothing) {
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    uint64_t number = 0;
    for (int round = 0; round < KILLS; round++) {
        get_consumer(p);
        for (int tries = rand_r(&seed) % 200; tries > 0; tries--) {
            int status = produce(p->export, p->peer, p->pool, p->messages, number++);
            assert_true(status == MR_OK || status == MR_ERROR_AGAIN);
        }
        assert_int_equal(kill(p->consumer, SIGKILL), 0);
        expect_end(p->consumer, SIGKILL);
        /* The system has closed the socket by now. Dropping a stopped peer must not wait for that. */
        if (round % 2)
            mr_shm_export_drive(p->export, false);
        else
            mr_shm_export_drop(p->export, &p->peer);
        assert_int_equal(mr_pool_free_count(p->pool), SLOTS);
        mr_shm_export_drop(p->export, &p->peer);
        close(p->messages);
    }
}

/* The consumer holds one buffer while it waits for the next. */
static void be_producer(const mr_shm_guest *guest, int messages, unsigned seed) {
    mr_pool *pool;
    mr_shm_export *export;
    mr_shm_peer *peer;
    mr_shm_offer offer;
    must(mr_pool_create(&pool, mr_device_cpu(), MR_MEMORY_SHARED, BYTES, 2 + (int)(seed % SLOTS)) == MR_OK, 2);
    must(mr_shm_export_create(&export, temporary_folder) == MR_OK, 3);
    mr_shm_export_offer(export, &offer);
    must(mr_shm_export_invite(export, guest, &peer) == MR_OK, 4);
    must(send(messages, &offer, sizeof offer, 0) == sizeof offer, 5);
    while (!mr_shm_export_attached(export, peer)) {
        poll(&(struct pollfd){.fd = mr_shm_export_fd(export), .events = POLLIN}, 1, PATIENCE_MS);
        mr_shm_export_drive(export, true);
    }
    for (uint64_t number = 0;; number++)
        must(produce(export, peer, pool, messages, number) != MR_ERROR_IO, 6);
}

/* The next producer must remove what a killed one left. In /tmp another process could just be removing it. */
static void expect_removed(const mr_shm_offer *offer) {
    ENDED_BY(mr_shm_export_destroy) mr_shm_export *next;
    assert_int_equal(mr_shm_export_create(&next, temporary_folder), MR_OK);
    assert_int_equal(access(offer->path, F_OK), -1);
}

/* The consumer must see every frame whole up to the last, and what it holds must stay readable. */
TEST_WITH(a_killed_producer_harms_nobody, make_temporary_folder, remove_temporary_folder) {
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    for (int round = 0; round < KILLS; round++) {
        int messages[2], doorbell;
        mr_shm_offer offer;
        mr_shm_guest guest;
        mr_shm_import *import;
        mr_buffer *held = NULL;
        message_in got, last = {0};
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, messages), 0);
        unsigned more = (unsigned)rand_r(&seed);
        assert_int_equal(mr_shm_guest_make(&guest), MR_OK);
        pid_t child = fork_child();
        if (child == 0) {
            close(messages[0]);
            be_producer(&guest, messages[1], more);
        }
        close(messages[1]);
        wait_for(messages[0]);
        assert_int_equal(recv(messages[0], &offer, sizeof offer, 0), sizeof offer);
        assert_int_equal(mr_shm_doorbell(&doorbell), MR_OK);
        assert_int_equal(mr_shm_import_open(&import, &offer, &guest, doorbell), MR_OK);
        int until = rand_r(&seed) % 100;
        for (int i = 0;; i++) {
            if (i == until)
                assert_int_equal(kill(child, SIGKILL), 0);
            if (i < until)
                wait_for(messages[0]);
            if (recv(messages[0], &got, sizeof got, 0) != sizeof got)
                break;
            mr_buffer_unref(&held);
            assert_int_equal(mr_shm_import_take(import, &got.reference, &held), MR_OK);
            assert_true(is_filled(held, got.number));
            last = got;
        }
        expect_end(child, SIGKILL);
        mr_shm_import_close(&import);
        close(doorbell);
        if (held)
            assert_true(is_filled(held, last.number));
        mr_buffer_unref(&held);
        close(messages[0]);
        expect_removed(&offer);
    }
}

/* Memory mapped from another process must be read-only, and a file that it could shorten must not be read. */
SHM_TEST(a_frame_of_another_process_can_only_be_read) {
    ENDED_BY(mr_buffer_unref) mr_buffer *taken = NULL;
    mr_buffer *sent = shm_ends_acquire(ends->pool);
    fill(sent, 1);
    mr_shm_reference reference = shm_ends_lend(ends, sent);
    mr_buffer_unref(&sent);
    assert_int_equal(mr_shm_import_take(ends->import, &reference, &taken), MR_OK);
    pid_t child = fork_child();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile uint8_t *)taken->data = 5;
        _exit(0);
    }
    expect_end(child, SIGSEGV);
    assert_true(is_filled(taken, 1));
}

enum { NOBODY = 65534 };

static void refuse_another_user(const mr_shm_offer *offer, const mr_shm_guest *guest) {
    pid_t child = fork_child();
    if (child == 0) {
        mr_shm_import *import;
        int doorbell;
        must(setresuid(NOBODY, NOBODY, NOBODY) == 0, 9);
        must(mr_shm_doorbell(&doorbell) == MR_OK, 10);
        _exit(mr_shm_import_open(&import, offer, guest, doorbell) == MR_ERROR_PERMISSION ? 0 : 1);
    }
    expect_end(child, 0);
}

/* Needs root. Root of a user namespace can also lack other users. */
static bool can_be_nobody(void) {
    int ended;
    pid_t child = fork_child();
    if (child == 0)
        _exit(setresuid(NOBODY, NOBODY, NOBODY) != 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    return ended == 0;
}

/* The folder keeps other users out; if it did not, the check on who they are would. */
PRODUCER_TEST(another_user_is_refused) {
    char folder[108];
    if (!can_be_nobody())
        skip();
    invite(p);
    refuse_another_user(&p->offer, &p->guest);
    snprintf(folder, sizeof folder, "%s", p->offer.path);
    *strrchr(folder, '/') = 0;
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(chmod(p->offer.path, 0777), 0);
    refuse_another_user(&p->offer, &p->guest);
    mr_shm_export_drive(p->export, false);
    mr_shm_export_drive(p->export, false);
    assert_false(mr_shm_export_attached(p->export, p->peer));
}

RUN_TESTS(NULL, NULL)
