#include "tests/support/suite.h"

#include <stdlib.h>

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

int run_suite(int (*set_up)(void **state), int (*tear_down)(void **state)) {
    return _cmocka_run_group_tests("tests", tests, count, set_up, tear_down);
}
