/* millrace graph: draws a pipeline. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "engine/base/file.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/graph/graph_print.h"

typedef struct arguments {
    mr_overrides overrides;
    const char *format; /* NULL: from the output's extension */
    const char *output; /* NULL: standard output */
    bool online;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("format", "text|dot|svg|png|pdf", arguments, format,
              "dot is Graphviz's language; svg, png and pdf need Graphviz. The default follows from the ending of "
              "FILE, or is text"),
    MR_OPTION("output", "FILE", arguments, output,
              "writes to FILE instead of standard output; \"-\" is standard output"),
    MR_OVERRIDE_THREADS,
    MR_OPTION("offline", NULL, arguments, online,
              "reads only the pipeline's file, and shows the formats that it names (the default)", .off = true),
    MR_OPTION("online", NULL, arguments, online, "opens media and models as `run` does, and shows their formats too"),
    MR_OVERRIDE_INPUTS,
    MR_OVERRIDE_ALLOWING_PLUGINS,
    MR_OVERRIDE_ASSUMPTIONS,
    MR_OVERRIDE_PLACING,
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"pipeline.yaml", "pipeline.yaml --format svg --output pipeline.svg", NULL};

static const mr_usage usage = {
    .verb = "graph",
    .synopsis = "PIPELINE.yaml",
    .help = "Shows the pipeline as it is planned: the stages, by device, and the formats between them. Sources that "
            "are alike are shown as one.",
    .options = options,
    .examples = examples,
};

/* Chooses the format by the output name's extension. */
static const char *format_of(const char *output) {
    static const char *const endings[][2] = {{".dot", "dot"}, {".gv", "dot"}, {".svg", "svg"}, {".png", "png"},
                                             {".pdf", "pdf"}};
    const char *ending = output ? strrchr(output, '.') : NULL;
    for (size_t i = 0; ending && i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(ending, endings[i][0]) == 0)
            return endings[i][1];
    return "text";
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
    errno = 0;
    int status = draw(job, graph, stream);
    int error = ferror(stream) ? errno ? errno : EIO : 0; /* nothing after a failed write sets errno again */
    if (fflush(stream) && !error)
        error = errno;
    if (fclose(stream) && !error)
        error = errno;
    errno = error;
    return status || !error ? status : mr_file_fail("write to", job->output);
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
    arguments job = {.overrides.no_plugins = true};
    mr_chart graph = {0};
    int code = 0;
    const char *path =
        mr_usage_take(&usage, argc, argv, &job, &code) ? mr_usage_pipeline(&usage, argc, argv, &code) : NULL;
    job.output = job.output && strcmp(job.output, "-") == 0 ? NULL : job.output;
    job.format = job.format ? job.format : format_of(job.output);
    if (path)
        code = load(&job, path, &graph);
    if (path && !code) {
        int status = job.output ? write_file(&job, &graph) : draw(&job, &graph, stdout);
        code = status ? mr_command_failed(status) : mr_flush_stdout();
    }
    mr_chart_fini(&graph);
    mr_overrides_fini(&job.overrides);
    return code;
}

const mr_verb mr_graph_verb = {&usage, "show a pipeline: as text, as a picture or for Graphviz", run_verb};
