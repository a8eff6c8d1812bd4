/* Streams of results: a sample of the frames that pass a stage, as `millrace tap` takes it, at most four a second. One
 * thread takes them for all streams, in turn, as long as there is a stream; a slow client gets the newest. */
#pragma once

#include "tools/millrace/http/state.h"

/* The run's thread: before the server starts, and before it ends. */
int mr_run_http_start_sampler(mr_run_http *web);
void mr_run_http_end_sampler(mr_run_http *web);
/* After the server has ended. */
void mr_run_http_free_sampler(mr_run_http *web);
/* The server's thread. */
mr_http_reply mr_run_http_answer_results(mr_http_request *request, void *web);
