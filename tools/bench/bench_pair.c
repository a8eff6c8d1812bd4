/* Measures a cut between two processes against a bare pair of libzmq sockets, ROUTER and DEALER. The pair only passes
 * messages of the same size, without copying, and answers with credit. Contestants take turns, so that changes in the
 * machine's speed affect all of them.
 *
 *   bench_pair [--kind picture|result] [--size WIDTHxHEIGHT] [--over ipc|tcp|shared] [--rate N] [--frames N]
 *              [--rounds N] [--workers N] [--busy-poll MS] [--only bare|cut]
 *
 * Prints one JSON object with medians over the rounds, for each contestant: frames per second; processor time per frame
 * in microseconds, both processes together, from start to end; and the number of times that a thread slept per frame.
 * --rate sets the rate at which frames leave. The object then also has the median transit time in microseconds: from
 * the stage before the cut to the stage after it, and from the sending call to the receiving call. `picture`: I420,
 * 1920x1080 by default. `result`: no payload, a tensor with 1 KiB. `shared`: the cut leaves pictures in shared memory,
 * the bare pair sends them over ipc.
 *
 * Both send the same few prepared frames again and again, and neither receiver reads the contents. The cut does more
 * work: it gathers results in messages, and keeps the memory of received messages (mr_memory_keep), which the bare pair
 * leaves to the C library. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "millrace/log.h"
#include "millrace/millrace.h"

enum { RESULT_FLOATS = 256, MOST_ROUNDS = 100, ENVELOPE_BYTES = 128, RING = 16, FIRST_PORT = 47400 };
/* The bare pair's credit, in messages; returned a quarter at a time. */
enum { CREDIT = 16, RESULT_CREDIT = 256 };

typedef struct options {
    int rounds, frames, width, height, rate, workers, busy_poll_ms;
    bool picture, tcp, shared;
    const char *only; /* NULL: all contestants */
    char folder[64], endpoint[128];
} options;

typedef struct turn {
    double frames_s, cpu_us, sleeps, way_us;
} turn;

static options given = {.rounds = 5, .frames = 3000, .width = 1920, .height = 1080, .workers = 1,
                        .picture = true};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* When frame `seq` leaves, if there is a rate. */
static int64_t due_ns_of(uint64_t seq) {
    static int64_t start_ns;
    if (!start_ns)
        start_ns = now_ns();
    return given.rate ? start_ns + (int64_t)seq * 1000000000 / given.rate : 0;
}

static void await_due(uint64_t seq) {
    const int64_t due_ns = due_ns_of(seq);
    const struct timespec due = {.tv_sec = due_ns / 1000000000, .tv_nsec = due_ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
}

static int by_number(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return first < second ? -1 : first > second;
}

static double median(double *numbers, int count) {
    qsort(numbers, (size_t)count, sizeof *numbers, by_number);
    return numbers[count / 2];
}

/* The receiving process's report at the end. */
typedef struct tally {
    int64_t first_ns, last_ns;
    int frames;
    double way_us;
} tally;

static tally taken;
static double *ways_us;
static int tell_fd;

/* Without a rate, only the first and the last frame read the clock. */
static void note_frame(int64_t left_ns) {
    const bool edge = taken.frames == 0 || taken.frames == given.frames - 1;
    const int64_t at_ns = edge || left_ns ? now_ns() : 0;
    if (taken.frames == 0)
        taken.first_ns = at_ns;
    taken.last_ns = at_ns;
    if (ways_us)
        ways_us[taken.frames] = 1e-3 * (double)(at_ns - left_ns);
    taken.frames++;
}

static void report_once(void) {
    if (ways_us)
        taken.way_us = median(ways_us, taken.frames);
    if (write(tell_fd, &taken, sizeof taken) != sizeof taken)
        exit(1);
}

/* ---- a cut ------------------------------------------------------------------------------------------------------- */

static mr_format picture_format(void) {
    return (mr_format){
        .payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = given.width, .height = given.height};
}

static mr_format tensor_format(void) {
    return mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, (int64_t[]){RESULT_FLOATS});
}

static int source_negotiate(mr_negotiation *negotiation) {
    negotiation->frames = given.frames;
    negotiation->outputs[0].set.payload = MR_PAYLOAD_RESULTS;
    return MR_OK;
}

static int source_process(mr_stage *self, mr_io *io) {
    uint64_t *next = self->state;
    mr_frame *frame;
    if (*next == (uint64_t)given.frames)
        return MR_END;
    const int64_t due_ns = given.rate ? due_ns_of(*next) : 0;
    if (due_ns > now_ns()) {
        mr_io_wake_at(io, due_ns);
        return MR_WAIT;
    }
    int status = mr_io_originate(io, &(mr_identity){.seq = *next}, &frame);
    if (status)
        return status;
    (*next)++;
    return mr_io_emit(io, 0, frame);
}

static int fill_negotiate(mr_negotiation *negotiation) {
    const mr_format picture = picture_format(), tensor = tensor_format();
    if (given.picture) {
        negotiation->outputs[0].set = mr_format_set_of(&picture);
        return MR_OK;
    }
    const mr_format_set set = mr_format_set_of(&tensor);
    negotiation->outputs[0].set.payload = MR_PAYLOAD_RESULTS;
    negotiation->outputs[0].buffer_bytes = RESULT_FLOATS * sizeof(float);
    return mr_promise_result(negotiation, 0, mr_kind_tensor(), "features", &set);
}

static int make_result(mr_io *io, mr_frame **frame) {
    mr_buffer *buffer;
    mr_result *result;
    int status = mr_io_buffer(io, 0, RESULT_FLOATS * sizeof(float), &buffer);
    if (status)
        return status;
    if (!(status = mr_io_derive(io, mr_io_input(io), frame)) &&
        !(status = mr_io_add_result(io, *frame, mr_kind_tensor(), 0, &result))) {
        result->name = "features";
        result->format = tensor_format();
        result->buffer = mr_buffer_ref(buffer);
        result->data = buffer->data;
    }
    mr_buffer_unref(&buffer);
    return status;
}

/* Fills the memory before first use. Unwritten memory is a single page of zeros, whatever its size, and would stay in
 * the cache. */
static void make_real(uint8_t *data, size_t bytes) {
    if (!*data)
        memset(data, 1, bytes);
}

static int fill_process(mr_stage *self, mr_io *io) {
    const mr_format format = picture_format();
    mr_frame *frame;
    int status = given.picture ? mr_io_acquire(io, 0, &format, mr_io_input(io), &frame) : make_result(io, &frame);
    if (status)
        return status;
    if (given.picture)
        make_real(frame->plane[0].buffer->data, frame->plane[0].buffer->bytes);
    frame->pts_ns = given.rate ? now_ns() : 0;
    return mr_io_emit(io, 0, frame);
}

static int count_process(mr_stage *self, mr_io *io) {
    note_frame(mr_io_input(io)->pts_ns);
    return MR_DONE;
}

static const mr_port inputs[] = {{.name = "in", .help = "frames"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "frames"}, {0}};
static const mr_option no_options[] = {MR_OPTIONS_END};

static mr_stage_type source_type = {.name = "bare", .summary = "empty frames", .outputs = outputs,
    .options = no_options, .state_bytes = sizeof(uint64_t), .entry = MR_ENTRY_PER_SOURCE,
    .negotiate = source_negotiate, .process = source_process};
static const mr_stage_type fill_type = {.name = "fill", .summary = "gives frames a payload that is written but once",
    .inputs = inputs, .outputs = outputs, .options = no_options, .entry = MR_ENTRY_SHARED,
    .negotiate = fill_negotiate, .process = fill_process};
static const mr_stage_type count_type = {.name = "count", .summary = "counts frames", .inputs = inputs,
    .options = no_options, .entry = MR_ENTRY_SHARED, .process = count_process};

static void run_node(const char *node) {
    static const mr_stage_type *const types[] = {&source_type, &fill_type, &count_type, NULL};
    char text[512];
    snprintf(text, sizeof text,
             "version: 1\npipeline: bench\nbusy_poll: %dms\nsources: {f: {type: bare}}\n"
             "stages:\n  fill: {input: f}\n  count: {input: fill, cut: {inline: %s}}\n"
             "nodes:\n  a: {stages: [fill], listen: \"%s\"}\n  b: {stages: [count]}\n",
             given.busy_poll_ms, given.shared ? "false" : "true", given.endpoint);
    mr_diagnostics wrong = {0};
    mr_pipeline *pipeline = NULL;
    const mr_pipeline_params params = {
        .types = types, .path = "bench.yaml", .text = text, .workers = given.workers, .cuts = true, .node = node};
    int status = mr_pipeline_open(&pipeline, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    if (!status)
        status = mr_pipeline_start(pipeline);
    if (!status)
        status = mr_pipeline_wait(pipeline, -1);
    if (status)
        fprintf(stderr, "%s: %s\n", node, mr_message());
    mr_pipeline_destroy(&pipeline);
    if (status)
        exit(1);
}

static void cut_give(void) {
    run_node("a");
}

static void cut_take(void) {
    run_node("b");
}

/* ---- a bare pair ------------------------------------------------------------------------------------------------- */

static size_t payload_bytes(void) {
    const mr_format picture = picture_format();
    return given.picture ? mr_format_bytes(&picture) : RESULT_FLOATS * sizeof(float);
}

static int credit(void) {
    return given.picture ? CREDIT : RESULT_CREDIT;
}

static void free_nothing(void *data, void *hint) {
}

static void bare_send(void *socket, const void *id, size_t id_bytes, int seq, uint8_t *ring) {
    uint8_t *payload = ring + (size_t)(seq % RING) * payload_bytes(), envelope[ENVELOPE_BYTES] = {0};
    make_real(payload, payload_bytes());
    zmq_msg_t message;
    if (given.rate)
        await_due((uint64_t)seq);
    const int64_t left_ns = given.rate ? now_ns() : 0;
    memcpy(envelope, &left_ns, sizeof left_ns);
    zmq_msg_init_data(&message, payload, payload_bytes(), free_nothing, NULL);
    zmq_send(socket, id, id_bytes, ZMQ_SNDMORE);
    zmq_send(socket, envelope, sizeof envelope, ZMQ_SNDMORE);
    zmq_msg_send(&message, socket, 0);
}

static void bare_give(void) {
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_ROUTER);
    uint8_t *ring = calloc(RING, payload_bytes()), id[255];
    int no_limit = 0, granted = 0;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &no_limit, sizeof no_limit);
    if (!ring || zmq_bind(socket, given.endpoint))
        exit(1);
    for (int sent = 0; sent < given.frames;) {
        int id_bytes = zmq_recv(socket, id, sizeof id, 0), more = 0;
        if (id_bytes < 0 || zmq_recv(socket, &more, sizeof more, 0) != sizeof more)
            exit(1);
        granted += more;
        while (sent < granted && sent < given.frames)
            bare_send(socket, id, (size_t)id_bytes, sent++, ring);
    }
    /* Waits until the consumer has everything. */
    for (int rest = 1; rest;)
        if (zmq_recv(socket, id, sizeof id, 0) < 0 || zmq_recv(socket, &rest, sizeof rest, 0) != sizeof rest)
            exit(1);
    zmq_close(socket);
    zmq_ctx_term(context);
    free(ring);
}

/* The time when it left. */
static int64_t bare_receive(void *socket) {
    zmq_msg_t message;
    int64_t left_ns = 0;
    for (int more = 1, part = 0; more; part++) {
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, socket, 0) < 0)
            exit(1);
        if (part == 0 && zmq_msg_size(&message) == ENVELOPE_BYTES)
            memcpy(&left_ns, zmq_msg_data(&message), sizeof left_ns);
        more = zmq_msg_more(&message);
        zmq_msg_close(&message);
    }
    return left_ns;
}

static void bare_take(void) {
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_DEALER);
    int first = credit(), quarter = credit() / 4, no_limit = 0;
    zmq_setsockopt(socket, ZMQ_RCVHWM, &no_limit, sizeof no_limit);
    if (zmq_connect(socket, given.endpoint))
        exit(1);
    zmq_send(socket, &first, sizeof first, 0);
    for (int got = 1; got <= given.frames; got++) {
        note_frame(bare_receive(socket));
        if (got % quarter == 0)
            zmq_send(socket, &quarter, sizeof quarter, 0);
    }
    quarter = 0;
    zmq_send(socket, &quarter, sizeof quarter, 0);
    zmq_close(socket);
    zmq_ctx_term(context);
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

typedef struct contestant {
    const char *name;
    void (*give)(void), (*take)(void);
    turn turns[MOST_ROUNDS];
} contestant;

static pid_t start(void (*run)(void), bool tells) {
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mr_log_set_level(MR_LOG_ERROR);
    run();
    if (tells)
        report_once();
    exit(0);
}

static double await(pid_t pid, double *sleeps) {
    struct rusage used;
    int status;
    if (wait4(pid, &status, 0, &used) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
        exit(1);
    *sleeps += (double)used.ru_nvcsw;
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

static turn take_turn(const contestant *of) {
    int ends[2];
    tally reported;
    if (pipe(ends))
        exit(1);
    tell_fd = ends[1];
    pid_t producer = start(of->give, false), consumer = start(of->take, true);
    close(ends[1]);
    if (read(ends[0], &reported, sizeof reported) != sizeof reported)
        exit(1);
    double sleeps = 0, cpu_s = await(producer, &sleeps) + await(consumer, &sleeps);
    close(ends[0]);
    return (turn){.frames_s = 1e9 * (reported.frames - 1) / (double)(reported.last_ns - reported.first_ns),
                  .cpu_us = 1e6 * cpu_s / reported.frames,
                  .sleeps = sleeps / reported.frames,
                  .way_us = reported.way_us};
}

static void print_rounds(const contestant *of) {
    for (int i = 0; i < given.rounds; i++)
        printf("%s[%.0f, %.2f, %.2f, %.1f]", i ? ", " : "", of->turns[i].frames_s, of->turns[i].cpu_us,
               of->turns[i].sleeps, of->turns[i].way_us);
}

static void print(const contestant *of) {
    double frames[MOST_ROUNDS], cpu[MOST_ROUNDS], sleeps[MOST_ROUNDS], way[MOST_ROUNDS];
    for (int i = 0; i < given.rounds; i++) {
        frames[i] = of->turns[i].frames_s;
        cpu[i] = of->turns[i].cpu_us;
        sleeps[i] = of->turns[i].sleeps;
        way[i] = of->turns[i].way_us;
    }
    printf("\"%s\": {\"frames_s\": %.0f, \"cpu_us\": %.2f, \"sleeps\": %.2f", of->name, median(frames, given.rounds),
           median(cpu, given.rounds), median(sleeps, given.rounds));
    if (given.rate)
        printf(", \"way_us\": %.1f", median(way, given.rounds));
    printf(", \"rounds\": [");
    print_rounds(of);
    printf("]}");
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static bool read_option(const char *name, const char *value) {
    char rest;
    if (strcmp(name, "--rounds") == 0)
        return sscanf(value, "%d%c", &given.rounds, &rest) == 1 && given.rounds >= 1 && given.rounds <= MOST_ROUNDS;
    if (strcmp(name, "--frames") == 0)
        return sscanf(value, "%d%c", &given.frames, &rest) == 1 && given.frames >= 2;
    if (strcmp(name, "--rate") == 0)
        return sscanf(value, "%d%c", &given.rate, &rest) == 1 && given.rate >= 1;
    if (strcmp(name, "--workers") == 0)
        return sscanf(value, "%d%c", &given.workers, &rest) == 1 && given.workers >= 1;
    if (strcmp(name, "--busy-poll") == 0)
        return sscanf(value, "%d%c", &given.busy_poll_ms, &rest) == 1 && given.busy_poll_ms >= 0;
    if (strcmp(name, "--size") == 0)
        return sscanf(value, "%dx%d%c", &given.width, &given.height, &rest) == 2 && given.width >= 2 &&
               given.height >= 2;
    if (strcmp(name, "--kind") == 0) {
        given.picture = strcmp(value, "picture") == 0;
        return given.picture || strcmp(value, "result") == 0;
    }
    if (strcmp(name, "--over") == 0) {
        given.tcp = strcmp(value, "tcp") == 0;
        given.shared = strcmp(value, "shared") == 0;
        return given.tcp || given.shared || strcmp(value, "ipc") == 0;
    }
    given.only = value;
    return strcmp(name, "--only") == 0 && (strcmp(value, "bare") == 0 || strcmp(value, "cut") == 0);
}

static void read_options(int argc, char **argv) {
    bool right = argc % 2 == 1;
    for (int i = 1; right && i + 1 < argc; i += 2)
        right = read_option(argv[i], argv[i + 1]);
    if (right)
        return;
    fprintf(stderr,
            "usage: bench_pair [--kind picture|result] [--size WIDTHxHEIGHT] [--over ipc|tcp|shared] [--rate N] "
            "[--frames N] [--rounds N] [--workers N] [--busy-poll MS] [--only bare|cut]\n");
    exit(64);
}

static bool takes_part(const contestant *of) {
    return !given.only || strcmp(given.only, of->name) == 0;
}

/* Each turn needs a separate address: the previous one may still be closing. */
static void run_turn(contestant *of, int round, int number) {
    char path[80];
    snprintf(path, sizeof path, "%s/%d-%d", given.folder, round, number);
    if (given.tcp)
        snprintf(given.endpoint, sizeof given.endpoint, "tcp://127.0.0.1:%d", FIRST_PORT + 2 * round + number);
    else
        snprintf(given.endpoint, sizeof given.endpoint, "ipc://%s", path);
    of->turns[round] = take_turn(of);
    unlink(path);
}

int main(int argc, char **argv) {
    static contestant contestants[] = {{.name = "bare", .give = bare_give, .take = bare_take},
                                       {.name = "cut", .give = cut_give, .take = cut_take}};
    read_options(argc, argv);
    snprintf(given.folder, sizeof given.folder, "/tmp/millrace-bench-XXXXXX");
    if (!mkdtemp(given.folder) || (given.rate && !(ways_us = calloc((size_t)given.frames, sizeof *ways_us))))
        return 1;
    for (int round = 0; round < given.rounds; round++)
        for (int i = 0; i < 2; i++)
            if (takes_part(&contestants[i]))
                run_turn(&contestants[i], round, i);
    printf("{");
    for (int i = 0; i < 2; i++)
        if (takes_part(&contestants[i])) {
            printf(i && !given.only ? ",\n " : "");
            print(&contestants[i]);
        }
    printf("}\n");
    rmdir(given.folder);
    free(ways_us);
    return 0;
}
