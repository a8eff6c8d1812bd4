#include "tests/support/suite.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

int run_suite(int (*set_up)(void **state), int (*tear_down)(void **state)) {
    return _cmocka_run_group_tests("tests", tests, count, set_up, tear_down);
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
