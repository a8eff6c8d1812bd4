/* Calls of other programs: their words, what they print, and those that are missing, hang, babble or leave others. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tools/millrace/cli/exec.h"

#define MS INT64_C(1000000)

static int run(const char *script, int64_t patience_ns, size_t most, mr_exec_result *result) {
    const char *const words[] = {"sh", "-c", script, "name", "two words", "$(x) 'y'", "", NULL};
    const mr_exec call = {.words = words, .package = "dash", .patience_ns = patience_ns, .most = most};
    return mr_exec_run(&call, result);
}

TEST(words_and_both_streams_come_whole) {
    mr_exec_result result;
    assert_int_equal(run("printf '[%s]' \"$@\"; printf wrong >&2; exit 74", 0, 1000, &result), MR_OK);
    assert_int_equal(result.code, 74);
    assert_string_equal(result.out, "[two words][$(x) 'y'][]");
    assert_string_equal(result.err, "wrong");
    mr_exec_fini(&result);
    assert_null(result.out);
}

TEST(the_input_is_a_file_or_nothing) {
    const char *const words[] = {"cat", NULL};
    FILE *file = tmpfile();
    mr_exec call = {.words = words, .package = "coreutils", .input = file, .most = 1 << 20};
    mr_exec_result result;
    for (int i = 0; i < 20000; i++)
        fputs("0123456789\n", file);
    rewind(file);
    assert_int_equal(mr_exec_run(&call, &result), MR_OK);
    assert_int_equal(result.out_bytes, 220000);
    assert_int_equal(strlen(result.out), 220000);
    mr_exec_fini(&result);
    fclose(file);
    call.input = NULL;
    assert_int_equal(mr_exec_run(&call, &result), MR_OK);
    assert_int_equal(result.out_bytes, 0);
    mr_exec_fini(&result);
}

TEST(a_signal_is_a_code_above_128) {
    ENDED_BY(mr_exec_fini) mr_exec_result result;
    assert_int_equal(run("kill -9 $$", 0, 10, &result), MR_OK);
    assert_int_equal(result.code, 128 + SIGKILL);
}

/* millrace ignores SIGPIPE, and may have blocked others. */
TEST(signals_are_as_a_program_expects) {
    mr_exec_result result;
    sigset_t blocked, before;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    assert_int_equal(run("kill -PIPE $$; echo ignored", 0, 100, &result), MR_OK);
    assert_int_equal(result.code, 128 + SIGPIPE);
    mr_exec_fini(&result);
    assert_int_equal(run("kill -TERM $$; echo blocked", 0, 100, &result), MR_OK);
    assert_int_equal(result.code, 128 + SIGTERM);
    mr_exec_fini(&result);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

TEST(one_that_hangs_is_ended) {
    mr_exec_result result;
    assert_int_equal(run("echo begun; exec sleep 1000", 50 * MS, 100, &result), MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), "sh has not answered within 50 ms"));
    assert_null(result.out);
}

TEST(one_that_prints_too_much_is_ended) {
    mr_exec_result result;
    assert_int_equal(run("exec yes", 0, 1000, &result), MR_ERROR_PROTOCOL);
    assert_non_null(strstr(mr_message(), "sh prints more than 1000 bytes"));
    assert_int_equal(run("exec yes >&2", 0, 1000, &result), MR_ERROR_PROTOCOL);
}

/* The pipes of a process that it leaves behind stay open, and are not waited for. */
TEST(what_a_program_leaves_is_not_waited_for) {
    ENDED_BY(mr_exec_fini) mr_exec_result result;
    assert_int_equal(run("sleep 1000 & echo $!", 0, 100, &result), MR_OK);
    const pid_t left = (pid_t)atol(result.out);
    assert_true(left > 1);
    assert_int_equal(kill(left, SIGKILL), 0);
}

/* It may close its outputs long before its end. */
TEST(the_end_is_that_of_the_program) {
    mr_exec_result result;
    assert_int_equal(run("exec >&- 2>&-; sleep 0.05; exit 3", 0, 100, &result), MR_OK);
    assert_int_equal(result.code, 3);
    mr_exec_fini(&result);
}

TEST(a_missing_program_is_named_with_its_package) {
    const char *const none[] = {"no-such-program-here", NULL}, *const folder[] = {"/", NULL};
    mr_exec_result result;
    skip_emulated("its posix_spawn succeeds for a missing program");
    assert_int_equal(mr_exec_run(&(mr_exec){.words = none, .package = "what-has-it"}, &result), MR_ERROR_UNAVAILABLE);
    assert_string_equal(mr_message(), "there is no program no-such-program-here here: install what-has-it");
    assert_int_equal(mr_exec_run(&(mr_exec){.words = folder, .package = "x"}, &result), MR_ERROR_PERMISSION);
}

RUN_TESTS(NULL, NULL)
