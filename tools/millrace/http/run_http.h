/* A run's HTTP server: /metrics, /livez, /readyz, /healthz, and the API below /api/v1 (openapi.json). The numbers of
 * /metrics are also sent to an OpenTelemetry collector if there is one.
 *
 * The server's thread reads the state that the run has shown last, under a lock that no frame waits for. The run holds
 * the lock while it changes that state. Requests of clients are done on other threads (jobs.h), by the function that
 * also answers `millrace ctl`. The run's thread calls open, hold, show, linger and close. With
 * NULL, these do nothing. */
#pragma once

#include "millrace/log.h"
#include "millrace/plan.h"
#include "tools/millrace/http/observed.h"
#include "tools/millrace/otlp/otlp.h"

typedef struct mr_run_http mr_run_http;

/* Listens where the plan says. *web stays NULL if it says nowhere, and otlp is NULL. Otherwise adds the signal for
 * metrics to otlp, which must not run yet, and must be stopped before the close. Errors: as in
 * engine/serve/http_address.h and http_token.h; MR_ERROR_MEMORY; MR_ERROR_UNAVAILABLE. */
int mr_run_http_open(mr_run_http **web, const mr_plan_view *plan, mr_run_http_change *change, void *context,
                     mr_otlp *otlp);
/* As mr_http_listener_page. */
const char *mr_run_http_page(const mr_run_http *web);
/* Between these two calls the caller may change what it showed before. `now` must live until the next call. */
void mr_run_http_hold(mr_run_http *web);
void mr_run_http_show(mr_run_http *web, const mr_observed *now);
/* Instead of show: nothing has changed. */
void mr_run_http_release(mr_run_http *web);
/* Adds a line to the log that the server shows, for another process (NULL: this one). Lines that this process logs with
 * mr_log are there already. Any thread. */
void mr_run_http_log(mr_run_http *web, mr_log_level level, const char *process, const char *line);
/* If a client has read /metrics: waits until one has read the final numbers, for up to the plan's `linger`, or
 * until `descriptor` (-1: none) is readable. If the run was asked to end at asked_ns (0: it was not), most of its grace
 * time is the limit too. */
void mr_run_http_linger(mr_run_http *web, int descriptor, int64_t asked_ns);
/* NULL is allowed. */
void mr_run_http_close(mr_run_http **web);
