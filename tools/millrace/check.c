/* millrace check: proves pipelines without opening media or models. */
#include <stdio.h>

#include "tools/millrace/command.h"

static const struct option options[] = {
    MR_USAGE_COMMON,
};

static const mr_usage usage = {
    .verb = "check",
    .synopsis = "PIPELINE.yaml...",
    .help = "Proves each pipeline from its text alone: keys, types, ranges, variables, links, formats. Neither\n"
            "media nor models are opened, so it also proves pipelines of other machines. All errors are printed,\n"
            "each with its place and, where there is one, the fix; the exit code is the first error's (78: wrong\n"
            "pipeline, 66: no such file).\n",
    .options = options,
};

static int check(const char *path) {
    mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = path, .offline = true};
    int status = mr_pipeline_open(&pipeline, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    if (status && wrong.errors == 0)
        mr_command_failed(status);
    if (!status)
        printf("%s: ok\n", path);
    mr_diagnostics_fini(&wrong);
    mr_pipeline_destroy(&pipeline);
    return status;
}

int mr_command_check(int argc, char **argv) {
    int code = 0, got;
    while ((got = mr_usage_next(&usage, argc, argv, &code)) != -1)
        if (got == MR_USAGE_EXIT)
            return code;
    if (optind == argc)
        return mr_usage_error(&usage, "name at least one pipeline");
    int first = MR_OK;
    for (int i = optind; i < argc; i++) {
        int status = check(argv[i]);
        first = first ? first : status;
    }
    code = mr_flush_stdout();
    return first ? mr_status_exit_code(first) : code;
}
