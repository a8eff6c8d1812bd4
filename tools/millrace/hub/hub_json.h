/* The state of the hub and its runs, as JSON. With the server's lock. */
#pragma once

#include <yajl/yajl_gen.h>

#include "tools/millrace/hub/hub_http.h"

/* The members of the hub's state: counts of runs and messages, and rates over all runs. */
void mr_hub_put_status(yajl_gen json, const mr_hub_shown *shown, int64_t now_ns);
/* A run as an object; `whole`: with its processes. */
void mr_hub_put_run(yajl_gen json, const mr_hub_run *run, int64_t now_ns, bool whole);
