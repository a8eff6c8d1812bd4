#include "tools/millrace/run/progress.h"
#include "tools/millrace/run/run_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static bool writes_stdout(const mr_plan_view *plan) {
    for (size_t i = 0; i < plan->file_count; i++)
        if (plan->files[i].option->file == MR_FILE_WRITTEN && strcmp(plan->files[i].path, "-") == 0)
            return true;
    return false;
}

void mr_run_command_add(mr_run_command *command, const char *option, const char *value) {
    enum { MOST = sizeof command->words / sizeof *command->words - 1 };
    char *word = NULL;
    if (command->count < MOST && (value ? asprintf(&word, "%s=%s", option, value) : asprintf(&word, "%s", option)) >= 0)
        command->words[command->count++] = word;
}

void mr_run_command_write(mr_run_command *command, const char *verb, const char *threads,
                          const mr_run_arguments *from) {
    char workers[16];
    const mr_overrides *overrides = &from->overrides;
    mr_run_command_add(command, "millrace", NULL);
    mr_run_command_add(command, verb, NULL);
    for (size_t i = 0; i < overrides->override_count; i++) {
        char *text = NULL;
        if (asprintf(&text, "%s=%s", overrides->override[i].key, overrides->override[i].value) >= 0)
            mr_run_command_add(command, "--set", text);
        free(text);
    }
    for (size_t i = 0; i < overrides->inputs.count; i++)
        mr_run_command_add(command, "--input", overrides->inputs.item[i]);
    if (overrides->force)
        mr_run_command_add(command, "--force", NULL);
    if (overrides->no_plugins)
        mr_run_command_add(command, "--no-plugins", NULL);
    for (const mr_types_plugin *plugin = mr_types_plugins(); plugin->given; plugin++)
        mr_run_command_add(command, "--plugin", plugin->path);
    if (overrides->output)
        mr_run_command_add(command, "--output", overrides->output);
    snprintf(workers, sizeof workers, "%d", from->overrides.workers);
    if (from->overrides.workers)
        mr_run_command_add(command, threads, workers);
    if (from->audit)
        mr_run_command_add(command, "--audit", from->audit);
    if (from->log)
        mr_run_command_add(command, "--log", from->log);
    if (from->grace)
        mr_run_command_add(command, "--grace", from->grace);
    if (from->check_stages)
        mr_run_command_add(command, "--check-stages", NULL);
    mr_run_command_add(command, from->path, NULL);
}

void mr_run_command_fini(mr_run_command *command) {
    for (size_t i = 0; i < command->count; i++)
        free(command->words[i]);
}

static int refuse(const char *why) {
    mr_fail(MR_ERROR_USAGE, "%s", why);
    return mr_command_failed(MR_ERROR_USAGE);
}

int mr_run_supervise(const mr_run_arguments *from, const mr_plan_view *plan) {
    mr_run_command command = {0};
    bool taken = writes_stdout(plan);
    if (strcmp(from->path, "-") == 0)
        return refuse("each node reads the pipeline: save it to a file");
    if (from->trace)
        return refuse("--trace is for one process: use it with --node");
    mr_run_command_write(&command, "run", "--workers", from);
    const mr_supervision how = {
        .plan = plan,
        .command = (const char *const *)command.words,
        .resume = from->resume,
        .control = from->control,
        .serves = true,
        .quiet = from->quiet,
        .json = from->json,
        .loss = from->loss,
        .show = !from->quiet && mr_progress_suits_terminal() && !(taken && isatty(STDOUT_FILENO)),
        .json_stream = taken ? stderr : stdout,
    };
    int code = mr_supervise(&how);
    mr_run_command_fini(&command);
    return code;
}
