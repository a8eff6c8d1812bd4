/* A run that was handed over to a site, and its last known state there. Each has a folder, which only its user may
 * enter: $XDG_STATE_HOME/millrace/submitted/ID with record.json and the files that were handed over. Under Slurm,
 * checkpoints, notes and the log are there too.
 *
 * One thread at a time; several processes may use the folders. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/json.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/deploy/deployment.h"

typedef enum mr_job_state {
    MR_JOB_QUEUED, MR_JOB_RUNNING, MR_JOB_ENDED, MR_JOB_FAILED, MR_JOB_CANCELLED, MR_JOB_UNKNOWN
} mr_job_state;
static inline bool mr_job_is_over(mr_job_state state) {
    return state == MR_JOB_ENDED || state == MR_JOB_FAILED || state == MR_JOB_CANCELLED;
}
/* An exit code from outside; -1: it is none. */
static inline int mr_job_code(long long value) {
    return value >= 0 && value <= 255 ? (int)value : -1;
}
/* "queued"; NULL after the last one. */
const char *mr_job_word(int state);

enum { MR_JOB_TEXT = 256, MR_SUBMISSION_ID = 64 };

/* A process of a pipeline's node. */
typedef struct mr_job_process {
    const char *node;
    int replica;
    mr_job_state state;
    int code;     /* exit code; -1: none */
    int restarts;
    char host[MR_JOB_TEXT], why[MR_JOB_TEXT]; /* "": not known */
} mr_job_process;

typedef struct mr_job {
    mr_job_state state;
    int code;     /* the pipeline's exit code; -1: none */
    char hosts[MR_JOB_TEXT], why[MR_JOB_TEXT];
    size_t count; /* all processes, node by node */
    mr_job_process *process;
} mr_job;

typedef struct mr_submission {
    char id[MR_SUBMISSION_ID], site_id[MR_JOB_TEXT]; /* the site's name for it; "": not known */
    mr_deploy_target target;
    const char *name, *pipeline, *run;
    const char *host;         /* the machine where it was submitted */
    mr_words files, options;  /* paths; options for each call of the site's program */
    int64_t submitted_ns;     /* since 1970 */
    int64_t ended_ns;         /* when the end was first seen, or that the site had forgotten it; 0: not yet */
    bool cancelled;           /* `cancel` was called */
    bool left;                /* a failed hand-over may have left it at the site; not in the record */
    mr_job job;               /* as it was last seen */
    char folder[PATH_MAX];
    yajl_val tree;            /* owns the texts; NULL: others do */
} mr_submission;

/* Fills the processes from the plan. MR_ERROR_MEMORY. */
int mr_submission_init(mr_submission *one, const mr_deployment *of);
void mr_submission_fini(mr_submission *one);
/* For sites whose processes are seen one by one: the state and the exit code of the whole. */
void mr_job_judge(mr_job *job);
/* A copy with other processes, all of them queued; free `process`. MR_ERROR_MEMORY. */
int mr_job_blank(const mr_job *like, mr_job *job);
/* Writes it as an object, and reads that again, all but id and folder. MR_ERROR_DATA, MR_ERROR_MEMORY; then it is
 * empty. */
void mr_submission_put(yajl_gen json, const mr_submission *one);
int mr_submission_parse(mr_submission *one, const char *text);
