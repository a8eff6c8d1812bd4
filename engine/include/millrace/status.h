/* Status codes and their messages.
 *
 * A millrace function that can fail returns 0 (MR_OK) or a negative mr_status. Code calls mr_fail once, where the
 * failure starts, to set the message; callers only pass the status on. The message belongs to the calling thread and
 * stays valid until that thread's next mr_fail.
 *
 * Positive values are results, not failures: see mr_answer in stage.h. */
#ifndef MILLRACE_STATUS_H
#define MILLRACE_STATUS_H

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, exit code of the command (sysexits.h), words) */
#define MR_STATUS_LIST(X)                                                                                            \
    X(MR_OK, 0, 0, "ok")                                                                                             \
    X(MR_ERROR_USAGE, -1, 64, "wrong usage")                                                                         \
    X(MR_ERROR_DATA, -2, 65, "bad data")                                                                             \
    X(MR_ERROR_NO_INPUT, -3, 66, "no such input")                                                                    \
    X(MR_ERROR_UNAVAILABLE, -4, 69, "not available")                                                                 \
    X(MR_ERROR_INTERNAL, -5, 70, "internal error")                                                                   \
    X(MR_ERROR_MEMORY, -6, 71, "out of memory")                                                                      \
    X(MR_ERROR_DEVICE, -7, 69, "device error")                                                                       \
    X(MR_ERROR_IO, -8, 74, "input or output failed")                                                                 \
    X(MR_ERROR_PROTOCOL, -9, 76, "protocol error")                                                                   \
    X(MR_ERROR_PERMISSION, -10, 77, "permission denied")                                                             \
    X(MR_ERROR_CONFIG, -11, 78, "wrong pipeline")                                                                    \
    X(MR_ERROR_CANCELLED, -12, 75, "cancelled")                                                                      \
    X(MR_ERROR_AGAIN, -13, 75, "no room at present")                                                                 \
    X(MR_ERROR_CLOSED, -14, 141, "the reader of standard output has closed it")

typedef enum mr_status {
#define X(name, value, code, words) name = value,
    MR_STATUS_LIST(X)
#undef X
} mr_status;

/* Stores this thread's message (printf style; cut to 1023 bytes) and returns `status`. */
MR_API int mr_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The calling thread's last message; never NULL. Valid until that thread's next call of the library. */
MR_API const char *mr_message(void);
/* The same for a call that failed with `status`; that status in words if there is no message. */
MR_API const char *mr_message_or(int status);
/* Empties the calling thread's message, before a call that may fail without one. */
MR_API void mr_message_clear(void);

/* A status in words, and the command's exit code for it (sysexits.h). */
MR_API const char *mr_status_words(int status);
MR_API int mr_status_exit_code(int status);

#ifdef __cplusplus
}
#endif
#endif
