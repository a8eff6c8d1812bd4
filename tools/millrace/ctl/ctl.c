/* millrace ctl: prints the status of a run, and changes it while it runs. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#include "engine/base/json.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/ctl/client.h"
#include "tools/millrace/run/control_answer.h"

typedef struct arguments {
    const char *path;
    int pid; /* 0: not given */
    bool json;
    mr_question question;
} arguments;

static const mr_usage_option words[] = {
    MR_WORD("status", NULL, "the summary so far, and for each stage the work of each device"),
    MR_WORD("disable", "DEVICE",
            "gives a device no more work. The other devices of its stages, or those in `on_device_error`, take over. "
            "Refused if a stage has no other device"),
    MR_WORD("enable", "DEVICE", "gives a device work again, also after it has failed"),
    MR_WORD("drain", NULL, "ends the sources and delivers frames in flight, as SIGTERM does"),
    MR_WORD("stop", NULL, "ends the run at once. Frames in flight are dropped and counted"),
    MR_WORD("log", "LEVEL", "sets how much is logged from now on: error, warning, info or debug"),
    MR_WORD("add", "ID KEY=VALUE...",
            "adds a source to a pipeline with `sources: {max: N}`. Options are those of its file. The source is proven "
            "first; if anything is wrong, nothing changes. Relative paths start in the run's working directory"),
    MR_WORD("set", "ID KEY=VALUE...",
            "changes options of a source and keeps the others. The source starts again"),
    MR_WORD("remove", "ID", "removes a source. Frames in flight are delivered"),
    MR_WORD("trigger", "ID",
            "makes `record` record now: the stage with this id, or all stages for the source with this id"),
    {.name = NULL},
};

static const mr_usage_option options[] = {
    MR_OPTION("control", "PATH", arguments, path, "the socket that `run --control PATH` has named"),
    MR_OPTION_NUMBER("pid", "PID", arguments, pid, 1, INT_MAX, "the run with this process id"),
    MR_OPTION("json", NULL, arguments, json, "prints the run's answer as it is, one JSON object"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"status", "--pid 4711 disable cuda:1", "log debug",
                                       "add door uri=door.mp4 every=10", "remove door", NULL};

static const mr_usage usage = {
    .verb = "ctl",
    .synopsis = "COMMAND",
    .help = "Shows the status of a run, and changes it while it runs, through its control socket. Without --control "
            "and --pid it takes the only run of this user.",
    .words = words,
    .options = options,
    .examples = examples,
};

/* ---- the command line ------------------------------------------------------------------------------------------ */

/* The run checks the rest of the request. */
static int check(const arguments *to) {
    const mr_question *question = &to->question;
    if (to->path && to->pid)
        return mr_usage_error(&usage, "give either --control or --pid, not both");
    if (mr_control_check(question->what, question->argument, false))
        return mr_usage_error(&usage, "%s", mr_message());
    if (question->option_count && mr_control_check(question->what, question->argument, true))
        return mr_usage_error(&usage, "one command at a time: unexpected \"%s\"", question->options[0]);
    for (size_t i = 0; i < question->option_count; i++)
        if (!strchr(question->options[i], '=') || question->options[i][0] == '=')
            return mr_usage_error(&usage, "%s takes options as KEY=VALUE, such as every=10, not \"%s\"",
                                  question->what, question->options[i]);
    return 0;
}

static bool parse(arguments *to, int argc, char **argv, int *code) {
    if (!mr_usage_take(&usage, argc, argv, to, code))
        return false;
    if (optind == argc)
        *code = mr_usage_error(&usage, "say what to do: status, disable, enable, drain, stop, log, add, set, "
                                       "remove or trigger");
    if (*code)
        return false;
    to->question = (mr_question){.what = argv[optind],
                                 .argument = optind + 1 < argc ? argv[optind + 1] : NULL,
                                 .option_count = optind + 2 < argc ? (size_t)(argc - optind - 2) : 0,
                                 .options = argv + optind + 2};
    *code = check(to);
    return !*code;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

/* Prints each line as text, so that control characters in the answer do not reach the terminal. */
static void print_lines(const char *text) {
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        mr_print(stdout, "%.*s\n", (int)length, text);
    }
}

/* Prints the answer for people; returns an exit code. */
static int tell(const arguments *from, const char *answer) {
    yajl_val tree;
    bool ok;
    int code = 0, status = mr_client_parse(answer, &tree, &ok);
    if (status)
        return mr_command_failed(status);
    yajl_val error = mr_json_member(tree, "error", yajl_t_string),
             text = mr_json_member(tree, "text", yajl_t_string),
             number = mr_json_member(tree, "exit_code", yajl_t_number);
    if (from->json)
        printf("%s\n", answer);
    else if (error && error->u.string)
        mr_print(stderr, "millrace: error: %s\n", error->u.string);
    else if (text && text->u.string)
        print_lines(text->u.string);
    if (!ok)
        code = YAJL_IS_INTEGER(number) ? (int)YAJL_GET_INTEGER(number) : mr_status_exit_code(MR_ERROR_INTERNAL);
    yajl_tree_free(tree);
    return code ? code : mr_flush_stdout();
}

static int run_verb(int argc, char **argv) {
    arguments given = {0};
    mr_client client;
    char *answer = NULL;
    int code = 0;
    if (!parse(&given, argc, argv, &code))
        return code;
    int status = mr_client_connect_only(given.path, (pid_t)given.pid, &client);
    if (status)
        return mr_status_exit_code(status);
    status = mr_client_ask(&client, &given.question, &answer);
    mr_client_close(&client);
    code = status ? mr_command_failed(status) : tell(&given, answer);
    free(answer);
    return code;
}

const mr_verb mr_ctl_verb = {&usage, "show the status of a run, and change it while it runs", run_verb};
