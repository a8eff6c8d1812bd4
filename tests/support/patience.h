/* Waiting for other threads. */
#ifndef MILLRACE_TESTS_SUPPORT_PATIENCE_H
#define MILLRACE_TESTS_SUPPORT_PATIENCE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <time.h>

/* Less than a second. */
static inline void sleep_ms(int milliseconds) {
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000L}, NULL);
}

/* Waits until a count has a value; fails after a minute. */
static inline void await_count(atomic_int *count, int wanted) {
    for (int i = 0; i < 12000 && atomic_load(count) != wanted; i++)
        sleep_ms(5);
    assert_int_equal(atomic_load(count), wanted);
}

#endif
