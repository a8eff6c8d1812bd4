/* `otlp` in the YAML: the OpenTelemetry collector to which a run sends metrics and traces. One thread at a time. */
#pragma once

#include "engine/text/options.h"
#include "millrace/plan.h"

/* The keys in it. */
extern const mr_option mr_otlp_keys[];

/* Reads the value of `otlp`, which may be NULL; reports errors to the reader's diagnostics. If it is wrong, *otlp has
 * the defaults. MR_OK or MR_ERROR_MEMORY. */
int mr_spec_read_otlp(const mr_option_reader *reader, const mr_yaml *map, mr_view_otlp *otlp);
