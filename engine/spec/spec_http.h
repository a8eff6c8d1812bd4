/* `http` in the YAML: where a run answers over HTTP, and to which clients. One thread at a time. */
#pragma once

#include "engine/text/options.h"
#include "millrace/plan.h"

/* The keys in it. */
extern const mr_option mr_http_keys[];

/* Reads the value of `http`, which may be NULL; reports errors to the reader's diagnostics. If it is wrong, *http has
 * the defaults. MR_OK or MR_ERROR_MEMORY. */
int mr_spec_read_http(const mr_option_reader *reader, const mr_yaml *map, mr_view_http *http);
