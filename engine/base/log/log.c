#include "millrace/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/log/repeats.h"
#include "engine/base/print.h"
#include "engine/base/url.h"
#include "millrace/status.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static _Atomic mr_log_level current_level = MR_LOG_WARNING;

static void write_line(void *context, mr_log_level level, const char *line) {
    fprintf(stderr, "millrace: %s: %s\n", level_names[level], line);
}

/* The lock is held during a call, so that nothing is in a function that mr_log_to has replaced. Readers must never wait
 * for a writer: the function may wait for another thread that logs. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static mr_log_function *sink = write_line;
static void *sink_context;
static _Thread_local int inside; /* calls of the function in progress: it may log too */

static void pass(mr_log_level level, const char *line) {
    if (!inside++)
        pthread_rwlock_rdlock(&lock);
    sink(sink_context, level, line);
    if (!--inside)
        pthread_rwlock_unlock(&lock);
}

void mr_log(mr_log_level level, const char *format, ...) {
    if (level > atomic_load_explicit(&current_level, memory_order_relaxed))
        return;
    char line[1280];
    va_list arguments;
    va_start(arguments, format);
    mr_vprint_into(line, sizeof line, format, arguments);
    va_end(arguments);
    mr_url_hide(line);
    pass(level, line);
}

void mr_log_ready(mr_log_level level, const char *line) {
    if (level <= atomic_load_explicit(&current_level, memory_order_relaxed))
        pass(level, line);
}

void mr_log_set_level(mr_log_level level) {
    atomic_store_explicit(&current_level, level, memory_order_relaxed);
}

mr_log_level mr_log_get_level(void) {
    return atomic_load_explicit(&current_level, memory_order_relaxed);
}

void mr_log_to(mr_log_function *function, void *context) {
    pthread_rwlock_wrlock(&lock);
    sink = function ? function : write_line;
    sink_context = context;
    pthread_rwlock_unlock(&lock);
}

mr_log_function *mr_log_target(void **context) {
    pthread_rwlock_rdlock(&lock);
    mr_log_function *function = sink;
    *context = sink_context;
    pthread_rwlock_unlock(&lock);
    return function;
}

int mr_log_parse_level(const char *text, mr_log_level *level) {
    for (int i = 0; i < 4; i++)
        if (strcmp(text, level_names[i]) == 0) {
            *level = (mr_log_level)i;
            return MR_OK;
        }
    return mr_fail(MR_ERROR_USAGE, "unknown log level \"%s\"; use error, warning, info or debug", text);
}
