/* Requests at the control socket that can take long, such as adding a source, which must be opened first. Each has a
 * separate thread, so that signals and other clients are served meanwhile.
 *
 * Called by the serving thread, except for mr_control_jobs_end. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "millrace/millrace.h"

typedef struct mr_control_job mr_control_job;

/* A descriptor that is readable when a job is done; -1: there is none. */
int mr_control_jobs_open(void);
void mr_control_jobs_close(void);
/* Waits for all jobs, and lets no more begin. Must be called before the pipeline is destroyed, without locks that the
 * serving thread takes. Answers can still be taken. */
void mr_control_jobs_end(void);

/* Whether a request may take long. */
bool mr_control_takes_long(const char *request);
/* Begins with a copy of the request. NULL: no memory, no thread or no descriptor; the caller answers it itself. */
mr_control_job *mr_control_job_begin(const char *request, mr_pipeline *pipeline);
/* False: it is not done yet. Else *answer, which the caller frees, may be NULL; and the job is gone. */
bool mr_control_job_take(mr_control_job **job, char **answer, size_t *length);
/* The client is gone. */
void mr_control_job_drop(mr_control_job **job);
