/* Log lines on standard error: "millrace: warning: decode: ...". Any thread may call; a line is written whole, and it
 * stays one line whatever its arguments hold (print.h). Levels: error, warning, info, debug; the default prints warnings
 * and errors. A program that embeds millrace may take the lines itself with mr_log_to. */
#ifndef MILLRACE_BASE_LOG_H
#define MILLRACE_BASE_LOG_H

typedef enum mr_log_level { MR_LOG_ERROR, MR_LOG_WARNING, MR_LOG_INFO, MR_LOG_DEBUG } mr_log_level;

typedef void mr_log_function(void *context, mr_log_level level, const char *line);

void mr_log(mr_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mr_log_set_level(mr_log_level level);
mr_log_level mr_log_get_level(void);
/* Sends lines (without the newline) to `function` instead of standard error; NULL restores standard error. To be
 * called while no pipeline runs. */
void mr_log_to(mr_log_function *function, void *context);
/* "error", "warning", "info" or "debug" -> level; 0 or MR_ERROR_USAGE. */
int mr_log_parse_level(const char *text, mr_log_level *level);

#endif
