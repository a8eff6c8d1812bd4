/* Traces: the file has exactly the recorded events; events without room are counted; a killed run leaves a complete
 * trace. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yajl/yajl_parse.h>

#include "engine/observe/trace.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

/* Trees take quadratic time. */
static void assert_json(const char *text) {
    yajl_handle parser = yajl_alloc(NULL, NULL, NULL);
    assert_non_null(parser);
    assert_int_equal(yajl_parse(parser, (const unsigned char *)text, strlen(text)), yajl_status_ok);
    assert_int_equal(yajl_complete_parse(parser), yajl_status_ok);
    yajl_free(parser);
}

static long long lost_of(const char *text) {
    static const char name[] = "\"events_lost\":";
    const char *lost = strstr(text, name);
    assert_non_null(lost);
    return atoll(lost + sizeof name - 1);
}

/* Each event begins a line. A sanitizer's strstr reads everything that follows in each call. */
static size_t count_phase(const char *text, const char *phase) {
    char begin[32];
    size_t count = 0;
    snprintf(begin, sizeof begin, "{\"ph\":\"%s\",", phase);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        count += strncmp(line, begin, strlen(begin)) == 0;
    }
    return count;
}

/* ---- the text ---- */

static const char expected[] =
    "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":1,\"args\":{\"name\":\"pipeline\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":1,\"tid\":2,\"args\":{\"name\":\"worker \\\"0\\\"\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":1,\"tid\":2,\"args\":{\"sort_index\":2}},\n"
    "{\"ph\":\"X\",\"name\":\"decode\",\"pid\":1,\"tid\":2,\"ts\":1.500,\"dur\":2000000.001,"
    "\"args\":{\"source\":\"lobby\",\"epoch\":1,\"seq\":7,\"frames\":1}},\n"
    "{\"ph\":\"s\",\"name\":\"frame\",\"pid\":1,\"tid\":2,\"ts\":1.500,\"cat\":\"frame\",\"id\":3302829850631},\n"
    "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":2,\"args\":{\"name\":\"sim:0\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":2,\"tid\":3,\"args\":{\"name\":\"upload\"}},\n"
    "{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":2,\"tid\":3,\"args\":{\"sort_index\":3}},\n"
    "{\"ph\":\"X\",\"name\":\"copy\",\"pid\":2,\"tid\":3,\"ts\":-0.001,\"dur\":0.000,"
    "\"args\":{\"stage\":\"decode\",\"bytes\":4096}},\n"
    "{\"ph\":\"C\",\"name\":\"queue of decode\",\"pid\":1,\"ts\":2.000,\"args\":{\"frames\":3}},\n"
    "{\"ph\":\"i\",\"name\":\"drop\",\"pid\":1,\"tid\":2,\"ts\":3.000,\"s\":\"t\","
    "\"args\":{\"reason\":\"queue full\"}},\n"
    "{\"ph\":\"f\",\"name\":\"frame\",\"pid\":1,\"tid\":2,\"ts\":4.000,\"cat\":\"frame\",\"id\":3302829850631,"
    "\"bp\":\"e\"}\n"
    "],\"otherData\":{\"events_lost\":0}}\n";

TEST_WITH(events_are_written_exactly, make_temporary, remove_temporary) {
    mr_clock *clock = NULL;
    mr_trace *trace = NULL;
    mr_track *unused, *worker, *upload, *queue;
    assert_int_equal(mr_clock_create_simulated(&clock, 1000000), MR_OK);
    assert_int_equal(mr_trace_create(&trace, &(mr_trace_params){.path = temporary_path, .clock = clock}), MR_OK);
    assert_int_equal(mr_trace_add_track(trace, "pipeline", "nothing happens here", &unused), MR_OK);
    assert_int_equal(mr_trace_add_track(trace, "pipeline", "worker \"0\"", &worker), MR_OK);
    assert_int_equal(mr_trace_add_track(trace, "sim:0", "upload", &upload), MR_OK);
    assert_int_equal(mr_trace_add_track(trace, "pipeline", "queue of decode", &queue), MR_OK);
    const mr_identity frame = {.source = 3, .epoch = 1, .seq = 7};
    const mr_trace_about call = {.source = "lobby", .frame = frame, .frames = 1};
    mr_trace_span(trace, worker, "decode", 1001500, 2001001501, &call);
    mr_trace_arrow(trace, worker, MR_TRACE_FIRST, 1001500, &frame);
    mr_trace_span(trace, upload, "copy", 999999, 999999, &(mr_trace_about){.stage = "decode", .bytes = 4096});
    mr_trace_value(trace, queue, 1002000, 3);
    mr_trace_instant(trace, worker, "drop", 1003000, &(mr_trace_about){.reason = "queue full"});
    mr_trace_arrow(trace, worker, MR_TRACE_LAST, 1004000, &frame);
    assert_int_equal(mr_trace_finish(trace), MR_OK);
    mr_trace_destroy(&trace);
    mr_clock_destroy(&clock);
    FREED char *text = whole_file(temporary_path);
    assert_string_equal(text, expected);
}

/* ---- threads ---- */

enum { THREADS = 4, EACH = 50000, MANY = 100000 };

typedef struct teller {
    pthread_t thread;
    mr_trace *trace;
    mr_track *track;
} teller;

static void *tell(void *context) {
    teller *self = context;
    for (int i = 0; i < EACH; i++)
        mr_trace_span(self->trace, self->track, "call", i, i + 1, NULL);
    return NULL;
}

/* However much the writer manages: nothing is written twice, and missing events are counted. */
TEST_WITH(threads_lose_only_what_is_counted, make_temporary, remove_temporary) {
    mr_trace *trace = NULL;
    teller tellers[THREADS];
    be_quiet(NULL);
    assert_int_equal(mr_trace_create(&trace, &(mr_trace_params){temporary_path, mr_clock_real(), true}), MR_OK);
    for (int i = 0; i < THREADS; i++) {
        tellers[i].trace = trace;
        assert_int_equal(mr_trace_add_track(trace, "threads", "teller", &tellers[i].track), MR_OK);
        assert_int_equal(pthread_create(&tellers[i].thread, NULL, tell, &tellers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(tellers[i].thread, NULL);
    assert_int_equal(mr_trace_finish(trace), MR_OK);
    uint64_t lost = mr_trace_lost(trace);
    mr_trace_destroy(&trace);
    mr_log_to(NULL, NULL);
    FREED char *text = whole_file(temporary_path);
    assert_json(text);
    assert_int_equal(lost_of(text), lost);
    assert_int_equal(count_phase(text, "X") + lost, THREADS * EACH);
}

/* Without a writer nothing is lost, however much more than a ring holds. */
TEST_WITH(alone_nothing_is_lost, make_temporary, remove_temporary) {
    mr_trace *trace = NULL;
    mr_track *track;
    assert_int_equal(mr_trace_create(&trace, &(mr_trace_params){temporary_path, mr_clock_real(), false}), MR_OK);
    assert_int_equal(mr_trace_add_track(trace, "group", "track", &track), MR_OK);
    for (int i = 0; i < MANY; i++)
        mr_trace_value(trace, track, i, i);
    assert_int_equal(mr_trace_finish(trace), MR_OK);
    mr_trace_destroy(&trace);
    FREED char *text = whole_file(temporary_path);
    assert_json(text);
    assert_int_equal(lost_of(text), 0);
    assert_int_equal(count_phase(text, "C"), MANY);
}

TEST_WITH(two_traces_of_one_thread_stay_apart, make_temporary, remove_temporary) {
    mr_trace *first = NULL, *second = NULL;
    mr_track *one, *other;
    assert_int_equal(mr_trace_create(&first, &(mr_trace_params){temporary_path, mr_clock_real(), false}), MR_OK);
    assert_int_equal(mr_trace_create(&second, &(mr_trace_params){"/dev/null", mr_clock_real(), false}), MR_OK);
    assert_int_equal(mr_trace_add_track(first, "group", "one", &one), MR_OK);
    assert_int_equal(mr_trace_add_track(second, "group", "other", &other), MR_OK);
    for (int i = 0; i < 10; i++) {
        mr_trace_value(first, one, i, i);
        mr_trace_value(second, other, i, i);
    }
    mr_trace_destroy(&second);
    mr_trace_destroy(&first);
    FREED char *text = whole_file(temporary_path);
    assert_json(text);
    assert_int_equal(count_phase(text, "C"), 10);
    assert_null(strstr(text, "other\""));
}

/* Events that come while a trace ends, or later, are written or counted; a thread that waits for room goes on. */
TEST_WITH(events_at_the_end_are_written_or_counted, make_temporary, remove_temporary) {
    mr_trace *trace = NULL;
    teller tellers[THREADS];
    be_quiet(NULL);
    assert_int_equal(mr_trace_create(&trace, &(mr_trace_params){temporary_path, mr_clock_real(), false}), MR_OK);
    for (int i = 0; i < THREADS; i++) {
        tellers[i].trace = trace;
        assert_int_equal(mr_trace_add_track(trace, "threads", "teller", &tellers[i].track), MR_OK);
        assert_int_equal(pthread_create(&tellers[i].thread, NULL, tell, &tellers[i]), 0);
    }
    assert_int_equal(mr_trace_finish(trace), MR_OK);
    for (int i = 0; i < THREADS; i++)
        pthread_join(tellers[i].thread, NULL);
    const uint64_t lost = mr_trace_lost(trace);
    mr_trace_value(trace, tellers[0].track, 0, 0);
    assert_int_equal(mr_trace_lost(trace), lost + 1);
    mr_trace_destroy(&trace);
    mr_log_to(NULL, NULL);
    FREED char *text = whole_file(temporary_path);
    assert_json(text);
    assert_true(lost_of(text) <= (long long)lost);
    assert_int_equal(count_phase(text, "X") + lost, THREADS * EACH);
}

/* ---- the file ---- */

/* Tells until it is killed. */
static void tell_on(void) {
    mr_trace *trace = NULL;
    mr_track *track;
    if (mr_trace_create(&trace, &(mr_trace_params){temporary_path, mr_clock_real(), true}) ||
        mr_trace_add_track(trace, "group", "track", &track))
        _exit(1);
    for (int i = 0;; i++) {
        mr_trace_value(trace, track, i, i);
        usleep(20);
    }
}

static size_t count_in_file(const char *phase) {
    char *text = whole_file(temporary_path);
    size_t count = count_phase(text, phase);
    free(text);
    return count;
}

/* A stopped process completes the current system call; a killed process may not. */
static void stop_and_kill(pid_t child) {
    int state;
    assert_int_equal(kill(child, SIGSTOP), 0);
    assert_int_equal(waitpid(child, &state, WUNTRACED), child);
    assert_true(WIFSTOPPED(state));
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* What was written until then is there, as a whole. */
TEST_WITH(a_killed_run_leaves_a_trace, make_temporary, remove_temporary) {
    for (int round = 0; round < 10; round++) {
        assert_int_equal(truncate(temporary_path, 0), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            tell_on();
        for (int i = 0; i < 6000 && !count_in_file("C"); i++)
            usleep(10000);
        usleep((useconds_t)(3700 * round)); /* at another place in the file each time */
        stop_and_kill(child);
        FREED char *text = whole_file(temporary_path);
        assert_json(text);
        assert_true(count_phase(text, "C") > 0);
    }
}

TEST_WITH(what_cannot_be_written_is_told, make_temporary, remove_temporary) {
    mr_trace *trace = NULL, *again = NULL;
    mr_trace_params params = {"/nowhere/trace.json", mr_clock_real(), false};
    assert_int_equal(mr_trace_create(&trace, &params), MR_ERROR_IO);
    assert_string_equal(mr_message(), "cannot write to /nowhere/trace.json: there is no folder /nowhere");
    assert_null(trace);
    params.path = "/dev/full";
    assert_int_equal(mr_trace_create(&trace, &params), MR_OK);
    assert_int_equal(mr_trace_finish(trace), MR_ERROR_IO);
    assert_string_equal(mr_message(), "cannot write to /dev/full: No space left on device");
    assert_int_equal(mr_trace_finish(trace), MR_ERROR_IO);
    mr_trace_destroy(&trace);
    params.path = temporary_path;
    assert_int_equal(mr_trace_create(&trace, &params), MR_OK);
    assert_int_equal(mr_trace_create(&again, &params), MR_ERROR_IO);
    mr_trace_destroy(&trace);
}

/* A disk that fills up in the middle: what fitted is a complete trace. */
TEST_WITH(a_full_disk_leaves_what_fitted, make_temporary, remove_temporary) {
    mr_trace *trace = NULL;
    mr_track *track;
    struct rlimit before, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 1000000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(mr_trace_create(&trace, &(mr_trace_params){temporary_path, mr_clock_real(), false}), MR_OK);
    assert_int_equal(mr_trace_add_track(trace, "group", "track", &track), MR_OK);
    for (int i = 0; i < MANY; i++)
        mr_trace_value(trace, track, i, i);
    assert_int_equal(mr_trace_finish(trace), MR_ERROR_IO);
    mr_trace_destroy(&trace);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    FREED char *text = whole_file(temporary_path);
    assert_json(text);
    size_t count = count_phase(text, "C");
    assert_in_range(count, 5000, MANY / 2);
}

RUN_TESTS(NULL, NULL)
