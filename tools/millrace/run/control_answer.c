#include "tools/millrace/run/control_answer.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "millrace/audit.h"
#include "millrace/log.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/run/control.h"
#include "tools/millrace/run/control_tap.h"
#include "tools/millrace/summary/summary.h"

typedef struct request {
    yajl_val tree;
    const char *what, *argument; /* argument NULL: none */
    size_t option_count;
    mr_override *options;
    mr_pipeline *pipeline;
    char *text;                  /* the answer for people; NULL: none */
    mr_diagnostics found;        /* about an added or changed source; mostly none */
    mr_sample sample;            /* tap's answer */
} request;

/* ---- requests -------------------------------------------------------------------------------------------------- */

static char *__attribute__((format(printf, 1, 2))) words(const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    return text;
}

static int enable(request *asked) {
    return mr_pipeline_enable_device(asked->pipeline, asked->argument, true);
}

static int disable(request *asked) {
    return mr_pipeline_enable_device(asked->pipeline, asked->argument, false);
}

static int trigger(request *asked) {
    return mr_pipeline_trigger(asked->pipeline, asked->argument);
}

/* A signal asks a run that has not started yet; it waits for the start (signals.h). Only one may be sent, since the
 * second would exit at once. */
static int end(request *asked, bool at_once) {
    static atomic_flag signalled = ATOMIC_FLAG_INIT;
    if (asked->pipeline) {
        mr_pipeline_stop(asked->pipeline, at_once);
        return MR_OK;
    }
    if (!atomic_flag_test_and_set(&signalled))
        kill(getpid(), SIGTERM);
    asked->text = words("the pipeline has not started yet, and ends as soon as it has\n");
    return MR_OK;
}

static int drain(request *asked) {
    return end(asked, false);
}

static int stop(request *asked) {
    return end(asked, true);
}

static int set_log(request *asked) {
    mr_log_level level;
    int status = mr_log_parse_level(asked->argument, &level);
    if (!status)
        mr_log_set_level(level);
    return status;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

/* All errors as one message; those in a file with places. */
static int fail_with(const mr_diagnostics *found, int status) {
    char *text = NULL;
    size_t length = 0, errors = 0;
    FILE *stream = open_memstream(&text, &length);
    for (size_t i = 0; stream && i < found->count; i++) {
        const mr_diagnostic *one = &found->item[i];
        if (one->severity != MR_SEVERITY_ERROR)
            continue;
        fputs(errors++ ? "; " : "", stream);
        if (one->place.line)
            fprintf(stream, "%s:%d:%d: ", one->place.file, one->place.line, one->place.column);
        fprintf(stream, "%s%s%s", one->message, one->hint ? " - " : "", one->hint ? one->hint : "");
    }
    if (stream)
        fclose(stream);
    status = mr_fail(status, "%s", text && *text ? text : mr_status_words(status));
    free(text);
    return status;
}

/* The change and the warnings that it brings, as `check` prints them. */
static char *say_change(const char *source, const char *done, const mr_diagnostics *found) {
    /* A warning without a place says that there was nothing to change. */
    bool changed = !found->count || found->item[0].place.file;
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (!stream)
        return NULL;
    fprintf(stream, "%s%s%s\n", source, changed ? " " : ": ", changed ? done : found->item[0].message);
    if (changed)
        mr_diagnostics_print(found, stream);
    fclose(stream);
    return text;
}

typedef int change_function(mr_pipeline *pipeline, const char *id, size_t option_count, const mr_override *options,
                            mr_diagnostics *diagnostics);

static int change(request *asked, change_function *function, const char *done) {
    mr_diagnostics *found = &asked->found;
    int status = function(asked->pipeline, asked->argument, asked->option_count, asked->options, found);
    if (status)
        return fail_with(found, status);
    asked->text = say_change(asked->argument, done, found);
    return MR_OK;
}

static int add(request *asked) {
    return change(asked, mr_pipeline_add_source, "is added");
}

static int set(request *asked) {
    return change(asked, mr_pipeline_set_source, "starts again with these options");
}

/* A source's latest counts. */
static void say_account(request *asked) {
    mr_summary *summary = NULL;
    if (mr_pipeline_summarize(asked->pipeline, &summary))
        return;
    for (size_t i = summary->source_count; i-- > 0 && !asked->text;) {
        const mr_source_summary *row = &summary->sources[i];
        if (strcmp(row->id, asked->argument) != 0)
            continue;
        asked->text = words("%s %s%s%s: %llu frames, %llu delivered, %llu dropped, %llu absorbed, %llu in flight\n",
                            row->id, row->stay.removed ? "is removed" : "is being removed",
                            row->hangs ? ", but " : "", row->hangs ? row->report.why : "",
                            (unsigned long long)row->in, (unsigned long long)row->delivered,
                            (unsigned long long)row->dropped, (unsigned long long)row->absorbed,
                            (unsigned long long)row->in_flight);
    }
    mr_summary_destroy(&summary);
}

/* If the source's frames are held up somewhere, it leaves later. */
static int take_away(request *asked) {
    static const int64_t patience_ns = 3000000000;
    int status = mr_pipeline_remove_source(asked->pipeline, asked->argument, patience_ns);
    if (!status || status == MR_ERROR_AGAIN)
        say_account(asked);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

static int tap(request *asked) {
    mr_sample_choices choices;
    int status = mr_control_choose_sample(&choices, asked->option_count, asked->options);
    if (!status)
        status = mr_sample_take(asked->pipeline, asked->argument, &choices, &asked->sample);
    return status == MR_ERROR_DEVICE ? MR_ERROR_AGAIN : status; /* that frame was lost; the next one may not be */
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static int look(request *asked) {
    return MR_OK;
}

static const struct command {
    const char *name, *argument; /* argument: the kind, for messages; NULL: it takes none */
    bool options; /* it takes options */
    int (*function)(request *asked);
} commands[] = {
    {"status", NULL, false, look},      {"disable", "device", false, disable}, {"enable", "device", false, enable},
    {"drain", NULL, false, drain},      {"stop", NULL, false, stop},           {"log", "level", false, set_log},
    {"add", "source", true, add},       {"set", "source", true, set},          {"remove", "source", false, take_away},
    {"trigger", "stage or source", false, trigger}, {"tap", "stage", true, tap},
};

static const struct command *find(const char *name) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (name && strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* Whether it changes nothing in the run. */
static bool only_looks(const struct command *command) {
    return command->function == look || command->function == tap;
}

static int unknown(const char *name) {
    mr_nearest nearest = {.wanted = name};
    char hint[256], all[256] = "there are";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        mr_nearest_offer(&nearest, commands[i].name);
        size_t at = strlen(all);
        snprintf(all + at, sizeof all - at, "%s %s", i ? "," : "", commands[i].name);
    }
    return mr_fail(MR_ERROR_USAGE, "there is no command \"%s\": %s", name,
                   mr_nearest_hint(&nearest, hint, sizeof hint, all));
}

int mr_control_check(const char *what, const char *argument, bool options) {
    const struct command *command = find(what);
    if (!command)
        return unknown(what ? what : "");
    if (command->argument && !argument)
        return mr_fail(MR_ERROR_USAGE, "%s takes a %s", what, command->argument);
    if (!command->argument && argument)
        return mr_fail(MR_ERROR_USAGE, "%s takes no argument: unexpected \"%s\"", what, argument);
    return options && !command->options ? mr_fail(MR_ERROR_USAGE, "%s takes no options", what) : MR_OK;
}

/* ---- reading a request ----------------------------------------------------------------------------------------- */

static const char *text_of(yajl_val tree, const char *key) {
    return YAJL_GET_STRING(mr_json_member(tree, key, yajl_t_string));
}

static int read_options(request *asked, yajl_val options) {
    if (!options)
        return MR_OK;
    if (!YAJL_IS_OBJECT(options))
        return mr_fail(MR_ERROR_USAGE, "%s takes options as an object", asked->what);
    size_t count = options->u.object.len;
    asked->options = calloc(count + 1, sizeof *asked->options);
    if (!asked->options)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a request");
    for (size_t i = 0; i < count; i++) {
        const char *value = YAJL_GET_STRING(options->u.object.values[i]);
        if (!value)
            return mr_fail(MR_ERROR_USAGE, "the option %s is not a text", options->u.object.keys[i]);
        asked->options[asked->option_count++] = (mr_override){options->u.object.keys[i], value};
    }
    return MR_OK;
}

static int parse(request *asked, const char *line, const struct command **command) {
    char why[256] = "";
    asked->tree = mr_json_parse(line, why, sizeof why);
    if (!YAJL_IS_OBJECT(asked->tree))
        return mr_fail(MR_ERROR_PROTOCOL, "a request is one JSON object on a line");
    yajl_val version = mr_json_member(asked->tree, "millrace", yajl_t_number);
    if (!YAJL_IS_INTEGER(version) || YAJL_GET_INTEGER(version) != MR_CONTROL_VERSION)
        return mr_fail(MR_ERROR_PROTOCOL, "this run speaks version %d of the control protocol", MR_CONTROL_VERSION);
    asked->what = text_of(asked->tree, "do");
    asked->argument = text_of(asked->tree, "argument");
    yajl_val options = mr_json_member(asked->tree, "options", yajl_t_any);
    int status = mr_control_check(asked->what, asked->argument, options);
    *command = find(asked->what);
    return status ? status : read_options(asked, options);
}

/* Values may hold passwords; keys do not. */
static char *keys_of(const request *asked) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = asked->option_count ? open_memstream(&text, &length) : NULL;
    for (size_t i = 0; stream && i < asked->option_count; i++)
        fprintf(stream, "%s%s", i ? ", " : "", asked->options[i].key);
    if (stream)
        fclose(stream);
    return text;
}

/* Enters a request that changes the run into the audit log, even if it is refused. */
static void enter(const request *asked, int status) {
    mr_summary *summary = NULL;
    if (!mr_audit_wanted() ||
        (asked->pipeline && mr_pipeline_snapshot(asked->pipeline, MR_SNAPSHOT_NS, &summary)))
        return;
    char *keys = keys_of(asked);
    mr_audit("control", mr_audit_text("pipeline", summary ? summary->pipeline : NULL),
             mr_audit_text("do", asked->what),
             mr_audit_text("argument", asked->argument), mr_audit_text("options", keys),
             mr_audit_text("status", mr_status_words(status)), mr_audit_text("message", status ? mr_message() : NULL));
    free(keys);
    mr_summary_destroy(&summary);
}

/* The next status must show the change. */
static void renew(mr_pipeline *pipeline) {
    mr_summary *summary;
    if (pipeline && !mr_pipeline_snapshot(pipeline, 0, &summary))
        mr_summary_destroy(&summary);
}

/* ---- answering ------------------------------------------------------------------------------------------------- */

static char *in_words(const mr_summary *summary) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    if (!stream)
        return NULL;
    mr_summary_print(summary, stream);
    fclose(stream);
    return text;
}

static int put_status(yajl_gen json, const request *asked) {
    mr_summary *summary = NULL;
    int status = mr_pipeline_snapshot(asked->pipeline, MR_SNAPSHOT_NS, &summary);
    if (status)
        return status;
    char *words = in_words(summary);
    mr_json_text(json, "pipeline", summary->pipeline);
    MR_JSON_MAP(json, "status")
        mr_summary_put_json(json, summary);
    mr_json_text(json, "text", words);
    free(words);
    mr_summary_destroy(&summary);
    return MR_OK;
}

char *mr_control_answer(const char *line, mr_pipeline *pipeline, const char *refused, size_t *length) {
    request asked = {.pipeline = pipeline};
    const struct command *command = NULL;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return NULL;
    int status = parse(&asked, line, &command);
    if (!status && refused)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "%s", refused);
    else if (!status && !pipeline && command->function != drain && command->function != stop)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "the pipeline is not running yet, or has ended");
    if (!status) {
        status = command->function(&asked);
        if (!only_looks(command)) {
            renew(pipeline);
            enter(&asked, status);
        }
    }
    mr_json_open_map(json, NULL);
    mr_json_integer(json, "millrace", MR_CONTROL_VERSION);
    mr_json_bool(json, "ok", status == MR_OK);
    mr_json_integer(json, "pid", getpid());
    if (status) {
        mr_json_integer(json, "exit_code", mr_status_exit_code(status));
        mr_json_text(json, "error", *mr_message() ? mr_message() : mr_status_words(status));
    } else if (command->function == look) {
        put_status(json, &asked);
    } else if (command->function == tap) {
        MR_JSON_MAP(json, "sample")
            mr_control_put_sample(json, &asked.sample);
    } else if (asked.text) {
        mr_json_text(json, "text", asked.text);
    }
    if (asked.found.count)
        mr_complaints_put(json, &asked.found);
    mr_diagnostics_fini(&asked.found);
    mr_sample_fini(&asked.sample);
    free(asked.text);
    free(asked.options);
    if (asked.tree)
        yajl_tree_free(asked.tree);
    yajl_gen_map_close(json);
    return mr_json_finish_text(json, length);
}
