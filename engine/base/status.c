#include "millrace/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine/base/url.h"

static _Thread_local char last_message[1024];

int mr_fail(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    /* Formatted aside first: an argument may be the last message itself. */
    char text[sizeof last_message];
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    mr_url_hide(text);
    snprintf(last_message, sizeof last_message, "%s", text);
    return status;
}

const char *mr_message(void) {
    return last_message;
}

const char *mr_status_words(int status) {
    switch (status) {
#define X(name, value, code, words)                                                                                  \
    case value:                                                                                                      \
        return words;
        MR_STATUS_LIST(X)
#undef X
    default:
        return "unknown status";
    }
}

const char *mr_message_or(int status) {
    return *last_message ? last_message : mr_status_words(status);
}

void mr_message_clear(void) {
    last_message[0] = 0;
}

int mr_status_exit_code(int status) {
    switch (status) {
#define X(name, value, code, words)                                                                                  \
    case value:                                                                                                      \
        return code;
        MR_STATUS_LIST(X)
#undef X
    default:
        return 70;
    }
}
