#include "tests/support/suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/sanitized.h"

enum { MOST = 200 };

static struct CMUnitTest tests[MOST];
static int lines[MOST];
static size_t count;

/* Constructors can run in any order. */
void add_test(int line, const struct CMUnitTest *test) {
    size_t at = count++;
    if (count > MOST)
        abort();
    for (; at > 0 && lines[at - 1] > line; at--) {
        lines[at] = lines[at - 1];
        tests[at] = tests[at - 1];
    }
    lines[at] = line;
    tests[at] = *test;
}

bool is_emulated(void) {
    return getenv("MILLRACE_EMULATED");
}

void skip_emulated(const char *why) {
    if (!is_emulated())
        return;
    print_message("    skipped under qemu: %s\n", why);
    skip();
}

void expect_words(const char *text, const char *words) {
    if (!text || !strstr(text, words))
        fail_msg("\"%s\" is not in: %s", words, text);
}

/* A script's background jobs and nohup start programs that ignore some signals; tests need them. */
static void take_signals(void) {
    const int taken[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        signal(taken[i], SIG_DFL);
}

int run_suite(int (*set_up)(void **state), int (*tear_down)(void **state)) {
    take_signals();
    return _cmocka_run_group_tests("tests", tests, count, set_up, tear_down);
}

/* Runs one test in a new process, which ends if this one does; its output goes to the file. */
static pid_t begin(const struct CMUnitTest *test, FILE *output, int (*set_up)(void **), int (*tear_down)(void **)) {
    const pid_t process = fork();
    if (process)
        return process;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || dup2(fileno(output), STDOUT_FILENO) < 0 ||
        dup2(fileno(output), STDERR_FILENO) < 0)
        abort();
    exit(_cmocka_run_group_tests("test", test, 1, set_up, tear_down));
}

/* Prints its output; returns whether it failed. */
static bool end(const struct CMUnitTest *test, pid_t process, FILE *output) {
    int status = 0;
    char line[1024];
    const bool ended = process > 0 && waitpid(process, &status, 0) == process;
    rewind(output);
    while (fgets(line, sizeof line, output))
        fputs(line, stdout);
    fclose(output);
    if (!ended || !WIFEXITED(status))
        printf("[  FAILED  ] %s: its process %s, status %d\n", test->name, ended ? "died" : "did not start", status);
    return !ended || status != 0;
}

int run_suite_at_once(int (*set_up)(void **state), int (*tear_down)(void **state)) {
    static pid_t processes[MOST];
    static FILE *outputs[MOST];
    int failed = 0;
    take_signals();
    for (size_t i = 0; i < count; i++) {
        outputs[i] = tmpfile();
        if (!outputs[i])
            abort();
        processes[i] = begin(&tests[i], outputs[i], set_up, tear_down);
    }
    for (size_t i = 0; i < count; i++)
        failed += end(&tests[i], processes[i], outputs[i]);
    printf("%d of %zu tests failed\n", failed, count);
    return failed;
}

#ifndef SANITIZED
/* Replaces the C library's function, also for libraries. The first thread leaves a file with the suite's name in the
 * build's folder `threads`, if there is one: tools/test runs exactly those suites under the thread sanitizer. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *context) {
    static atomic_bool recorded;
    if (!atomic_exchange(&recorded, true)) {
        char path[512];
        snprintf(path, sizeof path, "%s/threads/%s", BINARY_DIR, program_invocation_short_name);
        int file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
        if (file >= 0)
            close(file);
    }
    union {
        void *address;
        int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    } real = {.address = dlsym(RTLD_NEXT, "pthread_create")};
    return real.create(thread, attributes, start, context);
}
#endif
