#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log/repeats.h"
#include "engine/base/memory.h"
#include "tests/support/suite.h"

static const int64_t S = 1000000000, MINUTE = 60000000000;

/* As the log: sums that are due are written before a line is taken. */
typedef struct written {
    int lines, sums;
    uint64_t counted;
    char last[MR_REPEATS_TEXT];
    mr_log_level level;
} written;

static void pop(mr_repeats *repeats, int64_t now_ns, bool all, written *to) {
    while (mr_repeats_pop(repeats, now_ns, all, &to->level, to->last)) {
        char digits[32] = "", *out = digits;
        const char *at = strrchr(to->last, '(');
        assert_non_null(at);
        for (at++; *at && *at != ' '; at++)
            if (*at != ',')
                *out++ = *at;
        *out = '\0';
        to->counted += strtoull(digits, NULL, 10);
        to->sums++;
    }
}

static void put(mr_repeats *repeats, int64_t now_ns, uint64_t key, mr_log_level level, const char *text, written *to) {
    pop(repeats, now_ns, false, to);
    to->lines += mr_repeats_take(repeats, now_ns, key, level, text);
}

TEST(the_first_lines_are_written_and_later_ones_counted) {
    ENDED_BY(mr_repeats_fini) mr_repeats repeats = {0};
    written to = {0};
    char text[64];
    int64_t now_ns = S;
    /* A camera that is away for half a second every 3.5 seconds, for an hour. */
    for (int i = 0; i < 1029; i++, now_ns += 3500000000) {
        snprintf(text, sizeof text, "cam: away: try %d", i);
        put(&repeats, now_ns, 7, MR_LOG_WARNING, text, &to);
    }
    assert_int_equal(to.lines, MR_REPEATS_FIRST);
    assert_in_range(to.sums, 55, 60);
    pop(&repeats, now_ns, true, &to);
    assert_int_equal(to.counted + (uint64_t)to.lines, 1029);
    assert_int_equal(repeats.count, 0);
    assert_true(strncmp(to.last, "cam: away: try 1028 (", 21) == 0);
}

TEST(a_line_that_repeats_word_for_word_is_counted_at_once) {
    ENDED_BY(mr_repeats_fini) mr_repeats repeats = {0};
    written to = {0};
    for (int i = 0; i < 10000; i++)
        put(&repeats, S + i, 1, i == 4000 ? MR_LOG_ERROR : MR_LOG_WARNING, "the same", &to);
    assert_int_equal(to.lines, 1);
    pop(&repeats, S + MINUTE + 1000, false, &to); /* a timer is late */
    assert_int_equal(to.sums, 1);
    assert_string_equal(to.last, "the same (9,999 more like it in the last minute)");
    assert_int_equal(to.level, MR_LOG_ERROR);
}

TEST(after_a_quiet_minute_lines_are_written_again) {
    mr_repeats repeats = {0};
    written to = {0};
    put(&repeats, S, 1, MR_LOG_WARNING, "a", &to);
    put(&repeats, 2 * S, 1, MR_LOG_WARNING, "a", &to);
    assert_int_equal(to.lines, 1);
    pop(&repeats, S + MINUTE, false, &to);
    assert_int_equal(to.sums, 1);
    /* Within the minute after it lines are only counted. */
    put(&repeats, 2 * S + MINUTE, 1, MR_LOG_WARNING, "b", &to);
    assert_int_equal(to.lines, 1);
    pop(&repeats, S + 2 * MINUTE, false, &to);
    assert_int_equal(to.sums, 2);
    assert_string_equal(to.last, "b (1 more like it in the last minute)");
    put(&repeats, S + 3 * MINUTE, 1, MR_LOG_WARNING, "b", &to);
    assert_int_equal(to.lines, 2);
    assert_int_equal(to.sums, 2);
    mr_repeats_fini(&repeats);
    assert_int_equal(mr_repeats_due_ns(&repeats), INT64_MAX);
}

TEST(kinds_are_counted_apart_and_are_bounded) {
    ENDED_BY(mr_repeats_fini) mr_repeats repeats = {0};
    written to = {0};
    for (uint64_t key = 10; key < 10 + 3 * MR_REPEATS_KEYS; key++) {
        char text[32];
        snprintf(text, sizeof text, "%d", (int)key);
        put(&repeats, S, key, MR_LOG_WARNING, text, &to);
    }
    assert_int_equal(to.lines, MR_REPEATS_KEYS + MR_REPEATS_FIRST);
    assert_int_equal(repeats.count, MR_REPEATS_KEYS + 1);
    pop(&repeats, S + MINUTE, false, &to);
    assert_int_equal(to.sums, 1);
    assert_int_equal(to.counted + (uint64_t)to.lines, 3 * MR_REPEATS_KEYS);
    pop(&repeats, S + 2 * MINUTE, false, &to);
    assert_int_equal(repeats.count, 0);
}

TEST(a_short_span_is_given_in_seconds) {
    ENDED_BY(mr_repeats_fini) mr_repeats repeats = {0};
    written to = {0};
    put(&repeats, S, 1, MR_LOG_WARNING, "a", &to);
    put(&repeats, 2 * S, 1, MR_LOG_WARNING, "a", &to);
    pop(&repeats, 13 * S, true, &to);
    assert_string_equal(to.last, "a (1 more like it in the last 12 s)");
}

/* ---- the log ---------------------------------------------------------------------------------------------------- */

static _Atomic int lines;

static void count_line(void *context, mr_log_level level, const char *line) {
    lines += strstr(line, "peer") != NULL;
}

static void *repeat(void *context) {
    for (int i = 0; i < 2500; i++)
        mr_log_repeating(MR_LOG_WARNING, context, "%s: a peer says %d", (const char *)context, i);
    return NULL;
}

TEST(whatever_a_peer_repeats_gives_few_lines) {
    pthread_t thread[4];
    mr_log_to(count_line, NULL);
    mr_log_repeating(MR_LOG_INFO, "s", "a peer: a level that is not wanted");
    assert_int_equal(lines, 0);
    mr_log_set_level(MR_LOG_INFO);
    for (int i = 0; i < 100; i++)
        mr_log_repeating(MR_LOG_INFO, "s", "a peer: information");
    assert_int_equal(lines, 100);
    mr_log_set_level(MR_LOG_WARNING);
    lines = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, repeat, i % 2 ? "one" : "two"), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    /* Two sources; a line a minute, if the machine takes that long. */
    assert_in_range(lines, 2 * MR_REPEATS_FIRST, 2 * MR_REPEATS_FIRST + 4);
    int before = lines;
    mr_log_settle();
    assert_int_equal(lines, before + 2);
    mr_log_settle();
    assert_int_equal(lines, before + 2);
    mr_log_to(NULL, NULL);
}

static void keep_line(void *context, mr_log_level level, const char *line) {
    snprintf(context, MR_REPEATS_TEXT, "%s", line);
}

/* In the key and in the URL stands what looks like a password. */
TEST(a_public_key_stays_whole_and_a_password_does_not) {
    static const char key[] = "lq{Uk/=Ff=^L{u:7.x@/Bd>(9M*V2?pN!0c$e5Rt";
    char last[MR_REPEATS_TEXT], sum[MR_REPEATS_TEXT];
    mr_log_to(keep_line, last);
    for (int i = 0; i < 2; i++)
        mr_log_repeating_key(MR_LOG_WARNING, "in", key, "in: refused by tcp://me:secret@host:1");
    snprintf(sum, sizeof sum, "in: refused by tcp://host:1: %s", key);
    assert_string_equal(last, sum);
    mr_log_settle();
    mr_log_to(NULL, NULL);
    snprintf(sum, sizeof sum, "in: refused by tcp://host:1: %s (1 more like it in the last 1 s)", key);
    assert_string_equal(last, sum);
}

RUN_TESTS(NULL, NULL)
