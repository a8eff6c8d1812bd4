/* Requests of clients to the run. Changes can take seconds (a source that is added is opened first), and so can a tap.
 * Three threads do them while the server's thread answers others: one the changes, one after the other; one `tap` and
 * `status`; and one `drain` and `stop`. */
#pragma once

#include "tools/millrace/http/state.h"

/* The run's thread: before the server starts, and before it ends. The end waits for requests that have begun. */
int mr_run_http_start_workers(mr_run_http *web);
void mr_run_http_end_workers(mr_run_http *web);
/* The server's thread. */
mr_http_reply mr_run_http_answer_do(mr_http_request *request, void *web);
