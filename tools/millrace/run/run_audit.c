#include "tools/millrace/run/run_audit.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "millrace/audit.h"
#include "millrace/log.h"

int mr_run_audit_open(const char *path) {
    return path ? mr_audit_open(path) : MR_OK;
}

void mr_run_audit_begin(const mr_plan_view *plan, const char *file) {
    char whole[PATH_MAX];
    if (!mr_audit_wanted())
        return;
    const char *path = strcmp(file, "-") == 0 ? "standard input" : realpath(file, whole);
    mr_audit("run begins", mr_audit_text("pipeline", plan->name),
             mr_audit_text("digest", plan->digest), mr_audit_text("file", path ? path : file),
             mr_audit_number("user", getuid()), mr_audit_text("version", mr_version()));
}

static mr_audit_field known_number(const char *name, uint64_t number, bool known) {
    return known ? mr_audit_number(name, number) : mr_audit_text(name, NULL);
}

/* A terminal's signal comes from the kernel and has no process or user. */
void mr_run_audit_signal(const struct signalfd_siginfo *signal, const char *does) {
    char name[24];
    const char *known = sigabbrev_np((int)signal->ssi_signo);
    bool sent = signal->ssi_code <= 0;
    snprintf(name, sizeof name, "SIG%s", known ? known : "");
    mr_audit("signal", mr_audit_text("signal", name), mr_audit_text("does", does),
             known_number("sender", signal->ssi_pid, sent), known_number("user", signal->ssi_uid, sent));
}

void mr_run_audit_reopen(const struct signalfd_siginfo *signal) {
    if (mr_audit_reopen())
        mr_log(MR_LOG_WARNING, "the audit log continues in the file that was open: %s", mr_message());
    mr_run_audit_signal(signal, MR_SIGNAL_READS);
}

void mr_run_audit_end(const mr_summary *summary, int status) {
    if (!mr_audit_wanted())
        return;
    mr_audit("run ends", mr_audit_text("pipeline", summary ? summary->pipeline : NULL),
             mr_audit_text("status", mr_status_words(status)), mr_audit_text("message", status ? mr_message() : NULL),
             known_number("in", summary ? summary->in : 0, summary),
             known_number("delivered", summary ? summary->delivered : 0, summary));
    mr_audit_close();
}
