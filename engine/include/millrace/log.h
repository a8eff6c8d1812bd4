/* The library's log: lines such as "millrace: warning: decode: ..." on standard error or in a function of the program.
 * Any thread may call mr_log. A line is written whole and stays one line, whatever the arguments contain. The log
 * belongs to the process, not to a pipeline. */
#ifndef MILLRACE_LOG_H
#define MILLRACE_LOG_H

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_log_level { MR_LOG_ERROR, MR_LOG_WARNING, MR_LOG_INFO, MR_LOG_DEBUG } mr_log_level;

/* Receives one line without a newline. The line is borrowed for the call. Several threads may call it at once. It may
 * call mr_log, but neither mr_log_to nor mr_log_target. */
typedef void mr_log_function(void *context, mr_log_level level, const char *line);

/* Writes a line (printf style) if the level is enabled. */
MR_API void mr_log(mr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line that a peer or an input can cause any number of times. The first five lines of a kind are written if
 * each differs from the one before. Later ones are counted: once a minute, one line has the last text and the count.
 * Lines are of one kind if `source` and `format` are equal. `source`, such as the id of a source or stage, is not
 * printed. Lines with the level INFO or DEBUG are always written. */
MR_API void mr_log_repeating(mr_log_level level, const char *source, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the level; lines above it are left out. Default: MR_LOG_WARNING. */
MR_API void mr_log_set_level(mr_log_level level);
MR_API mr_log_level mr_log_get_level(void);
/* Sends lines to `function` instead of standard error. NULL restores standard error. Any thread. When it returns, no
 * thread is in the function that lines went to before. */
MR_API void mr_log_to(mr_log_function *function, void *context);
/* The function that lines go to, and its context. At first it is one that writes to standard error. */
MR_API mr_log_function *mr_log_target(void **context);
/* Parses "error", "warning", "info" or "debug". MR_ERROR_USAGE: `text` is another word. */
MR_API int mr_log_parse_level(const char *text, mr_log_level *level);

#ifdef __cplusplus
}
#endif
#endif
