/* Diagnostics from check, run and plan before a pipeline runs: as text, JSON or GitHub workflow commands.
 * --deny-warnings makes warnings count as errors. */
#pragma once

#include "engine/base/json.h"
#include "tools/millrace/cli/command.h"

/* For an option table. `arguments`, which holds the verb's options, must have `deny`. */
#define MR_COMPLAINTS_OPTIONS                                                                                    \
    MR_OPTION("deny-warnings", NULL, arguments, deny, "treats warnings as errors, with exit code 78")

/* Turns the status from opening a pipeline into the verb's: MR_ERROR_CONFIG if only warnings refuse it. */
int mr_complaints_status(const mr_diagnostics *diagnostics, int status, bool deny);
/* Prints the diagnostics as text on standard error. Adds the reason for a refusal if they do not give it. Returns
 * mr_complaints_status. */
int mr_complaints_tell(const mr_diagnostics *diagnostics, int status, bool deny);
/* Prints one `::error file=...` or `::warning ...` line for each on standard output; otherwise like
 * mr_complaints_tell. */
int mr_complaints_annotate(const mr_diagnostics *diagnostics, int status, bool deny);
/* Writes an array "diagnostics", and "more": the number of omitted ones. */
void mr_complaints_put(yajl_gen json, const mr_diagnostics *diagnostics);
