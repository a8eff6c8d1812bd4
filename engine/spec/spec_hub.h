/* `hub` in the YAML: where a run reports its state. One thread at a time. */
#pragma once

#include "engine/text/options.h"
#include "millrace/plan.h"

/* The keys in it. */
extern const mr_option mr_hub_keys[];

/* Reads the value of `hub`, which may be NULL; reports errors to the reader's diagnostics. If it is wrong, *hub has
 * the defaults. MR_OK or MR_ERROR_MEMORY. */
int mr_spec_read_hub(const mr_option_reader *reader, const mr_yaml *map, mr_view_hub *hub);
