/* What a suite needs from cmocka, and tests listed where they are defined:
 *
 *     TEST(a_name_that_says_what_holds) {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 *     RUN_TESTS(NULL, NULL)
 *
 * Tests run in file order. Each gets cmocka's `state` as a parameter. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEST(name) TEST_WITH(name, NULL, NULL)
/* With set-up and tear-down, like cmocka_unit_test_setup_teardown. */
#define TEST_WITH(name, set_up, tear_down)                                                                          \
    static void name(void **state);                                                                                  \
    __attribute__((constructor)) static void register_##name(void) {                                                 \
        add_test(__LINE__, &(struct CMUnitTest){#name, name, set_up, tear_down, NULL});                              \
    }                                                                                                                \
    static void name(void **state __attribute__((unused)))

/* A test whose body gets `variable`, a pointer to what `begin` filled; `end` gets it afterwards. */
#define TEST_GIVEN(name, type, variable, begin, end)                                                                 \
    static void with_##name(type *variable);                                                                         \
    TEST(name) {                                                                                                     \
        type made;                                                                                                   \
        begin;                                                                                                       \
        with_##name(&made);                                                                                          \
        end;                                                                                                         \
    }                                                                                                                \
    static void with_##name(type *variable __attribute__((unused)))

/* Calls `first`, which may skip the test, before it. */
#define TEST_THAT(name, first)                                                                                       \
    static void name##_body(void);                                                                                   \
    TEST(name) {                                                                                                     \
        first();                                                                                                     \
        name##_body();                                                                                               \
    }                                                                                                                \
    static void name##_body(void)

/* Before a local variable: `end` gets its address when its block ends. It is not called if an assertion fails. */
#define ENDED_BY(end) __attribute__((cleanup(end), unused))
/* The same for a pointer that free() takes. */
#define FREED ENDED_BY(free_at)
static inline void free_at(void *variable) {
    void *memory;
    memcpy(&memory, variable, sizeof memory);
    free(memory);
}

/* The main function, with set-up and tear-down for the whole suite. */
#define RUN_TESTS(set_up, tear_down)                                                                                 \
    int main(void) {                                                                                                 \
        return run_suite(set_up, tear_down);                                                                         \
    }

/* The same for a suite whose tests mostly wait: each runs in a separate process, all at the same time. */
#define RUN_TESTS_AT_ONCE(set_up, tear_down)                                                                         \
    int main(void) {                                                                                                 \
        return run_suite_at_once(set_up, tear_down);                                                                 \
    }

/* Must be less than a second. */
static inline void sleep_ms(int milliseconds) {
    nanosleep(&(struct timespec){.tv_sec = milliseconds / 1000, .tv_nsec = milliseconds % 1000 * 1000000L}, NULL);
}

/* Waits until another thread's count reaches a value; fails after a minute. */
static inline void await_count(atomic_int *value, int wanted) {
    for (int i = 0; i < 12000 && atomic_load(value) != wanted; i++)
        sleep_ms(5);
    assert_int_equal(atomic_load(value), wanted);
}

/* Whether qemu's user mode runs the suite, as `tools/test aarch64` does. */
bool is_emulated(void);
/* If it does, skips the rest of the test and prints why: what qemu does otherwise than Linux. */
void skip_emulated(const char *why);

/* Fails unless the text has these words. */
void expect_words(const char *text, const char *words);

void add_test(int line, const struct CMUnitTest *test);
/* Returns how many failed. */
int run_suite(int (*set_up)(void **state), int (*tear_down)(void **state));
int run_suite_at_once(int (*set_up)(void **state), int (*tear_down)(void **state));
