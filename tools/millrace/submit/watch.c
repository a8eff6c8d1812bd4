#include "tools/millrace/submit/watch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "tools/millrace/submit/sites.h"
#include "tools/millrace/submit/store.h"

/* The pauses between two questions grow. A site that cannot be asked is asked again for some minutes. */
enum { FIRST_PAUSE_MS = 250, LONGEST_PAUSE_MS = 10000 };
#define PATIENCE_NS (INT64_C(300) * 1000000000)

/* The site has removed it. */
static void call_cancelled(mr_job *job) {
    job->state = MR_JOB_CANCELLED;
    *job->why = 0;
    for (size_t i = 0; i < job->count; i++)
        if (job->process[i].state == MR_JOB_UNKNOWN) {
            job->process[i].state = MR_JOB_CANCELLED;
            *job->process[i].why = 0;
        }
}

int mr_submission_refresh(mr_submission *one) {
    mr_job job;
    if (mr_job_is_over(one->job.state))
        return MR_OK;
    int status = mr_job_blank(&one->job, &job);
    if (status)
        return status;
    status = mr_site_of(one)->ask(one, &job);
    if (status) {
        free(job.process);
        return status;
    }
    if (mr_job_is_over(job.state) || job.state == MR_JOB_UNKNOWN) /* the record is written, or the wait ends */
        one->cancelled = one->cancelled || mr_store_is_cancelled(one);
    if (one->cancelled && job.state == MR_JOB_UNKNOWN)
        call_cancelled(&job);
    free(one->job.process);
    one->job = job;
    if (mr_job_is_over(job.state))
        one->ended_ns = mr_clock_date_ns();
    if (mr_job_is_over(job.state) && mr_store_write(one)) /* it is asked for again */
        mr_print(stderr, "millrace: warning: the end of %s is not kept: %s\n", one->id, mr_message());
    return MR_OK;
}

void mr_job_print(const mr_job *job, FILE *to) {
    mr_print(to, "%s", mr_job_word((int)job->state));
    if (*job->hosts)
        mr_print(to, " on %s", job->hosts);
    if (job->state == MR_JOB_FAILED && job->code >= 0)
        mr_print(to, ", exit code %d", job->code);
    if (*job->why)
        mr_print(to, ": %s", job->why);
}

/* ---- until the end --------------------------------------------------------------------------------------------- */

static int code_of(const mr_submission *one) {
    switch (one->job.state) {
    case MR_JOB_ENDED:
        return 0;
    case MR_JOB_CANCELLED:
        return mr_status_exit_code(MR_ERROR_CANCELLED);
    case MR_JOB_FAILED:
        return one->job.code > 0 ? one->job.code : mr_status_exit_code(MR_ERROR_UNAVAILABLE);
    default:
        return mr_command_failed(mr_fail(MR_ERROR_UNAVAILABLE, "%s: %s", one->id, one->job.why));
    }
}

static void pause_for(int ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static void print_change(const mr_submission *one, const mr_job *before) {
    if (one->job.state == before->state && strcmp(one->job.why, before->why) == 0)
        return;
    mr_print(stderr, "%s: ", one->id);
    mr_job_print(&one->job, stderr);
    fputc('\n', stderr);
}

int mr_submission_follow(mr_submission *one) {
    int64_t failing_since = 0;
    for (int pause = FIRST_PAUSE_MS;; pause = pause < LONGEST_PAUSE_MS ? pause * 5 / 4 : LONGEST_PAUSE_MS) {
        const mr_job before = one->job; /* its processes are not looked at */
        const int status = mr_submission_refresh(one);
        if (!status) {
            failing_since = 0;
            print_change(one, &before);
            if (mr_job_is_over(one->job.state) || one->job.state == MR_JOB_UNKNOWN)
                return code_of(one);
        } else if (!mr_site_is_here(one))
            return mr_command_failed(status);
        else if (!failing_since) {
            failing_since = mr_now_ns();
            mr_print(stderr, "millrace: warning: %s\n", mr_message());
        } else if (mr_now_ns() - failing_since > PATIENCE_NS)
            return mr_command_failed(status);
        pause_for(pause);
    }
}
