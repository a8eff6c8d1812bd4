/* The audit log keeps whole lines, whatever happens to the disk and whoever else writes into the file, and peers
 * cannot fill it. RLIMIT_FSIZE imitates a full disk: write(2) then takes what fits, and finally nothing. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>
#include <zmq.h>

#include "engine/observe/audit_log.h"
#include "engine/transport/zmq/socket.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/support/suite.h"

typedef struct fixture {
    char path[64];
    struct rlimit limit;
    long long entries, lost, left_out; /* as read_log has found them */
} fixture;

static void begin(fixture *in) {
    *in = (fixture){.path = "/tmp/millrace-audit-XXXXXX"};
    int made = mkstemp(in->path);
    assert_true(made >= 0 && getrlimit(RLIMIT_FSIZE, &in->limit) == 0);
    close(made);
    signal(SIGXFSZ, SIG_IGN);
    mr_log_set_level(MR_LOG_ERROR);
}

static void finish(fixture *in) {
    mr_audit_close();
    setrlimit(RLIMIT_FSIZE, &in->limit);
    unlink(in->path);
}

#define AUDIT_TEST(name) TEST_GIVEN(name, fixture, in, begin(&made), finish(&made))

static void allow_bytes(const fixture *in, long long bytes) {
    const struct rlimit limit = {.rlim_cur = bytes < 0 ? in->limit.rlim_cur : (rlim_t)bytes,
                                 .rlim_max = in->limit.rlim_max};
    if (setrlimit(RLIMIT_FSIZE, &limit))
        abort();
}

static long long size_of(const char *path) {
    struct stat found;
    return stat(path, &found) ? -1 : (long long)found.st_size;
}

static long long number(yajl_val tree, const char *name) {
    yajl_val value = yajl_tree_get(tree, (const char *[]){name, NULL}, yajl_t_number);
    return value && YAJL_IS_INTEGER(value) ? YAJL_GET_INTEGER(value) : 0;
}

/* Asserts that every line is an entry, except `pieces` from others, and counts the entries for `event`. */
static void read_log(fixture *in, const char *event, int pieces) {
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(in->path, "r");
    assert_non_null(file);
    in->entries = in->lost = in->left_out = 0;
    for (ssize_t got; (got = getline(&line, &room, file)) > 0;) {
        char why[128] = "";
        assert_int_equal(line[got - 1], '\n');
        yajl_val tree = yajl_tree_parse(line, why, sizeof why);
        if (!YAJL_IS_OBJECT(tree))
            pieces--;
        yajl_val named = tree ? yajl_tree_get(tree, (const char *[]){"event", NULL}, yajl_t_string) : NULL;
        const char *name = named ? YAJL_GET_STRING(named) : "";
        in->entries += strcmp(name, event) == 0;
        in->lost += strcmp(name, "entries lost") == 0 ? number(tree, "entries") : 0;
        in->left_out += number(tree, "left_out");
        yajl_tree_free(tree);
    }
    free(line);
    fclose(file);
    assert_int_equal(pieces, 0);
}

/* ---- disks ----------------------------------------------------------------------------------------------------- */

AUDIT_TEST(a_full_disk_leaves_whole_lines) {
    assert_int_equal(mr_audit_open(in->path), MR_OK);
    mr_audit("event", mr_audit_number("number", 0));
    const long long line = size_of(in->path);
    /* Room for a part of the next entry, with every possible length. */
    for (long long room = 0; room < line; room++) {
        const long long before = size_of(in->path);
        allow_bytes(in, before + room);
        mr_audit("event", mr_audit_number("number", 1));
        assert_int_equal(size_of(in->path), before);
        allow_bytes(in, -1);
        mr_audit("event", mr_audit_number("number", 2));
    }
    read_log(in, "event", 0);
    assert_int_equal(in->entries, 1 + line);
    assert_int_equal(in->lost, line);
}

AUDIT_TEST(what_others_have_left_is_ended) {
    assert_int_equal(mr_audit_open(in->path), MR_OK);
    for (int i = 0; i < 3; i++) {
        mr_audit("event", mr_audit_number("number", 1));
        FILE *other = fopen(in->path, "a");
        fputs("{\"time\":\"2026-", other);
        fclose(other);
    }
    mr_audit("event", mr_audit_number("number", 1));
    read_log(in, "event", 3);
    assert_int_equal(in->entries, 4);
}

enum { PROCESSES = 4, PAIRS = 250 };

static void keep_quiet(void *context, mr_log_level level, const char *line) {
}

/* Runs in a separate process: writes entries while the disk is full now and then. */
static void write_some(const fixture *in, unsigned seed) {
    if (mr_audit_open(in->path))
        _exit(1);
    mr_log_to(keep_quiet, NULL);
    srandom(seed);
    for (int i = 0; i < PAIRS; i++) {
        /* Others write meanwhile, so the remaining room is random. */
        if (random() % 2)
            allow_bytes(in, size_of(in->path) + random() % 150);
        mr_audit("event", mr_audit_number("seed", seed));
        allow_bytes(in, -1);
        mr_audit("event", mr_audit_number("seed", seed));
    }
    mr_audit_close();
    _exit(0);
}

AUDIT_TEST(several_processes_leave_whole_lines) {
    for (unsigned i = 0; i < PROCESSES; i++)
        if (fork() == 0)
            write_some(in, i + 1);
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    read_log(in, "event", 0);
    assert_int_equal(in->entries + in->lost, 2 * PROCESSES * PAIRS);
    assert_true(in->lost > 0);
}

AUDIT_TEST(what_is_not_a_regular_file_is_taken_as_it_is) {
    char got[512] = "";
    unlink(in->path);
    assert_int_equal(mkfifo(in->path, 0600), 0);
    assert_int_equal(mr_audit_open(in->path), MR_OK);
    mr_audit("event", mr_audit_text("text", "a"));
    FILE *reader = fopen(in->path, "r+");
    mr_audit("event", mr_audit_text("text", "b"));
    assert_non_null(fgets(got, sizeof got, reader));
    assert_non_null(strstr(got, "\"text\":\"a\"}\n"));
    assert_non_null(fgets(got, sizeof got, reader));
    assert_non_null(strstr(got, "\"text\":\"b\"}\n"));
    fclose(reader);
}

/* There is one log: opening another replaces and closes the first. */
AUDIT_TEST(a_log_takes_the_place_of_another) {
    struct stat found;
    int before = dup(STDERR_FILENO);
    close(before);
    assert_int_equal(mr_audit_open("/dev/null"), MR_OK);
    assert_int_equal(mr_audit_open(in->path), MR_OK);
    mr_audit("event", mr_audit_number("number", 1));
    read_log(in, "event", 0);
    assert_int_equal(in->entries, 1);
    assert_int_equal(mr_audit_open("/nowhere/at/all"), MR_ERROR_IO);
    mr_audit("event", mr_audit_number("number", 2));
    read_log(in, "event", 0);
    assert_int_equal(in->entries, 2);
    mr_audit_close();
    mr_audit_close();
    assert_false(mr_audit_wanted());
    assert_int_equal(fstat(before, &found), -1);
}

/* ---- floods ---------------------------------------------------------------------------------------------------- */

AUDIT_TEST(peers_that_are_let_in_do_not_fill_it) {
    enum { PEERS = 120, AT_ONCE = 20 };
    mr_zmq *socket = NULL;
    char got[8];
    const int patience_ms = 240000, linger = 0;
    const mr_zmq_params params = {.id = "here", .type = ZMQ_PULL, .endpoint = "tcp://127.0.0.1:*", .bind = true};
    assert_int_equal(mr_audit_open(in->path), MR_OK);
    assert_int_equal(mr_zmq_create(&socket, &params), MR_OK);
    assert_int_equal(mr_zmq_attach(socket), MR_OK);
    zmq_setsockopt(mr_zmq_handle(socket), ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    void *context = zmq_ctx_new();
    for (int i = 0; i < PEERS; i++) {
        void *peer = zmq_socket(context, ZMQ_PUSH);
        zmq_setsockopt(peer, ZMQ_LINGER, &linger, sizeof linger);
        assert_int_equal(zmq_connect(peer, mr_zmq_endpoint(socket)), 0);
        assert_int_equal(zmq_send(peer, "x", 1, 0), 1);
        assert_int_equal(zmq_recv(mr_zmq_handle(socket), got, sizeof got, 0), 1);
        zmq_close(peer);
    }
    zmq_ctx_term(context);
    mr_zmq_close(&socket, 0);
    mr_audit_close();
    read_log(in, "peer accepted", 0);
    /* One that is slow to shake hands may do so twice. All are accounted for. */
    assert_true(in->entries >= AT_ONCE);
    assert_true(in->left_out > 0);
    assert_true(in->entries + in->left_out >= PEERS);
}

/* A source that is live for three seconds and away for half a second, for a day; and then away for good. */
TEST(states_of_a_flapping_source) {
    enum { LIVE = 2, AWAY = 4, ENDED = 6 };
    const int64_t second_ns = 1000000000, day_ns = 86400 * second_ns;
    mr_audit_states states = {0};
    uint64_t entries = 0, changes = 0, told = 0, left_out = 0;
    int64_t now_ns = second_ns;
    for (int last = 0; now_ns < day_ns; now_ns += second_ns / 2) {
        const int one = now_ns / (second_ns / 2) % 7 ? LIVE : AWAY;
        changes += one != last;
        last = one;
        if (!mr_audit_may_state(&states, now_ns, one, false, &left_out))
            continue;
        entries++;
        told += 1 + left_out;
        assert_int_equal(told, changes);
    }
    assert_true(changes > 49000 && entries > 800 && entries < 20 + 24 * 60 + 1);
    for (int i = 0; i < 130; i++)
        mr_audit_may_state(&states, now_ns += second_ns / 2, AWAY, false, &left_out);
    assert_int_equal(states.entered, AWAY);
    assert_true(mr_audit_may_state(&states, now_ns, ENDED, true, &left_out));
    assert_int_equal(left_out, 0);
    assert_false(mr_audit_may_state(&states, now_ns, ENDED, true, &left_out));
}

RUN_TESTS(NULL, NULL)
