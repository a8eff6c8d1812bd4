/* millrace status: the state of submitted pipelines. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/submit/sites.h"
#include "tools/millrace/submit/store.h"
#include "tools/millrace/submit/watch.h"

typedef struct arguments {
    bool json, wait;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("json", NULL, arguments, json, "prints one JSON object, with all processes"),
    MR_OPTION("wait", NULL, arguments, wait,
              "waits for the end, and exits with the pipeline's exit code, or with 75 if it was cancelled. Ending this "
              "command does not end the job"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"", "camera-3f2a", "4711 --wait", "--json", NULL};

static const mr_usage usage = {
    .verb = "status",
    .synopsis = "[ID]",
    .help = "Asks Slurm, Kubernetes or systemd what became of pipelines that were handed over with `submit`: queued "
            "and why, running and where, ended with which exit code, for each process of the pipeline. ID is what "
            "`submit` has printed, or the site's own number or name. Without it, all of them are listed, with the last "
            "known state where the site cannot be asked.",
    .options = options,
    .examples = examples,
};

/* ---- text ------------------------------------------------------------------------------------------------------ */

static const char *const targets[] = {"slurm", "kubernetes", "systemd"};

static const char *words_or(const char *text) {
    return *text ? text : "-";
}

static const char *code_text(int code, char text[16]) {
    snprintf(text, 16, code < 0 ? "-" : "%d", code);
    return text;
}

/* "2026-11-30 01:02:03" */
static void print_date(const mr_submission *one, char text[MR_DATE_TEXT]) {
    mr_date_text(text, one->submitted_ns);
    text[10] = ' ';
    text[19] = 0;
}

static int print_list(const mr_submissions *all) {
    static const mr_column columns[] = {{.title = "id"}, {.title = "site"}, {.title = "submitted (UTC)"},
                                        {.title = "state"}, {.title = "exit code", .right = true},
                                        {.title = "where", .cut = MR_CUT_MIDDLE}, {.title = "why", .cut = MR_CUT_LINES},
                                        {0}};
    mr_table table = {.columns = columns};
    char date[MR_DATE_TEXT], code[16];
    for (size_t i = 0; i < all->count; i++) {
        const mr_submission *one = &all->item[i];
        print_date(one, date);
        mr_table_add(&table, "%s\t%s %s\t%s\t%s\t%s\t%s\t%s", one->id, targets[one->target],
                     words_or(one->site_id), date, mr_job_word((int)one->job.state), code_text(one->job.code, code),
                     words_or(one->job.hosts), words_or(one->job.why));
    }
    if (!all->count)
        mr_print(stdout, "nothing was submitted\n");
    return all->count ? mr_table_print(&table, mr_terminal_width(stdout), stdout) : MR_OK;
}

static int print_one(const mr_submission *one) {
    static const mr_column columns[] = {{.title = "node", .cut = MR_CUT_MIDDLE}, {.title = "process", .right = true},
                                        {.title = "state"}, {.title = "where", .cut = MR_CUT_MIDDLE},
                                        {.title = "restarts", .right = true}, {.title = "exit code", .right = true},
                                        {.title = "why", .cut = MR_CUT_LINES}, {0}};
    mr_table table = {.columns = columns};
    char date[MR_DATE_TEXT], code[16];
    print_date(one, date);
    mr_print(stdout, "%s (%s %s): ", one->id, targets[one->target], words_or(one->site_id));
    mr_job_print(&one->job, stdout);
    mr_print(stdout, "\n  pipeline   %s\n  submitted  %s UTC on %s\n  log        ", one->pipeline, date, one->host);
    mr_site_of(one)->log(one, stdout);
    mr_print(stdout, "\n\n");
    for (size_t i = 0; i < one->job.count; i++) {
        const mr_job_process *at = &one->job.process[i];
        mr_table_add(&table, "%s\t%d\t%s\t%s\t%d\t%s\t%s", at->node, at->replica, mr_job_word((int)at->state),
                     words_or(at->host), at->restarts, code_text(at->code, code), words_or(at->why));
    }
    return mr_table_print(&table, mr_terminal_width(stdout), stdout);
}

static int print_json(const mr_submission *first, size_t count) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL)
        MR_JSON_ARRAY(json, "submitted")
            for (size_t i = 0; i < count; i++)
                mr_submission_put(json, &first[i]);
    return mr_json_finish(json, stdout);
}

/* ---- together -------------------------------------------------------------------------------------------------- */

/* A site that cannot be asked is asked once. Returns the first failure. */
static int refresh_all(mr_submissions *all) {
    int first = MR_OK;
    bool *failed = calloc(all->count + 1, sizeof *failed);
    if (!failed)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of submissions");
    for (size_t i = 0; i < all->count; i++) {
        bool asked = false;
        for (size_t before = 0; before < i && !asked; before++)
            asked = failed[before] && mr_site_same(&all->item[before], &all->item[i]);
        const int status = asked ? MR_OK : mr_submission_refresh(&all->item[i]);
        failed[i] = status != MR_OK;
        if (status)
            mr_print(stderr, "millrace: warning: %s: the last known states follow\n", mr_message());
        first = first ? first : status;
    }
    free(failed);
    return first;
}

/* Return exit codes. */
static int tell_all(const arguments *given, mr_submissions *all) {
    const int failed = refresh_all(all);
    int status = given->json ? print_json(all->item, all->count) : print_list(all);
    if (status)
        return mr_command_failed(status);
    const int code = mr_flush_stdout();
    return code ? code : mr_status_exit_code(failed);
}

static int tell_one(const arguments *given, const mr_submissions *all, const char *id) {
    mr_submission *one;
    int code = 0, status = mr_store_find(all, id, &one);
    if (!status && given->wait)
        code = mr_submission_follow(one);
    else if (!status)
        status = mr_submission_refresh(one);
    if (!status)
        status = given->json ? print_json(one, 1) : print_one(one);
    if (status)
        return mr_command_failed(status);
    status = mr_flush_stdout();
    return status ? status : code;
}

static int run_verb(int argc, char **argv) {
    arguments given = {0};
    mr_submissions all = {0};
    int code = 0;
    if (!mr_usage_take(&usage, argc, argv, &given, &code))
        return code;
    if (optind + 1 < argc)
        return mr_usage_error(&usage, "name one submission, or none for all");
    if (given.wait && optind == argc)
        return mr_usage_error(&usage, "--wait takes the id of one submission");
    int status = mr_store_list(&all);
    if (status)
        code = mr_command_failed(status);
    else
        code = optind < argc ? tell_one(&given, &all, argv[optind]) : tell_all(&given, &all);
    mr_submissions_fini(&all);
    return code;
}

const mr_verb mr_status_verb = {&usage, "show what became of submitted pipelines", run_verb};
