/* millrace cancel: ends submitted pipelines. */
#include <stdio.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/submit/sites.h"
#include "tools/millrace/submit/store.h"
#include "tools/millrace/submit/watch.h"

static const mr_usage_option options[] = {MR_USAGE_COMMON};

static const char *const examples[] = {"camera-3f2a", "4711 4712", NULL};

static const mr_usage usage = {
    .verb = "cancel",
    .synopsis = "ID...",
    .help = "Ends pipelines that were handed over with `submit`, and takes queued ones out of the queue. Frames in "
            "flight are delivered if the site gives the time for it. Kubernetes' objects and systemd's units are "
            "removed, also those of a pipeline that has ended. `status ID --wait` waits for the end.",
    .options = options,
    .examples = examples,
};

/* The record says it first: a `status --wait` at the same time may find that the site has forgotten it. */
static int end(mr_submission *one) {
    int status = mr_submission_refresh(one);
    const bool over = mr_job_is_over(one->job.state), before = one->cancelled;
    if (status)
        return status;
    one->cancelled = true;
    const int kept = mr_store_write(one);
    if (!(over && one->target == MR_DEPLOY_SLURM))
        status = mr_site_of(one)->cancel(one);
    if (status) {
        char why[512];
        snprintf(why, sizeof why, "%s", mr_message());
        one->cancelled = before;
        mr_store_write(one);
        return mr_fail(status, "%s", why);
    }
    mr_print(stderr, "%s is %s", one->id, over ? "over: " : "being ended");
    if (over)
        mr_job_print(&one->job, stderr);
    fputc('\n', stderr);
    return kept ? mr_store_write(one) : MR_OK; /* with the reason */
}

/* The first failure; the others are ended too. */
static int end_each(const mr_submissions *all, char **ids) {
    int first = MR_OK;
    for (; *ids; ids++) {
        mr_submission *one;
        sigset_t signals;
        mr_store_hold_signals(&signals);
        int status = mr_store_find(all, *ids, &one);
        if (!status)
            status = end(one);
        mr_store_let_signals(&signals);
        if (status)
            mr_command_failed(status);
        first = first ? first : status;
    }
    return first;
}

static int run_verb(int argc, char **argv) {
    mr_submissions all = {0};
    int code = 0;
    if (!mr_usage_take(&usage, argc, argv, NULL, &code))
        return code;
    if (optind == argc)
        return mr_usage_error(&usage, "name what to cancel: `millrace status` lists what was submitted");
    int status = mr_store_list(&all);
    if (status)
        mr_command_failed(status);
    else
        status = end_each(&all, argv + optind);
    mr_submissions_fini(&all);
    return mr_status_exit_code(status);
}

const mr_verb mr_cancel_verb = {&usage, "end submitted pipelines", run_verb};
