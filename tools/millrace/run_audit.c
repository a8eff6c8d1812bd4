#include "tools/millrace/run_audit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
