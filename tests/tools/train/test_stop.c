/* Signals to verbs that work for long: the first asks, one that comes with it changes nothing, and a later one ends the
 * process. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "tests/support/suite.h"
#include "tools/millrace/train/stop.h"

/* The linker leads all calls here (tests/CMakeLists.txt). */
static int64_t now_ns = 1000000000;
int64_t __wrap_mr_now_ns(void);

int64_t __wrap_mr_now_ns(void) {
    return now_ns;
}

static const int kinds[] = {SIGINT, SIGTERM, SIGHUP};
enum { KINDS = sizeof kinds / sizeof *kinds, AFTER_ALL = 7 };

/* How a process ends that gets these two, the second so much later. */
static int end_of(int first, int second, int64_t later_ns) {
    int how = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        mr_stop_begin();
        raise(first);
        bool asked = mr_stop_asked();
        now_ns += later_ns;
        raise(second);
        _exit(asked ? AFTER_ALL : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

TEST(two_that_come_together_are_one) {
    for (int first = 0; first < KINDS; first++)
        for (int second = 0; second < KINDS; second++) {
            int how = end_of(kinds[first], kinds[second], 400000000);
            assert_true(WIFEXITED(how) && WEXITSTATUS(how) == AFTER_ALL);
        }
}

TEST(a_second_one_ends_the_process) {
    for (int first = 0; first < KINDS; first++)
        for (int second = 0; second < KINDS; second++) {
            int how = end_of(kinds[first], kinds[second], 600000000);
            assert_true(WIFSIGNALED(how) && WTERMSIG(how) == kinds[second]);
        }
}

/* One that something else took is the first. */
TEST(one_that_is_noted_counts) {
    int how = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        mr_stop_begin();
        mr_stop_note(SIGTERM);
        raise(SIGTERM);
        _exit(mr_stop_tell("nothing was written"));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 128 + SIGTERM);
}

TEST(what_is_ignored_stays_ignored) {
    signal(SIGHUP, SIG_IGN);
    int how = end_of(SIGTERM, SIGHUP, 600000000);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == AFTER_ALL);
    signal(SIGHUP, SIG_DFL);
}

RUN_TESTS(NULL, NULL)
