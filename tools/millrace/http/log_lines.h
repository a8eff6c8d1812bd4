/* Keeps the last log lines of the process, which still go to the same place as before. One server at a time. No
 * pipeline may run. */
#pragma once

#include "tools/millrace/http/state.h"

void mr_run_http_log_begin(mr_run_http *web);
void mr_run_http_log_end(const mr_run_http *web);
