/* The stream of events: the state twice a second, and log lines as they come. All streams share the bytes of a state,
 * which are made once. The server's thread. */
#pragma once

#include "tools/millrace/http/state.h"

mr_http_reply mr_run_http_answer_events(mr_http_request *request, void *web);
/* Wakes all streams. Any thread, with the lock. */
void mr_run_http_wake(mr_run_http *web);
