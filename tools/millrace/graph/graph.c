/* millrace graph: draws a pipeline. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "engine/base/file.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/graph/graph.h"

enum { FORMAT = 256, OUTPUT, OFFLINE, ONLINE };

/* As file extensions. */
static const char *const formats[] = {"text", "dot", "svg", "png", "pdf"};
enum { FORMATS = sizeof formats / sizeof *formats };

typedef struct arguments {
    mr_overrides overrides;
    const char *format; /* NULL: from the output's extension */
    const char *output; /* NULL: standard output */
    bool online;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION_CODE("format", required_argument, FORMAT),
    MR_OPTION_CODE("output", required_argument, OUTPUT),
    MR_OVERRIDE_THREADS,
    MR_OPTION_CODE("offline", no_argument, OFFLINE),
    MR_OPTION_CODE("online", no_argument, ONLINE),
    MR_OVERRIDE_INPUTS,
    MR_OVERRIDE_ALLOWING_PLUGINS,
    MR_OVERRIDE_ASSUMPTIONS,
    MR_OVERRIDE_PLACING,
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"pipeline.yaml", "pipeline.yaml --format svg --output pipeline.svg", NULL};

static const mr_usage usage = {
    .verb = "graph",
    .synopsis = "PIPELINE.yaml [--format text|dot|svg|png|pdf] [--output FILE] [--workers N]\n"
                "                      [--jobs N] [--offline | --online] [--set KEY=VALUE]...\n"
                "                      [--input URI]... [--assume DEVICES]... [--costs FILE]\n"
                "                      [--force] [--plugin FILE]... [--plugins]",
    .help = "Shows the pipeline as it is planned: the stages, by device, and the formats between them.\n"
            "Sources that are alike are shown as one.\n\n"
            "  --format FORMAT    text, dot (Graphviz's language), or svg, png or pdf, for which Graphviz must be\n"
            "                     installed; by default as FILE ends, or text\n"
            "  --output FILE      writes to FILE, not to standard output; \"-\" is standard output\n"
            MR_OVERRIDE_THREADS_HELP
            "  --offline          reads only the pipeline's file, and shows the formats that it names (the default)\n"
            "  --online           opens media and models as `run` does, and shows their formats, too\n"
            MR_OVERRIDE_INPUTS_HELP MR_OVERRIDE_PLUGINS_HELP MR_OVERRIDE_ASSUMPTIONS_HELP MR_OVERRIDE_PLACING_HELP,
    .options = options,
    .examples = examples,
};

/* ---- the command line ------------------------------------------------------------------------------------------ */

static int take_format(arguments *job) {
    for (size_t i = 0; i < FORMATS; i++)
        if (strcmp(optarg, formats[i]) == 0) {
            job->format = formats[i];
            return 0;
        }
    return mr_usage_error(&usage, "--format is text, dot, svg, png or pdf, not \"%s\"", optarg);
}

static const char *format_of(const char *output) {
    const char *ending = output ? strrchr(output, '.') : NULL;
    for (size_t i = 1; ending && i < FORMATS; i++)
        if (strcasecmp(ending + 1, formats[i]) == 0)
            return formats[i];
    return ending && strcasecmp(ending, ".gv") == 0 ? "dot" : "text";
}

static int take_option(void *given, int option) {
    arguments *job = given;
    int code = 0;
    switch (option) {
    case FORMAT:
        return take_format(job);
    case OUTPUT:
        job->output = strcmp(optarg, "-") == 0 ? NULL : optarg;
        return 0;
    case OFFLINE:
    case ONLINE:
        job->online = option == ONLINE;
        return 0;
    default:
        mr_overrides_take(&job->overrides, &usage, option, &code);
        return code;
    }
}

/* Returns an exit code; *done if there is nothing to draw. */
static int parse(arguments *job, int argc, char **argv, bool *done) {
    int code = 0;
    *done = true;
    if (!mr_usage_take(&usage, argc, argv, take_option, job, &code))
        return code;
    job->format = job->format ? job->format : format_of(job->output);
    *done = !mr_usage_pipeline(&usage, argc, argv, &code);
    return code;
}

/* ---- drawing --------------------------------------------------------------------------------------------------- */

static int draw(const arguments *job, const mr_chart *graph, FILE *stream) {
    if (strcmp(job->format, "text") == 0)
        return mr_chart_text(graph, stream);
    if (strcmp(job->format, "dot") == 0)
        return mr_chart_dot(graph, stream);
    return mr_chart_picture(graph, job->format, stream);
}

static int write_file(const arguments *job, const mr_chart *graph) {
    FILE *stream = fopen(job->output, "we");
    if (!stream)
        return mr_file_fail("write to", job->output);
    int status = draw(job, graph, stream);
    errno = 0;
    bool failed = ferror(stream) | fflush(stream);
    failed |= fclose(stream) != 0;
    errno = errno ? errno : EIO;
    return status || !failed ? status : mr_file_fail("write to", job->output);
}

/* Plans the pipeline, prints all diagnostics, and makes the chart. */
static int load(const arguments *job, const char *path, mr_chart *graph) {
    const mr_plan_view *plan = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {
        .path = path, .offline = !job->online,
        .cuts = true};
    mr_overrides_apply(&job->overrides, &params);
    int status = mr_plan_view_open(&plan, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    bool reported = wrong.errors > 0;
    mr_diagnostics_fini(&wrong);
    if (!status)
        status = mr_chart_make(graph, plan);
    mr_plan_view_close(&plan);
    return status && !reported ? mr_command_failed(status) : mr_status_exit_code(status);
}

static int run_verb(int argc, char **argv) {
    arguments job = {0};
    mr_chart graph = {0};
    bool done;
    if (mr_overrides_init(&job.overrides, argc))
        return mr_command_failed(MR_ERROR_MEMORY);
    job.overrides.no_plugins = true;
    int code = parse(&job, argc, argv, &done);
    if (!done)
        code = load(&job, argv[optind], &graph);
    if (!done && !code) {
        int status = job.output ? write_file(&job, &graph) : draw(&job, &graph, stdout);
        code = status ? mr_command_failed(status) : mr_flush_stdout();
    }
    mr_chart_fini(&graph);
    mr_overrides_fini(&job.overrides);
    return code;
}

const mr_verb mr_graph_verb = {&usage, "show a pipeline: as text, as a picture or for Graphviz", run_verb};
