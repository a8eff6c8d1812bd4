/* Changes that clients ask for. They can take seconds (a source that is added is opened first), so that a thread of
 * their own makes them, one after the other, while the server's thread answers others. */
#pragma once

#include "tools/millrace/http/state.h"

/* The run's thread: before the server starts, and before it ends. The end waits for the change that is being made. */
int mr_run_http_start_worker(mr_run_http *web);
void mr_run_http_end_worker(mr_run_http *web);
/* The server's thread. */
mr_http_reply mr_run_http_answer_do(mr_http_request *request, void *web);
