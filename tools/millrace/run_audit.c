#include "tools/millrace/run_audit.h"

#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/flow/pipeline.h"
#include "engine/observe/audit.h"

enum { NUMBER_BYTES = 24 };

int mr_run_audit_open(const char *path) {
    return path ? mr_audit_open(path) : MR_OK;
}

void mr_run_audit_begin(const mr_pipeline *pipeline, const char *file) {
    char whole[PATH_MAX], user[NUMBER_BYTES];
    if (!mr_audit_wanted())
        return;
    snprintf(user, sizeof user, "%lu", (unsigned long)getuid());
    const char *path = strcmp(file, "-") == 0 ? "standard input" : realpath(file, whole);
    mr_audit("run begins", "pipeline", pipeline->plan->name, "digest",
             pipeline->plan->spec->digest, "file", path ? path : file, "user", user, "version",
             mr_version(), NULL);
}

/* A terminal's signals come from the kernel, which has no process and no user. */
void mr_run_audit_signal(const struct signalfd_siginfo *signal, const char *does) {
    char name[NUMBER_BYTES], sender[NUMBER_BYTES], user[NUMBER_BYTES];
    const char *known = sigabbrev_np((int)signal->ssi_signo);
    bool sent = signal->ssi_code <= 0;
    snprintf(name, sizeof name, "SIG%s", known ? known : "");
    snprintf(sender, sizeof sender, "%" PRIu32, signal->ssi_pid);
    snprintf(user, sizeof user, "%" PRIu32, signal->ssi_uid);
    mr_audit("signal", "signal", name, "does", does, "sender", sent ? sender : NULL, "user", sent ? user : NULL, NULL);
}

void mr_run_audit_end(const mr_summary *summary, int status) {
    char in[NUMBER_BYTES] = "", delivered[NUMBER_BYTES] = "";
    if (!mr_audit_wanted())
        return;
    if (summary) {
        snprintf(in, sizeof in, "%" PRIu64, summary->in);
        snprintf(delivered, sizeof delivered, "%" PRIu64, summary->delivered);
    }
    mr_audit("run ends", "pipeline", summary ? summary->pipeline : NULL, "status", mr_status_words(status), "message",
             status ? mr_message() : NULL, "in", summary ? in : NULL, "delivered", summary ? delivered : NULL, NULL);
    mr_audit_close();
}
