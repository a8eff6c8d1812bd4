/* Cuts between processes. Pipelines in two and three nodes, over ipc and TCP, must give what one process gives, and the
 * source's node must account for every frame. This holds also if nodes are killed or stopped, or strangers
 * interfere. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/cut_record.h"

static char address[64];
static int reserved = -1;

/* A socket that reserves a port while it exists. It does not listen, so libzmq, which also sets SO_REUSEADDR, can bind
 * the same port. */
static uint16_t reserve_port(void) {
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof any;
    const int yes = 1;
    if (reserved >= 0)
        close(reserved);
    reserved = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(reserved, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(reserved, (struct sockaddr *)&any, sizeof any), 0);
    assert_int_equal(getsockname(reserved, (struct sockaddr *)&any, &bytes), 0);
    return ntohs(any.sin_port);
}

/* Replaces "%s" in the nodes with one of this machine's addresses. */
static const char *listening(const char *nodes) {
    static char text[CUT_TEXT];
    snprintf(address, sizeof address, "tcp://127.0.0.1:%d", reserve_port());
    const char *place = strstr(nodes, "%s");
    assert_non_null(place);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(place - nodes), nodes, address, place + 2);
    return text;
}

/* ---- what passes ------------------------------------------------------------------------------------------------ */

TEST_WITH(test_frames_pass_in_order, cut_make_folder, remove_temporary_folder) {
    cut_pass_all(cut_pipeline("  n: {type: count, frames: 3000}\n", "  first: {type: pass, input: n}\n", "first",
                              "  a: {stages: [first]}\n  b: {stages: [kept]}\n"), 3000);
    cut_check_record("n", 3000, 1, 0, true);
}

/* A peer sends pictures in a layout that is not planned. Stages that only take the planned layout do not get them, not
 * even if the first stage would. Stages that take any layout do, as within one process. */
TEST_WITH(test_layouts_that_were_not_planned, cut_make_folder, remove_temporary_folder) {
    enum { FRAMES = 300, OTHERS = 100 };
    static const struct {
        const char *stages, *last, *nodes;
        bool refuses;
    } cases[] = {
        {"  paint: {input: n}\n  gray: {input: paint}\n", "gray",
         "  a: {stages: [paint]}\n  b: {stages: [gray, kept]}\n", true},
        {"  paint: {input: n}\n  chew: {input: paint}\n  gray: {input: chew}\n", "gray",
         "  a: {stages: [paint]}\n  b: {stages: [chew, gray, kept]}\n", true},
        {"  paint: {input: n}\n  chew: {input: paint}\n", "chew",
         "  a: {stages: [paint]}\n  b: {stages: [chew, kept]}\n", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        node_report a, b;
        cut_run_two(cut_pipeline("  n: {type: count, frames: 300}\n", cases[i].stages, cases[i].last, cases[i].nodes),
                    &a, &b);
        int refused = cases[i].refuses ? OTHERS : 0;
        cut_check_ledger(&a, FRAMES, (uint64_t)(FRAMES - refused), 0, (uint64_t)refused);
        assert_int_equal(node_count_lines(cut_file), FRAMES - refused);
        assert_int_equal(unlink(cut_file), 0);
    }
}

/* Frames come less often than a node polls, more often, and as often: each end is found both asleep and awake. */
TEST_WITH(test_frames_pass_to_who_polls, cut_make_folder, remove_temporary_folder) {
    static const char *const nodes[] = {
        "  a: {stages: [noted], busy_poll: 1ms}\n  b: {stages: [kept], busy_poll: 20ms}\n",
        "  a: {stages: [noted], busy_poll: 20ms}\n  b: {stages: [kept], busy_poll: 1ms}\n",
        "  a: {stages: [noted], busy_poll: 2ms}\n  b: {stages: [kept], busy_poll: 2ms}\n"};
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        cut_pass_all(cut_pipeline("  n: {type: count, frames: 300, period: 2ms}\n",
                                  "  noted: {type: note, input: n}\n", "noted", nodes[i]), 300);
        assert_int_equal(unlink(cut_file), 0);
    }
}

TEST_WITH(test_frames_pass_over_tcp, cut_make_folder, remove_temporary_folder) {
    cut_pass_all(cut_pipeline("  n: {type: count, frames: 500}\n",
                              "  number: {type: scale, input: n}\n  noted: {type: note, input: number}\n", "noted",
                              listening("  a: {stages: [number, noted], listen: \"%s\"}\n  b: {stages: [kept]}\n")),
                 500);
}

/* Messages too long for the socket beside ZeroMQ go through ZeroMQ, mixed with shorter ones. */
TEST_WITH(test_frames_pass_in_order_on_two_ways, cut_make_folder, remove_temporary_folder) {
    cut_pass_all(cut_pipeline("  n: {type: count, frames: 2000}\n", "  loaded: {type: load, input: n}\n", "loaded",
                              "  a: {stages: [loaded]}\n  b: {stages: [kept]}\n"), 2000);
    cut_check_record("n", 2000, 1, 1000, true);
}

/* The ledger on the source's node shows what happened to frames on the other side, with the stage there. */
TEST_WITH(test_outcomes_come_back, cut_make_folder, remove_temporary_folder) {
    node_report a, b;
    cut_run_two(cut_pipeline("  n: {type: count, frames: 100}\n",
                     "  first: {type: pass, input: n}\n  door: {type: gate, input: first, every: 4}\n"
                     "  frail: {type: broken, input: door, fail_at: 40}\n",
                     "frail", "  a: {stages: [first]}\n  b: {stages: [door, frail, kept]}\n"),
            &a, &b);
    cut_check_ledger(&a, 100, 24, 75, 1);
    assert_non_null(strstr(a.lines, "absorbed door gate 75;"));
    assert_non_null(strstr(a.lines, "dropped frail error 1;"));
}

/* Both sides report a frame that is lost after a cut. */
TEST_WITH(test_a_loss_is_told, cut_make_folder, remove_temporary_folder) {
    node_report a, b;
    cut_run_two(cut_pipeline("  n: {type: count, frames: 10}\n", "  first: {type: pass, input: n}\n"
                     "  lost: {type: forgetful, input: first}\n", "lost",
                     "  a: {stages: [first]}\n  b: {stages: [lost, kept]}\n"),
            &a, &b);
    cut_check_ledger(&a, 10, 0, 0, 10);
    assert_non_null(strstr(a.lines, "dropped first->b:in unaccounted 10;"));
    assert_int_equal(b.status, MR_ERROR_INTERNAL);
    assert_non_null(strstr(b.message, "10 frames in from other nodes, 0 accounted for: a stage took the others and "
                                      "neither emitted, dropped nor absorbed them: 0, 1, 2, 3, "));
}

TEST_WITH(test_three_nodes_and_back, cut_make_folder, remove_temporary_folder) {
    const char *text =
        cut_pipeline("  n: {type: count, frames: 1000}\n  m: {type: count, frames: 300}\n",
                     "  first: {type: pass, input: [n, m]}\n  second: {type: pass, input: first}\n"
                     "  third: {type: pass, input: second}\n",
                     "third", "  a: {stages: [first, kept]}\n  b: {stages: [second]}\n  c: {stages: [third]}\n");
    node_process one = node_start(text, "a", temporary_folder), two = node_start(text, "b", temporary_folder),
                 three = node_start(text, "c", temporary_folder);
    node_report a = node_finish(&one), b = node_finish(&two), c = node_finish(&three);
    assert_int_equal(node_count_lines(cut_file), 1300);
    cut_check_ledger(&a, 1300, 1300, 0, 0);
    cut_check_ledger(&b, 1300, 1300, 0, 0);
    cut_check_ledger(&c, 1300, 1300, 0, 0);
}

/* A join must learn what was dropped on the other side, so that it need not wait. */
TEST_WITH(test_join_behind_cuts, cut_make_folder, remove_temporary_folder) {
    node_report a, b;
    cut_run_two(cut_pipeline("  n: {type: count, frames: 400}\n",
                     "  plain: {type: pass, input: n}\n  some: {type: gate, input: n, every: 3}\n"
                     "  both: {type: meet, join: {x: plain, y: some}}\n",
                     "both", "  a: {stages: [plain, some]}\n  b: {stages: [both, kept]}\n"),
            &a, &b);
    cut_check_record("n", 400, 3, 0, true);
    cut_check_ledger(&a, 400, 134, 266, 0);
}

/* Each path takes sources in a different order: none may hold up what another path still has to bring. */
TEST_WITH(test_sources_on_two_ways, cut_make_folder, remove_temporary_folder) {
    enum { SOURCES = 10, FRAMES = 100 };
    char sources[512];
    int length = 0;
    for (int i = 0; i < SOURCES; i++)
        length += snprintf(sources + length, sizeof sources - (size_t)length, "  s%d: {type: count, frames: %d}\n", i,
                           FRAMES);
    for (int turn = 0; turn < 2; turn++) {
        const char *text =
            cut_pipeline(sources,
                         "  first: {type: pass, input: sources.*}\n"
                         "  left: {type: chew, input: first, uneven: true}\n"
                         "  right: {type: slow, input: first, period: 50us}\n"
                         "  both: {type: meet, join: {x: left, y: right}}\n",
                         "both",
                         "  a: {stages: [first]}\n  b: {stages: [left]}\n  c: {stages: [right]}\n"
                         "  d: {stages: [both, kept]}\n");
        static const char *const names[] = {"a", "b", "c", "d"};
        node_process nodes[4];
        node_report reports[4];
        for (int i = 0; i < 4; i++)
            nodes[i] = node_start(text, names[i], temporary_folder);
        for (int i = 0; i < 4; i++) {
            reports[i] = node_finish(&nodes[i]);
            assert_int_equal(reports[i].status, MR_OK);
        }
        cut_check_ledger(&reports[0], SOURCES * FRAMES, SOURCES * FRAMES, 0, 0);
        assert_int_equal(node_count_lines(cut_file), SOURCES * FRAMES);
    }
}

/* ---- who dies ---------------------------------------------------------------------------------------------------- */

enum { LONG = 800 };

/* It does not end before the gate is open, however late the nodes are killed. */
static const char *long_run(void) {
    char stages[256], source[64];
    snprintf(stages, sizeof stages,
             "  first: {type: hold, input: n, at: %d, file: %s}\n  slow: {type: slow, input: first, period: 1ms}\n",
             LONG / 2, cut_gate);
    snprintf(source, sizeof source, "  n: {type: count, frames: %d}\n", LONG);
    return cut_pipeline(source, stages, "slow",
                        "  a: {stages: [first]}\n  b: {stages: [slow, kept]}\n");
}

/* One of both is killed three times. */
static void kill_one(bool of_producer) {
    const char *text = long_run();
    node_process producer = node_start(text, "a", temporary_folder), consumer = node_start(text, "b", temporary_folder);
    node_process *victim = of_producer ? &producer : &consumer;
    for (size_t kill_at = 100; kill_at <= 300; kill_at += 100) {
        node_await_lines(cut_file, kill_at);
        node_kill(victim);
        *victim = node_start(text, of_producer ? "a" : "b", temporary_folder);
    }
    cut_open_gate();
    node_report a = node_finish(&producer), b = node_finish(&consumer);
    cut_check_record("n", LONG, 1, 0, false);
    cut_check_ledger(&a, LONG, LONG, 0, 0);
    assert_int_equal(b.status, MR_OK);
}

TEST_WITH(test_consumer_is_killed, cut_make_folder, remove_temporary_folder) {
    kill_one(false);
}

/* A restarted producer reads the source from the beginning, and learns what was already settled. */
TEST_WITH(test_producer_is_killed, cut_make_folder, remove_temporary_folder) {
    setenv("MILLRACE_RUN", "00000000000000a7", 1);
    kill_one(true);
    unsetenv("MILLRACE_RUN");
}

TEST_WITH(test_nodes_are_suspended, cut_make_folder, remove_temporary_folder) {
    const char *text = long_run();
    node_process producer = node_start(text, "a", temporary_folder), consumer = node_start(text, "b", temporary_folder);
    node_await_lines(cut_file, 100);
    kill(consumer.pid, SIGSTOP);
    usleep(200000);
    kill(consumer.pid, SIGCONT);
    node_await_lines(cut_file, 200);
    kill(producer.pid, SIGSTOP);
    usleep(200000);
    kill(producer.pid, SIGCONT);
    cut_open_gate();
    node_report a = node_finish(&producer), b = node_finish(&consumer);
    cut_check_record("n", LONG, 1, 0, true);
    cut_check_ledger(&a, LONG, LONG, 0, 0);
    cut_check_ledger(&b, LONG, LONG, 0, 0);
}

/* The source ends. Frames in flight are delivered, or dropped by the producer if that takes too long. */
TEST_WITH(test_nodes_are_stopped, cut_make_folder, remove_temporary_folder) {
    const char *text =
        cut_pipeline("  n: {type: count, frames: 1000000, period: 1ms}\n", "  first: {type: pass, input: n}\n", "first",
                     "  a: {stages: [first]}\n  b: {stages: [kept]}\n");
    node_process producer = node_start(text, "a", temporary_folder), consumer = node_start(text, "b", temporary_folder);
    node_await_lines(cut_file, 50);
    kill(producer.pid, SIGTERM);
    kill(consumer.pid, SIGTERM);
    node_report a = node_finish(&producer), b = node_finish(&consumer);
    assert_int_equal(a.status, MR_OK);
    assert_int_equal(b.status, MR_OK);
    assert_int_equal(a.in, a.delivered + a.dropped);
    assert_true(node_count_lines(cut_file) >= a.delivered);
    assert_true(a.delivered >= 50);
}

/* Without a consumer, a live cut drops and counts frames, and the producer ends. */
TEST_WITH(test_live_without_consumer, cut_make_folder, remove_temporary_folder) {
    char text[CUT_TEXT];
    snprintf(text, sizeof text, "%s", cut_pipeline("  n: {type: count, frames: 200, period: 1ms}\n",
                                               "  first: {type: pass, input: n}\n"
                                               "  then: {type: pass, input: first, cut: live}\n",
                                               "then", "  a: {stages: [first]}\n  b: {stages: [then, kept]}\n"));
    node_process producer = node_start(text, "a", temporary_folder);
    node_report a = node_finish(&producer);
    cut_check_ledger(&a, 200, 0, 0, 200);
    assert_non_null(strstr(a.lines, "dropped first->b no consumer "));
}

/* ---- strangers --------------------------------------------------------------------------------------------------- */

/* Sends everything invalid that anyone who can connect might send. */
static void bother(void *context, const char *endpoint) {
    static const char garbage[] = "\xff\xfe\x00\x01 this is no envelope";
    for (int i = 0; i < 20; i++) {
        void *socket = zmq_socket(context, ZMQ_DEALER);
        int linger = 100;
        zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
        assert_int_equal(zmq_connect(socket, endpoint), 0);
        zmq_send(socket, garbage, sizeof garbage, 0);
        zmq_send(socket, "", 0, 0);
        zmq_send(socket, garbage, sizeof garbage, ZMQ_SNDMORE);
        zmq_send(socket, garbage, 3, 0);
        for (int part = 0; part < 600; part++)
            zmq_send(socket, garbage, 1, part < 599 ? ZMQ_SNDMORE : 0);
        zmq_close(socket);
    }
}

TEST_WITH(test_strangers_are_refused, cut_make_folder, remove_temporary_folder) {
    const char *text =
        cut_pipeline("  n: {type: count, frames: 700}\n",
                 "  first: {type: pass, input: n}\n  slow: {type: slow, input: first, period: 1ms}\n", "slow",
                 listening("  a: {stages: [first], listen: \"%s\"}\n  b: {stages: [slow, kept]}\n"));
    node_process producer = node_start(text, "a", temporary_folder), consumer = node_start(text, "b", temporary_folder);
    node_await_lines(cut_file, 100);
    void *context = zmq_ctx_new();
    bother(context, address);
    zmq_ctx_term(context);
    node_report a = node_finish(&producer), b = node_finish(&consumer);
    cut_check_record("n", 700, 1, 0, true);
    cut_check_ledger(&a, 700, 700, 0, 0);
    cut_check_ledger(&b, 700, 700, 0, 0);
}

int main(void) {
    cmocka_set_test_filter(getenv("ONLY"));
    return run_suite(NULL, NULL);
}
