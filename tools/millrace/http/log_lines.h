/* Keeps the last log lines of the process, which still go to standard error. One server at a time; no pipeline runs. */
#pragma once

#include "tools/millrace/http/state.h"

void mr_run_http_log_begin(mr_run_http *web);
void mr_run_http_log_end(void);
