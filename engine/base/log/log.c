#include "millrace/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/print.h"
#include "engine/base/url.h"
#include "millrace/status.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};
static _Atomic mr_log_level current_level = MR_LOG_WARNING;
static mr_log_function *sink;
static void *sink_context;

void mr_log(mr_log_level level, const char *format, ...) {
    if (level > atomic_load_explicit(&current_level, memory_order_relaxed))
        return;
    char line[1280];
    va_list arguments;
    va_start(arguments, format);
    mr_vprint_into(line, sizeof line, format, arguments);
    va_end(arguments);
    mr_url_hide(line);
    if (sink)
        sink(sink_context, level, line);
    else
        fprintf(stderr, "millrace: %s: %s\n", level_names[level], line);
}

void mr_log_set_level(mr_log_level level) {
    atomic_store_explicit(&current_level, level, memory_order_relaxed);
}

mr_log_level mr_log_get_level(void) {
    return atomic_load_explicit(&current_level, memory_order_relaxed);
}

void mr_log_to(mr_log_function *function, void *context) {
    sink = function;
    sink_context = context;
}

mr_log_function *mr_log_target(void **context) {
    *context = sink_context;
    return sink;
}

int mr_log_parse_level(const char *text, mr_log_level *level) {
    for (int i = 0; i < 4; i++)
        if (strcmp(text, level_names[i]) == 0) {
            *level = (mr_log_level)i;
            return MR_OK;
        }
    return mr_fail(MR_ERROR_USAGE, "unknown log level \"%s\"; use error, warning, info or debug", text);
}
