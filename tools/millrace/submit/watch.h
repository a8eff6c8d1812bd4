/* Looks after submissions. */
#pragma once

#include "tools/millrace/submit/submission.h"

/* Asks the site, unless the end is known. An end is written into the record, since a site forgets it. A record that
 * cannot be written is a warning on standard error. */
int mr_submission_refresh(mr_submission *one);
/* Waits for the end, and prints each change on standard error. Returns the pipeline's exit code, or 75 if it was
 * cancelled; with an error printed, 69 if the site cannot be asked or does not know it. */
int mr_submission_follow(mr_submission *one);
/* Prints "running on n[1-3]" or "failed, exit code 74: NonZeroExitCode". */
void mr_job_print(const mr_job *job, FILE *to);
