#include "tools/millrace/run/progress.h"
#include "tools/millrace/run/run_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/run/supervisor.h"

void mr_run_choose_node(const mr_run_arguments *from, mr_pipeline_params *params) {
    params->cuts = !from->one_process;
    params->node = from->node;
    params->replica = from->replica;
    if (!from->node && from->launch.by) {
        params->node = from->launch.node;
        params->replica = from->launch.replica;
        params->process = from->launch.process;
        params->processes = from->launch.node ? 0 : from->launch.processes;
    }
    params->host_count = from->launch.host_count;
    params->hosts = (const char *const *)from->launch.hosts;
}

/* True if a stage of the plan writes to standard output. */
static void look_for_stdout(void *context, const mr_view_stage *vertex, const mr_option *option, const char *path) {
    bool *found = context;
    (void)vertex;
    *found = *found || (option->file == MR_FILE_WRITTEN && strcmp(path, "-") == 0);
}

static bool writes_stdout(const mr_plan_view *plan) {
    bool found = false;
    for (int n = 0; n < (int)plan->node_count; n++)
        mr_plan_files(plan, n, look_for_stdout, &found);
    return found;
}

/* The command line of each child: that of this process, without the options that are not for all of them. */
typedef struct child_command {
    char *words[2048];
    size_t count;
} child_command;

static void add_word(child_command *command, const char *option, const char *value) {
    enum { MOST = sizeof command->words / sizeof *command->words - 1 };
    char *word = NULL;
    if (command->count < MOST && (value ? asprintf(&word, "%s=%s", option, value) : asprintf(&word, "%s", option)) >= 0)
        command->words[command->count++] = word;
}

static void write_command(child_command *command, const mr_run_arguments *from) {
    char workers[16];
    const mr_overrides *overrides = &from->overrides;
    add_word(command, "millrace", NULL);
    add_word(command, "run", NULL);
    for (size_t i = 0; i < overrides->override_count; i++) {
        char *text = NULL;
        if (asprintf(&text, "%s=%s", overrides->override[i].key, overrides->override[i].value) >= 0)
            add_word(command, "--set", text);
        free(text);
    }
    for (size_t i = 0; i < overrides->input_count; i++)
        add_word(command, "--input", overrides->input[i]);
    if (overrides->no_plugins)
        add_word(command, "--no-plugins", NULL);
    for (const mr_types_plugin *plugin = mr_types_plugins(); plugin->given; plugin++)
        add_word(command, "--plugin", plugin->path);
    if (overrides->output)
        add_word(command, "--output", overrides->output);
    snprintf(workers, sizeof workers, "%d", from->overrides.workers);
    if (from->overrides.workers)
        add_word(command, "--workers", workers);
    if (from->audit)
        add_word(command, "--audit", from->audit);
    if (from->log)
        add_word(command, "--log", from->log);
    if (from->grace)
        add_word(command, "--grace", from->grace);
    add_word(command, from->path, NULL);
}

static int refuse(const char *why) {
    mr_fail(MR_ERROR_USAGE, "%s", why);
    return mr_command_failed(MR_ERROR_USAGE);
}

int mr_run_supervise(const mr_run_arguments *from, const mr_plan_view *plan) {
    child_command command = {0};
    bool taken = writes_stdout(plan);
    if (strcmp(from->path, "-") == 0)
        return refuse("each node reads the pipeline: save it to a file");
    if (from->trace)
        return refuse("--trace is for one process: use it with --node");
    write_command(&command, from);
    const mr_supervision how = {
        .plan = plan,
        .command = (const char *const *)command.words,
        .resume = from->resume,
        .control = from->control,
        .quiet = from->quiet,
        .json = from->json,
        .loss = from->loss,
        .show = !from->quiet && mr_progress_suits_terminal() && !(taken && isatty(STDOUT_FILENO)),
        .json_stream = taken ? stderr : stdout,
    };
    int code = mr_supervise(&how);
    for (size_t i = 0; i < command.count; i++)
        free(command.words[i]);
    return code;
}
