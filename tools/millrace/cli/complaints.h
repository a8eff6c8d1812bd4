/* Diagnostics that check, run and plan give before a pipeline runs: as text, JSON or GitHub workflow commands, and
 * whether warnings count as errors (--deny-warnings). */
#pragma once

#include "engine/base/json.h"
#include "tools/millrace/cli/command.h"

/* For an option table. The verb's options are read into `arguments`, which must have `deny`. */
#define MR_COMPLAINTS_OPTIONS                                                                                    \
    MR_OPTION("deny-warnings", NULL, arguments, deny, "treats warnings as errors, with exit code 78")

/* The status of a pipeline that was opened with `status`: MR_ERROR_CONFIG if only warnings refuse it. */
int mr_complaints_status(const mr_diagnostics *diagnostics, int status, bool deny);
/* Prints them as text on standard error, and the reason for a refusal if they do not give it. Returns
 * mr_complaints_status. */
int mr_complaints_tell(const mr_diagnostics *diagnostics, int status, bool deny);
/* One `::error file=...` or `::warning ...` line each, on standard output; as mr_complaints_tell otherwise. */
int mr_complaints_annotate(const mr_diagnostics *diagnostics, int status, bool deny);
/* An array "diagnostics", and "more": how many are omitted. */
void mr_complaints_put(yajl_gen json, const mr_diagnostics *diagnostics);
