#include "tools/millrace/http/log_lines.h"

#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "engine/base/thread.h"
#include "millrace/log.h"
#include "tools/millrace/http/run_http.h"

void mr_run_http_log(mr_run_http *web, mr_log_level level, const char *process, const char *line) {
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    if (!web)
        return;
    MR_LOCKED(&web->log_lock);
    mr_run_http_line *kept = &web->lines[web->line_count++ % MR_RUN_HTTP_LINES];
    kept->number = web->line_count;
    kept->date_ns = mr_clock_date_ns();
    mr_print_into(kept->text, sizeof kept->text, "%s: %s%s%s", levels[level], process ? process : "",
                  process ? ": " : "", line);
}

static void keep(void *context, mr_log_level level, const char *line) {
    mr_run_http *web = context;
    web->logged(web->logged_context, level, line);
    mr_run_http_log(web, level, NULL, line);
}

void mr_run_http_log_begin(mr_run_http *web) {
    web->logged = mr_log_target(&web->logged_context);
    mr_log_to(keep, web);
}

void mr_run_http_log_end(const mr_run_http *web) {
    mr_log_to(web->logged, web->logged_context);
}
