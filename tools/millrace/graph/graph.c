/* millrace graph: draws a pipeline. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <string.h>
#include <strings.h>

#include "engine/base/file.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/graph/graph.h"

enum { FORMAT = 256, OUTPUT, OFFLINE, ONLINE };

typedef enum picture { PICTURE_BY_NAME, PICTURE_TEXT, PICTURE_DOT, PICTURE_SVG } picture;
static const char *const pictures[] = {[PICTURE_TEXT] = "text", [PICTURE_DOT] = "dot", [PICTURE_SVG] = "svg"};

typedef struct arguments {
    mr_overrides overrides;
    picture format;
    const char *output; /* NULL: standard output */
    mr_chart_view view;
    bool online;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION_CODE("format", required_argument, FORMAT),
    MR_OPTION_CODE("output", required_argument, OUTPUT),
    MR_OPTION_NUMBER("width", arguments, view.width, MR_CHART_MIN_WIDTH, MR_CHART_MAX_WIDTH),
    MR_OPTION_FIELD("ascii", arguments, view.ascii),
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
    .synopsis = "PIPELINE.yaml [--format text|dot|svg] [--output FILE] [--width N] [--ascii]\n"
                "                      [--workers N] [--jobs N] [--offline | --online] [--set KEY=VALUE]...\n"
                "                      [--input URI]... [--assume DEVICES]... [--costs FILE]\n"
                "                      [--force] [--plugin FILE]... [--plugins]",
    .help = "Draws the pipeline as it is planned: the stages, by device, and the formats between them. If a line does\n"
            "not fit into the width, the box that it leads to names its inputs instead. Sources that are alike are\n"
            "drawn as one.\n\n"
            "  --format FORMAT    text (a drawing for the terminal), svg, or dot, for Graphviz; by default as\n"
            "                     FILE ends (.svg, .dot or .gv), or text\n"
            "  --output FILE      writes to FILE, not to standard output; \"-\" is standard output\n"
            "  --width N          columns of the text; by default the terminal's (or COLUMNS), 80 in a pipe\n"
            "  --ascii            no box characters; the default if the locale is not UTF-8\n"
            MR_OVERRIDE_THREADS_HELP
            "  --offline          reads only the pipeline's file, and shows the formats that it names (the default)\n"
            "  --online           opens media and models as `run` does, and shows their formats, too\n"
            MR_OVERRIDE_INPUTS_HELP MR_OVERRIDE_PLUGINS_HELP MR_OVERRIDE_ASSUMPTIONS_HELP MR_OVERRIDE_PLACING_HELP,
    .options = options,
    .examples = examples,
};

/* ---- the terminal ---------------------------------------------------------------------------------------------- */

/* The environment's locale is read without being set: numbers keep their points. */
static bool terminal_is_utf8(void) {
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    bool utf8 = locale && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    if (locale)
        freelocale(locale);
    return utf8;
}

/* ---- the command line ------------------------------------------------------------------------------------------ */

static int take_format(arguments *job) {
    for (size_t i = PICTURE_TEXT; i < sizeof pictures / sizeof pictures[0]; i++)
        if (strcmp(optarg, pictures[i]) == 0) {
            job->format = (picture)i;
            return 0;
        }
    return mr_usage_error(&usage, "--format is text, dot or svg, not \"%s\"", optarg);
}

/* A name that ends like another kind of picture is refused. */
static int find_format(arguments *job) {
    static const struct {
        const char *ending;
        picture format;
    } known[] = {{".svg", PICTURE_SVG}, {".dot", PICTURE_DOT}, {".gv", PICTURE_DOT},
                 {".png", PICTURE_BY_NAME}, {".pdf", PICTURE_BY_NAME}, {".jpg", PICTURE_BY_NAME}};
    const char *dot = job->output ? strrchr(job->output, '.') : NULL;
    if (job->format)
        return 0;
    job->format = PICTURE_TEXT;
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcasecmp(dot, known[i].ending) == 0)
            job->format = known[i].format;
    return job->format ? 0 : mr_usage_error(&usage, "graph writes svg, dot or text, not \"%s\": Graphviz makes other "
                                                    "pictures of --format dot", dot);
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
    job->view = (mr_chart_view){.width = mr_terminal_width(stdout), .ascii = !terminal_is_utf8()};
    if (job->view.width < MR_CHART_MIN_WIDTH)
        job->view.width = MR_CHART_MIN_WIDTH;
    if (!mr_usage_take(&usage, argc, argv, take_option, job, &code))
        return code;
    *done = (code = find_format(job)) || !mr_usage_pipeline(&usage, argc, argv, &code);
    return code;
}

/* ---- drawing --------------------------------------------------------------------------------------------------- */

static int draw(const arguments *job, const mr_chart *graph, FILE *stream) {
    switch (job->format) {
    case PICTURE_DOT:
        return mr_chart_dot(graph, stream);
    case PICTURE_SVG:
        return mr_chart_svg(graph, stream);
    default:
        return mr_chart_text(graph, &job->view, stream);
    }
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

const mr_verb mr_graph_verb = {&usage, "draw a pipeline: in the terminal, as SVG or for Graphviz", run_verb};
