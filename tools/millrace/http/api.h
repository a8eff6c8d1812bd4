/* The routes below /api/v1 that read: JSON of the state that the run has shown last. The server's thread. */
#pragma once

#include "tools/millrace/http/state.h"

mr_http_reply mr_run_http_answer_status(mr_http_request *request, void *web);
mr_http_reply mr_run_http_answer_part(mr_http_request *request, void *web);
mr_http_reply mr_run_http_answer_history(mr_http_request *request, void *web);
mr_http_reply mr_run_http_answer_log(mr_http_request *request, void *web);
mr_http_reply mr_run_http_answer_graph(mr_http_request *request, void *web);

/* Writes the members of an event "status". With the lock. */
void mr_run_http_put_event(yajl_gen json, const mr_run_http *web);
/* Writes a log line as an object. */
void mr_run_http_put_line(yajl_gen json, const mr_run_http_line *line);
