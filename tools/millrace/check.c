/* millrace check: proves pipelines without opening media or models. */
#include <stdio.h>

#include "tools/millrace/overrides.h"

static const struct option options[] = {
    MR_OVERRIDE_OPTIONS,
    MR_USAGE_COMMON,
};

static const mr_usage usage = {
    .verb = "check",
    .synopsis = "PIPELINE.yaml... [--set KEY=VALUE]... [--input URI]... [--output FILE]",
    .help = "Proves each pipeline from its text alone: keys, types, ranges, variables, links, formats. Neither\n"
            "media nor models are opened, so it also proves pipelines of other machines. All errors are printed,\n"
            "each with its place and, where there is one, the fix; the exit code is the first error's (78: wrong\n"
            "pipeline, 66: no such file).\n\n"
            MR_OVERRIDE_HELP,
    .options = options,
};

static int check(const char *path, const mr_overrides *overrides) {
    mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.types = mr_stage_types(), .path = path, .offline = true};
    mr_overrides_apply(overrides, &params);
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

/* Answers an exit code; *done where there is nothing to check. */
static int parse(mr_overrides *overrides, int argc, char **argv, bool *done) {
    int code = 0, got;
    *done = true;
    while ((got = mr_usage_next(&usage, argc, argv, &code)) != -1)
        if (got == MR_USAGE_EXIT || (mr_overrides_take(overrides, &usage, got, &code) && code))
            return code;
    if (optind == argc)
        return mr_usage_error(&usage, "name at least one pipeline");
    *done = false;
    return 0;
}

int mr_command_check(int argc, char **argv) {
    mr_overrides overrides;
    bool done;
    if (mr_overrides_init(&overrides, argc))
        return mr_command_failed(MR_ERROR_MEMORY);
    int code = parse(&overrides, argc, argv, &done), first = MR_OK;
    for (int i = optind; !done && i < argc; i++) {
        int status = check(argv[i], &overrides);
        first = first ? first : status;
    }
    mr_overrides_fini(&overrides);
    if (done)
        return code;
    code = mr_flush_stdout();
    return first ? mr_status_exit_code(first) : code;
}
