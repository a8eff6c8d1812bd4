#include "tools/millrace/run/control_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "engine/base/json.h"
#include "millrace/audit.h"
#include "millrace/log.h"
#include "tools/millrace/run/control.h"
#include "tools/millrace/run/summary.h"

typedef struct request {
    yajl_val tree;
    const char *what, *argument; /* argument NULL: none */
    mr_pipeline *pipeline;
} request;

/* ---- requests -------------------------------------------------------------------------------------------------- */

static int enable(const request *asked) {
    return mr_pipeline_enable_device(asked->pipeline, asked->argument, true);
}

static int disable(const request *asked) {
    return mr_pipeline_enable_device(asked->pipeline, asked->argument, false);
}

static int drain(const request *asked) {
    mr_pipeline_stop(asked->pipeline, false);
    return MR_OK;
}

static int stop(const request *asked) {
    mr_pipeline_stop(asked->pipeline, true);
    return MR_OK;
}

static int set_log(const request *asked) {
    mr_log_level level;
    int status = mr_log_parse_level(asked->argument, &level);
    if (!status)
        mr_log_set_level(level);
    return status;
}

static int look(const request *asked) {
    (void)asked;
    return MR_OK;
}

static const struct deed {
    const char *name, *argument; /* argument: its kind, for messages; NULL: it takes none */
    int (*function)(const request *asked);
} deeds[] = {
    {"status", NULL, look},       {"disable", "device", disable}, {"enable", "device", enable},
    {"drain", NULL, drain},       {"stop", NULL, stop},           {"log", "level", set_log},
};

static const struct deed *find(const char *name) {
    for (size_t i = 0; i < sizeof deeds / sizeof deeds[0]; i++)
        if (name && strcmp(deeds[i].name, name) == 0)
            return &deeds[i];
    return NULL;
}

/* ---- reading a request ----------------------------------------------------------------------------------------- */

static const char *text_of(yajl_val tree, const char *key) {
    const char *way[] = {key, NULL};
    yajl_val value = yajl_tree_get(tree, way, yajl_t_string);
    return value ? YAJL_GET_STRING(value) : NULL;
}

static int parse(request *asked, const char *line, const struct deed **deed) {
    static const char *const version_way[] = {"millrace", NULL};
    char why[256] = "";
    asked->tree = yajl_tree_parse(line, why, sizeof why);
    if (!YAJL_IS_OBJECT(asked->tree))
        return mr_fail(MR_ERROR_PROTOCOL, "a request is one JSON object on a line");
    yajl_val version = yajl_tree_get(asked->tree, (const char **)version_way, yajl_t_number);
    if (!YAJL_IS_INTEGER(version) || YAJL_GET_INTEGER(version) != MR_CONTROL_VERSION)
        return mr_fail(MR_ERROR_PROTOCOL, "this run speaks version %d of the control protocol", MR_CONTROL_VERSION);
    asked->what = text_of(asked->tree, "do");
    asked->argument = text_of(asked->tree, "argument");
    *deed = find(asked->what);
    if (!*deed)
        return mr_fail(MR_ERROR_USAGE, "this run cannot do \"%s\"", asked->what ? asked->what : "");
    if (!(*deed)->argument != !asked->argument)
        return mr_fail(MR_ERROR_USAGE, "%s takes %s%s", asked->what, (*deed)->argument ? "a " : "no argument",
                       (*deed)->argument ? (*deed)->argument : "");
    return MR_OK;
}

/* A request that changes the run is entered into the audit log, also if it is refused. */
static void enter(const request *asked, int status) {
    mr_summary *summary = NULL;
    if (!mr_audit_wanted() || strcmp(asked->what, "status") == 0 || mr_pipeline_summarize(asked->pipeline, &summary))
        return;
    mr_audit("control", mr_audit_text("pipeline", summary->pipeline), mr_audit_text("do", asked->what),
             mr_audit_text("argument", asked->argument), mr_audit_text("status", mr_status_words(status)),
             mr_audit_text("message", status ? mr_message() : NULL));
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
    int status = mr_pipeline_summarize(asked->pipeline, &summary);
    if (status)
        return status;
    char *words = in_words(summary);
    mr_json_text(json, "pipeline", summary->pipeline);
    mr_json_open_map(json, "status");
    mr_summary_put_json(json, summary);
    yajl_gen_map_close(json);
    mr_json_text(json, "text", words);
    free(words);
    mr_summary_destroy(&summary);
    return MR_OK;
}

static char *finish(yajl_gen json, size_t *length) {
    char *text = NULL;
    FILE *stream = open_memstream(&text, length);
    if (!stream)
        return NULL;
    yajl_gen_map_close(json);
    int status = mr_json_finish(json, stream);
    fclose(stream);
    if (status) {
        free(text);
        text = NULL;
    }
    return text;
}

char *mr_control_answer(const char *line, mr_pipeline *pipeline, size_t *length) {
    request asked = {.pipeline = pipeline};
    const struct deed *deed = NULL;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return NULL;
    int status = parse(&asked, line, &deed);
    if (!status && !pipeline)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "the pipeline is not running yet, or has ended");
    if (!status) {
        status = deed->function(&asked);
        enter(&asked, status);
    }
    mr_json_open_map(json, NULL);
    mr_json_integer(json, "millrace", MR_CONTROL_VERSION);
    mr_json_bool(json, "ok", status == MR_OK);
    mr_json_integer(json, "pid", getpid());
    if (status) {
        mr_json_integer(json, "exit_code", mr_status_exit_code(status));
        mr_json_text(json, "error", *mr_message() ? mr_message() : mr_status_words(status));
    } else if (deed->function == look) {
        put_status(json, &asked);
    }
    if (asked.tree)
        yajl_tree_free(asked.tree);
    return finish(json, length);
}
