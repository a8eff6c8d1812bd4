#include "tools/millrace/run/run_report.h"

#include <fcntl.h>
#include <stdlib.h>

#include "tools/millrace/cli/command.h"
#include "tools/millrace/summary/summary.h"

void mr_report_begin(mr_report *report) {
    const char *said = getenv(MR_REPORT_VARIABLE);
    long long fd = -1;
    report->stream = NULL;
    if (said && mr_parse_integer(said, 3, 1 << 20, &fd) && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0)
        report->stream = fdopen((int)fd, "w");
    unsetenv(MR_REPORT_VARIABLE);
}

void mr_report_send(const mr_report *report, const mr_summary *summary, bool finished, int status) {
    if (!report->stream || !summary)
        return;
    mr_summary_print_json(summary, finished, status, NULL, report->stream);
    fflush(report->stream);
}

void mr_report_end(mr_report *report) {
    if (report->stream)
        fclose(report->stream);
    report->stream = NULL;
}
