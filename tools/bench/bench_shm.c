/* Frames from one process to another on one host, in several ways; shm.py runs them in turn with their peers.
 *
 *     bench_shm WAY WIDTHxHEIGHT FRAMES [RATE]
 *
 * WAY is `shm-zmq` (slots of shared memory, references over ZeroMQ), `shm-note` (the same, references in
 * shared memory as well), `zmq` (whole frames over ZeroMQ, ipc, ROUTER and DEALER with credit) or `memcpy` (whole
 * frames copied into shared memory and out of it again). Frames are I420; each has its number at both ends, which
 * the consumer checks. With RATE they are sent so many times a second, and the time on the way is measured. The
 * first frames, in which memory is touched for the first time, do not count. One JSON object is printed: seconds
 * of both processes together, and microseconds. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "engine/data/pool.h"
#include "engine/device/device.h"
#include "engine/transport/shm/shm.h"
#include "millrace/status.h"

enum { SLOTS = 16, WARM = 64, CREDIT = 8 };

typedef enum way { SHM_ZMQ, SHM_NOTE, ZMQ, COPY, WAYS } way;
static const char *const way_names[WAYS] = {"shm-zmq", "shm-note", "zmq", "memcpy"};

typedef struct message_in {
    mr_shm_reference reference;
    int64_t sent_ns;
} message_in;

/* What the consumer tells in the end. */
typedef struct outcome {
    double cpu_s;
    int64_t begin_ns, end_ns;
    double p50_us, p99_us;
} outcome;

typedef struct bench {
    way way;
    size_t bytes;
    uint64_t frames;
    double rate;
    int ends[2];        /* a socket pair, for what is not measured */
    mr_shm_offer offer;
    mr_shm_guest guest;
    char address[160];
    void *context, *socket;
    uint8_t *copies;    /* memcpy: slots that both have mapped */
    uint8_t *own;       /* memcpy: where frames come from and go to */
} bench;

static void must(bool so, const char *what) {
    if (so)
        return;
    fprintf(stderr, "bench_shm: %s: %s\n", what, errno ? strerror(errno) : mr_message());
    exit(70);
}

static int64_t now_ns(void) {
    return mr_clock_now_ns(mr_clock_real());
}

static void open_socket(bench *b, int type) {
    b->context = zmq_ctx_new();
    b->socket = zmq_socket(b->context, type);
    const int none = 0;
    must(b->socket && !zmq_setsockopt(b->socket, ZMQ_LINGER, &none, sizeof none), "socket");
    must(!(type == ZMQ_ROUTER ? zmq_bind(b->socket, b->address) : zmq_connect(b->socket, b->address)), b->address);
}

static void close_socket(bench *b) {
    if (!b->context)
        return;
    zmq_close(b->socket);
    zmq_ctx_term(b->context);
}

static void stamp(uint8_t *data, size_t bytes, uint64_t number) {
    memcpy(data, &number, sizeof number);
    memcpy(data + bytes - sizeof number, &number, sizeof number);
}

static void check(const uint8_t *data, size_t bytes, uint64_t number) {
    must(memcmp(data, &number, sizeof number) == 0 &&
             memcmp(data + bytes - sizeof number, &number, sizeof number) == 0,
         "a frame is not what was sent");
}

/* ---- the consumer ---------------------------------------------------------------------------------------------- */

typedef struct consumer {
    mr_shm_import *import;
    int doorbell;
    int64_t *latency;
    double cpu_s;
    int64_t begin_ns;
} consumer;

static void note_frame(consumer *c, uint64_t number, int64_t sent_ns) {
    c->latency[number] = now_ns() - sent_ns;
    if (number + 1 == WARM) {
        c->cpu_s = mr_process_cpu_s();
        c->begin_ns = now_ns();
    }
}

static void receive_ring_message(const bench *b, consumer *c, message_in *got) {
    if (b->way == SHM_ZMQ) {
        must(zmq_recv(b->socket, got, sizeof *got, 0) == sizeof *got, "zmq_recv");
        return;
    }
    size_t bytes;
    int status;
    while ((status = mr_shm_import_fetch(c->import, got, sizeof *got, &bytes)) == MR_ERROR_AGAIN) {
        uint64_t rings;
        if (mr_shm_import_arm(c->import) && poll(&(struct pollfd){.fd = c->doorbell, .events = POLLIN}, 1, -1) == 1)
            must(read(c->doorbell, &rings, sizeof rings) == sizeof rings, "doorbell");
    }
    must(!status, "fetch");
}

static void consume_shared(const bench *b, consumer *c) {
    message_in got;
    mr_buffer *buffer = NULL;
    for (uint64_t i = 0; i < b->frames; i++) {
        receive_ring_message(b, c, &got);
        must(!mr_shm_import_take(c->import, &got.reference, &buffer), "take");
        note_frame(c, i, got.sent_ns);
        check(buffer->data, buffer->bytes, i);
        mr_buffer_unref(&buffer);
    }
}

static void consume_zmq(const bench *b, consumer *c) {
    for (uint64_t i = 0; i < b->frames; i++) {
        int64_t sent_ns;
        must(zmq_recv(b->socket, &sent_ns, sizeof sent_ns, 0) == sizeof sent_ns, "zmq_recv");
        zmq_msg_t message;
        zmq_msg_init(&message);
        must(zmq_msg_recv(&message, b->socket, 0) == (int)b->bytes, "zmq_msg_recv");
        note_frame(c, i, sent_ns);
        check(zmq_msg_data(&message), b->bytes, i);
        zmq_msg_close(&message);
        must(zmq_send(b->socket, "", 0, 0) == 0, "credit");
    }
}

static void consume_copies(const bench *b, consumer *c) {
    int64_t sent_ns;
    for (uint64_t i = 0; i < b->frames; i++) {
        must(recv(b->ends[1], &sent_ns, sizeof sent_ns, 0) == sizeof sent_ns, "recv");
        memcpy(b->own, b->copies + i % CREDIT * b->bytes, b->bytes);
        note_frame(c, i, sent_ns);
        check(b->own, b->bytes, i);
        must(send(b->ends[1], "", 1, 0) == 1, "send");
    }
}

static int compare(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void be_consumer(bench *b) {
    consumer c = {.latency = calloc(b->frames, sizeof *c.latency)};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    must(c.latency, "calloc");
    if (b->way == SHM_ZMQ || b->way == ZMQ) {
        open_socket(b, ZMQ_DEALER);
        must(zmq_send(b->socket, "", 0, 0) == 0, "zmq_send");
    }
    if (b->way == SHM_ZMQ || b->way == SHM_NOTE)
        must(!mr_shm_doorbell(&c.doorbell) && !mr_shm_import_open(&c.import, &b->offer, &b->guest, c.doorbell),
             "import");
    if (b->way == COPY)
        consume_copies(b, &c);
    else if (b->way == ZMQ)
        consume_zmq(b, &c);
    else
        consume_shared(b, &c);
    outcome end = {.cpu_s = mr_process_cpu_s() - c.cpu_s, .begin_ns = c.begin_ns, .end_ns = now_ns()};
    size_t count = b->frames - WARM;
    qsort(c.latency + WARM, count, sizeof *c.latency, compare);
    end.p50_us = (double)c.latency[WARM + count / 2] / 1e3;
    end.p99_us = (double)c.latency[WARM + count * 99 / 100] / 1e3;
    must(write(b->ends[1], &end, sizeof end) == sizeof end, "write");
    mr_shm_import_close(&c.import);
    close_socket(b);
    exit(0);
}

/* ---- the producer ---------------------------------------------------------------------------------------------- */

typedef struct producer {
    mr_pool *pool;
    mr_shm_export *export;
    mr_shm_peer *peer;
    uint8_t id[256]; /* of the DEALER */
    size_t id_bytes;
    int credit;
    int64_t due_ns;
    double cpu_s;
} producer;

static int64_t await_turn(const bench *b, producer *p) {
    if (b->rate > 0) {
        p->due_ns += (int64_t)(1e9 / b->rate);
        const struct timespec due = {p->due_ns / 1000000000, p->due_ns % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
    }
    return now_ns();
}

static mr_buffer *acquire(producer *p) {
    mr_buffer *buffer = NULL;
    for (bool sleeps = false; mr_pool_acquire(p->pool, &buffer) == MR_ERROR_AGAIN; sleeps = true) {
        mr_shm_export_drive(p->export, sleeps);
        if (sleeps && mr_pool_free_count(p->pool) == 0)
            poll(&(struct pollfd){.fd = mr_shm_export_fd(p->export), .events = POLLIN}, 1, -1);
    }
    must(buffer, "pool");
    return buffer;
}

static void send_ring_message(const bench *b, producer *p, const message_in *sent) {
    if (b->way == SHM_ZMQ) {
        must(zmq_send(b->socket, p->id, p->id_bytes, ZMQ_SNDMORE) >= 0, "zmq_send");
        must(zmq_send(b->socket, sent, sizeof *sent, 0) >= 0, "zmq_send");
        return;
    }
    uint8_t *place;
    while (mr_shm_export_room(p->export, p->peer, &place) < sizeof *sent)
        must(mr_shm_export_attached(p->export, p->peer), "the consumer is gone");
    memcpy(place, sent, sizeof *sent);
    mr_shm_export_post(p->export, p->peer, sizeof *sent);
}

static void produce_shared(const bench *b, producer *p, uint64_t number) {
    message_in sent;
    mr_buffer *buffer = acquire(p);
    stamp(buffer->data, buffer->bytes, number);
    sent.sent_ns = await_turn(b, p);
    must(!mr_shm_export_lend(p->export, p->peer, buffer, 0, buffer->bytes, &sent.reference), "lend");
    mr_buffer_unref(&buffer);
    send_ring_message(b, p, &sent);
}

static void release_part(void *data, void *hint) {
    (void)data;
    mr_buffer *buffer = hint;
    mr_buffer_unref(&buffer);
}

static void await_zmq_credit(const bench *b, producer *p) {
    uint8_t id[256];
    for (; p->credit == 0; p->credit++)
        must(zmq_recv(b->socket, id, sizeof id, 0) > 0 && zmq_recv(b->socket, id, sizeof id, 0) == 0, "credit");
    p->credit--;
}

/* Without a copy on this side: ZeroMQ sends from the buffer. */
static void produce_zmq(const bench *b, producer *p, uint64_t number) {
    await_zmq_credit(b, p);
    mr_buffer *buffer = NULL;
    while (mr_pool_acquire(p->pool, &buffer) == MR_ERROR_AGAIN)
        usleep(100);
    stamp(buffer->data, buffer->bytes, number);
    int64_t sent_ns = await_turn(b, p);
    zmq_msg_t message;
    must(!zmq_msg_init_data(&message, buffer->data, buffer->bytes, release_part, buffer), "zmq_msg_init_data");
    must(zmq_send(b->socket, p->id, p->id_bytes, ZMQ_SNDMORE) >= 0, "zmq_send");
    must(zmq_send(b->socket, &sent_ns, sizeof sent_ns, ZMQ_SNDMORE) >= 0, "zmq_send");
    must(zmq_msg_send(&message, b->socket, 0) >= 0, "zmq_msg_send");
}

static void produce_copy(const bench *b, producer *p, uint64_t number) {
    char credit;
    for (; p->credit == 0; p->credit++)
        must(recv(b->ends[0], &credit, 1, 0) == 1, "recv");
    p->credit--;
    stamp(b->own, b->bytes, number);
    int64_t sent_ns = await_turn(b, p);
    memcpy(b->copies + number % CREDIT * b->bytes, b->own, b->bytes);
    must(send(b->ends[0], &sent_ns, sizeof sent_ns, 0) == sizeof sent_ns, "send");
}

static void meet(const bench *b, producer *p) {
    uint8_t nothing;
    if (b->socket) {
        int got = zmq_recv(b->socket, p->id, sizeof p->id, 0);
        must(got > 0 && zmq_recv(b->socket, &nothing, 1, 0) == 0, "zmq_recv");
        p->id_bytes = (size_t)got;
    }
    while (p->peer && !mr_shm_export_attached(p->export, p->peer)) {
        mr_shm_export_drive(p->export, true);
        poll(&(struct pollfd){.fd = mr_shm_export_fd(p->export), .events = POLLIN}, 1, 100);
    }
}

static void produce(const bench *b, producer *p) {
    p->credit = CREDIT;
    p->due_ns = now_ns();
    for (uint64_t i = 0; i < b->frames; i++) {
        if (i == WARM)
            p->cpu_s = mr_process_cpu_s();
        if (b->way == COPY)
            produce_copy(b, p, i);
        else if (b->way == ZMQ)
            produce_zmq(b, p, i);
        else
            produce_shared(b, p, i);
    }
}

static void report(const bench *b, const outcome *end, double cpu_s) {
    double frames = (double)(b->frames - WARM), wall_s = (double)(end->end_ns - end->begin_ns) / 1e9;
    printf("{\"wall\": %.6f, \"cpu\": %.6f, \"cpu_us_a_frame\": %.3f, \"frames_a_second\": %.0f, \"p50_us\": %.1f, "
           "\"p99_us\": %.1f}\n",
           wall_s, cpu_s, cpu_s / frames * 1e6, frames / wall_s, end->p50_us, end->p99_us);
}

/* ---- both ------------------------------------------------------------------------------------------------------ */

static void prepare(bench *b, producer *p) {
    const mr_memory memory = b->way == ZMQ ? MR_MEMORY_HOST : MR_MEMORY_SHARED;
    must(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, b->ends), "socketpair");
    must(!mr_shm_export_create(&p->export, NULL), "export");
    if (b->way == SHM_ZMQ || b->way == SHM_NOTE)
        must(!mr_shm_guest_make(&b->guest) && !mr_shm_export_invite(p->export, &b->guest, &p->peer), "invite");
    mr_shm_export_offer(p->export, &b->offer);
    if (b->way == COPY) {
        b->copies = mmap(NULL, CREDIT * b->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        b->own = malloc(b->bytes);
        must(b->copies != MAP_FAILED && b->own, "memory");
        memset(b->own, 1, b->bytes);
    } else {
        must(!mr_pool_create(&p->pool, mr_device_cpu(), memory, b->bytes, SLOTS), "pool");
    }
    snprintf(b->address, sizeof b->address, "ipc:///tmp/bench-shm-%d", (int)getpid());
}

static bool parse(int count, char **words, bench *b) {
    unsigned width, height;
    while (count > 1 && b->way < WAYS && strcmp(words[1], way_names[b->way]) != 0)
        b->way++;
    if (count < 4 || b->way == WAYS || sscanf(words[2], "%ux%u", &width, &height) != 2)
        return false;
    b->bytes = (size_t)width * height * 3 / 2;
    b->frames = strtoull(words[3], NULL, 10);
    b->rate = count > 4 ? strtod(words[4], NULL) : 0;
    return b->bytes >= sizeof(uint64_t) && b->frames > WARM;
}

int main(int count, char **words) {
    bench b = {0};
    producer p = {0};
    outcome end;
    if (!parse(count, words, &b)) {
        fprintf(stderr, "usage: bench_shm shm-zmq|shm-note|zmq|memcpy WIDTHxHEIGHT FRAMES [RATE]\n");
        return 64;
    }
    prepare(&b, &p);
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child == 0)
        be_consumer(&b);
    if (b.way == SHM_ZMQ || b.way == ZMQ)
        open_socket(&b, ZMQ_ROUTER);
    meet(&b, &p);
    produce(&b, &p);
    ssize_t got;
    while ((got = recv(b.ends[0], &end, sizeof end, 0)) == 1)
        ;
    must(got == sizeof end, "the consumer");
    report(&b, &end, mr_process_cpu_s() - p.cpu_s + end.cpu_s);
    waitpid(child, NULL, 0);
    mr_shm_export_destroy(&p.export);
    close_socket(&b);
    if (p.pool)
        mr_pool_release(&p.pool);
    return 0;
}
