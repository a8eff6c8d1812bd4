#include "engine/base/log/repeats.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "engine/base/thread.h"
#include "engine/base/url.h"

static const int64_t second_ns = 1000000000, minute_ns = 60000000000;
enum {
    OTHERS = 1, /* the key for all lines that have no entry */
    LINE_BYTES = 1280,
};

typedef struct mr_repeats_entry {
    struct mr_repeats_entry *next;
    uint64_t key, text_sum; /* text_sum: the last text's */
    int64_t begun_ns;       /* the minute's start */
    uint64_t counted;       /* lines that were not written */
    int written;
    bool counts;            /* nothing is written any more but sums */
    mr_log_level level;     /* the most severe that was counted */
    char text[MR_REPEATS_TEXT - 64];
} entry;

static uint64_t sum_of(const char *text) {
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return sum;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static entry **bucket_of(mr_repeats *repeats, uint64_t key) {
    return &repeats->buckets[(key ^ key >> 32) % MR_REPEATS_BUCKETS];
}

static entry *find(mr_repeats *repeats, uint64_t key) {
    entry *at = *bucket_of(repeats, key);
    while (at && at->key != key)
        at = at->next;
    return at;
}

static entry *add(mr_repeats *repeats, int64_t now_ns, uint64_t key) {
    entry *made = mr_calloc(1, sizeof *made), **bucket = bucket_of(repeats, key);
    if (!made)
        return NULL;
    *made = (entry){.next = *bucket, .key = key, .begun_ns = now_ns};
    *bucket = made;
    if (!repeats->count++ || repeats->due_ns > now_ns + minute_ns)
        repeats->due_ns = now_ns + minute_ns;
    return made;
}

static entry *entry_of(mr_repeats *repeats, int64_t now_ns, uint64_t key) {
    entry *at = find(repeats, key);
    if (at)
        return at;
    if (repeats->count < MR_REPEATS_KEYS)
        return add(repeats, now_ns, key);
    at = find(repeats, OTHERS);
    return at ? at : add(repeats, now_ns, OTHERS);
}

bool mr_repeats_take(mr_repeats *repeats, int64_t now_ns, uint64_t key, mr_log_level level, const char *text) {
    entry *at = entry_of(repeats, now_ns, key);
    uint64_t sum = sum_of(text);
    if (!at)
        return true; /* no memory: write it rather than lose it */
    bool same = at->written && at->text_sum == sum;
    at->text_sum = sum;
    if (!at->counts && !same && at->written < MR_REPEATS_FIRST) {
        at->written++;
        return true;
    }
    at->level = at->counted && at->level < level ? at->level : level;
    at->counted++;
    mr_print_into(at->text, sizeof at->text, "%s", text);
    return false;
}

static int group(char text[32], uint64_t count) {
    if (count < 1000)
        return snprintf(text, 32, "%" PRIu64, count);
    int length = group(text, count / 1000);
    return length + snprintf(text + length, 32 - (size_t)length, ",%03" PRIu64, count % 1000);
}

static void sum_up(entry *at, int64_t now_ns, mr_log_level *level, char line[MR_REPEATS_TEXT]) {
    char count[32], span[32];
    int64_t seconds = (now_ns - at->begun_ns + second_ns / 2) / second_ns;
    group(count, at->counted);
    if (seconds == minute_ns / second_ns)
        snprintf(span, sizeof span, "minute");
    else
        snprintf(span, sizeof span, "%" PRId64 " s", seconds > 0 ? seconds : 1);
    mr_print_into(line, MR_REPEATS_TEXT, "%s (%s more like it in the last %s)", at->text, count, span);
    *level = at->level;
    at->counted = 0;
    at->counts = true;
    at->begun_ns = now_ns;
}

bool mr_repeats_pop(mr_repeats *repeats, int64_t now_ns, bool all, mr_log_level *level, char line[MR_REPEATS_TEXT]) {
    if (!repeats->count || (!all && now_ns < repeats->due_ns))
        return false;
    bool found = false;
    repeats->due_ns = INT64_MAX;
    for (size_t i = 0; i < MR_REPEATS_BUCKETS; i++)
        for (entry **place = &repeats->buckets[i], *at; (at = *place);) {
            bool due = all || now_ns >= at->begun_ns + minute_ns;
            if (due && !at->counted) {
                *place = at->next;
                mr_free(at);
                repeats->count--;
                continue;
            }
            if (due && !found) {
                sum_up(at, now_ns, level, line);
                found = true;
            }
            if (at->begun_ns + minute_ns < repeats->due_ns)
                repeats->due_ns = at->begun_ns + minute_ns;
            place = &at->next;
        }
    return found;
}

int64_t mr_repeats_due_ns(const mr_repeats *repeats) {
    return repeats->count ? repeats->due_ns : INT64_MAX;
}

void mr_repeats_fini(mr_repeats *repeats) {
    for (size_t i = 0; i < MR_REPEATS_BUCKETS; i++)
        for (entry *at = repeats->buckets[i], *next; at; at = next) {
            next = at->next;
            mr_free(at);
        }
    *repeats = (mr_repeats){0};
}

/* ---- the log's table, and a thread while it has entries ---------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mr_repeats repeats;
    bool ready, follows;
} log_lines = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The lines are written without the lock: the program's function may log again. */
static void write_due(bool all) {
    char line[MR_REPEATS_TEXT];
    mr_log_level level = MR_LOG_WARNING;
    for (bool found = true; found;) {
        pthread_mutex_lock(&log_lines.lock);
        found = mr_repeats_pop(&log_lines.repeats, mr_now_ns(), all, &level, line);
        pthread_mutex_unlock(&log_lines.lock);
        if (found)
            mr_log_ready(level, line);
    }
}

/* Ends once the table is empty. */
static void *follow(void *context) {
    for (bool more = true; more;) {
        write_due(false);
        pthread_mutex_lock(&log_lines.lock);
        int64_t due_ns = mr_repeats_due_ns(&log_lines.repeats);
        more = log_lines.follows = due_ns < INT64_MAX;
        const struct timespec until = {.tv_sec = due_ns / second_ns, .tv_nsec = due_ns % second_ns};
        if (more)
            pthread_cond_timedwait(&log_lines.changed, &log_lines.lock, &until);
        pthread_mutex_unlock(&log_lines.lock);
    }
    return NULL;
}

/* With the lock. Without a thread the sums are written with later lines, and at the run's end. */
static void begin_to_follow(void) {
    pthread_t thread;
    if (!log_lines.ready)
        mr_condition_init(&log_lines.changed);
    log_lines.ready = true;
    if (log_lines.follows || mr_thread_create(&thread, follow, NULL))
        return;
    log_lines.follows = true;
    pthread_setname_np(thread, "mr-log");
    pthread_detach(thread);
}

uint64_t mr_log_kind(const char *stage, const char *source, const char *format) {
    return (sum_of(stage) * 31 + sum_of(source)) * 31 + sum_of(format);
}

/* Nothing in `text` is left to hide. */
static void write_or_count(mr_log_level level, uint64_t kind, const char *text) {
    if (level > MR_LOG_WARNING) {
        mr_log_ready(level, text);
        return;
    }
    write_due(false);
    pthread_mutex_lock(&log_lines.lock);
    bool now = mr_repeats_take(&log_lines.repeats, mr_now_ns(), kind, level, text);
    if (!now)
        begin_to_follow();
    pthread_mutex_unlock(&log_lines.lock);
    if (now)
        mr_log_ready(level, text);
}

void mr_log_of_kind(mr_log_level level, uint64_t kind, const char *text) {
    char line[LINE_BYTES];
    mr_print_into(line, sizeof line, "%s", text);
    mr_url_hide(line);
    write_or_count(level, kind, line);
}

/* `key`: NULL, or a public key that goes to the end as it is. */
static void repeat(mr_log_level level, const char *source, const char *key, const char *format, va_list arguments) {
    char text[LINE_BYTES];
    if (level > mr_log_get_level())
        return;
    mr_vprint_into(text, sizeof text, format, arguments);
    mr_url_hide(text);
    const size_t length = strlen(text);
    if (key)
        mr_print_into(text + length, sizeof text - length, ": %s", key);
    write_or_count(level, mr_log_kind("", source, format), text);
}

void mr_log_repeating(mr_log_level level, const char *source, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    repeat(level, source, NULL, format, arguments);
    va_end(arguments);
}

void mr_log_repeating_key(mr_log_level level, const char *source, const char *key, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    repeat(level, source, key, format, arguments);
    va_end(arguments);
}

void mr_log_settle(void) {
    write_due(true);
    MR_LOCKED(&log_lines.lock);
    if (log_lines.ready) /* the thread ends */
        pthread_cond_broadcast(&log_lines.changed);
}
