/* Writes a batch script: one step, with a task for each process. Each task determines which process it is (launch.h).
 * Slurm does not restart single tasks, so each task restarts the process in a loop. A failure that would recur ends the
 * job. */

#include <string.h>

#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/deploy/deploy_targets.h"

enum { MOST_RESTARTS = 5 /* of a task */ };

/* Quotes a shell word with single quotes, so that nothing is expanded. */
static void put_quoted(const char *word, FILE *file) {
    fputc('\'', file);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, file);
    fputc('\'', file);
}

static int put_word(void *context, const char *word) {
    fputc(' ', context);
    put_quoted(word, context);
    return 0;
}

static int count_tasks(const mr_plan_view *plan) {
    int tasks = 0;
    size_t count;
    const mr_view_node *nodes = mr_deploy_nodes(plan, &count);
    for (size_t n = 0; n < count; n++)
        tasks += nodes[n].replicas;
    return tasks;
}

static int most_gpus(const mr_plan_view *plan) {
    int most = 0;
    size_t count;
    mr_deploy_nodes(plan, &count);
    for (int n = 0; n < (int)count; n++) {
        int gpus = mr_deploy_gpus(plan, n);
        most = gpus > most ? gpus : most;
    }
    return most;
}

static void put_tasks(const mr_plan_view *plan, FILE *file) {
    int task = 0;
    for (size_t n = 0; n < plan->node_count; n++) {
        const mr_view_node *node = &plan->nodes[n];
        if (node->replicas == 1)
            fprintf(file, "#   task %d: %s\n", task, node->id);
        else
            fprintf(file, "#   tasks %d to %d: %s\n", task, task + node->replicas - 1, node->id);
        task += node->replicas;
    }
}

/* Nodes without an address use socket files, which work on one machine only. */
static bool is_on_one_machine(const mr_plan_view *plan) {
    for (size_t n = 0; n < plan->node_count; n++)
        if (plan->nodes[n].listen && strncmp(plan->nodes[n].listen, "ipc:", 4) == 0)
            return true;
    return false;
}

/* The indices of tasks that keep a checkpoint, each between blanks. */
static void put_resuming_tasks(const mr_plan_view *plan, FILE *file) {
    int task = 0;
    size_t count;
    const mr_view_node *nodes = mr_deploy_nodes(plan, &count);
    fputc(' ', file);
    for (size_t n = 0; n < count; n++)
        for (int r = 0; r < nodes[n].replicas; r++, task++)
            if (mr_plan_resumes(plan, (int)n))
                fprintf(file, "%d ", task);
}

/* The job's checkpoint folder survives requeueing. It is removed once the run has ended, unless somebody asked the run
 * to end early. */
static void put_state(const mr_deployment *of, FILE *file) {
    if (of->checkpoints) {
        fputs("state=", file);
        put_quoted(of->checkpoints, file);
        fputs("\nstate=${MILLRACE_STATE:-$state}\n", file);
    } else
        fprintf(file, "state=${MILLRACE_STATE:-$PWD/%s-$SLURM_JOB_ID.state}\n", of->name);
    fputs("case \" $*\" in\n"
          "*\" --resume\"*) echo \"each task keeps a checkpoint in $state; MILLRACE_STATE names another folder\" >&2\n"
          "    exit 64 ;;\n"
          "esac\n"
          "mkdir -p \"$state\"\n"
          "rm -f \"$state/asked\" \"$state/failed\"\n", file);
}

/* Each task keeps a line in the folder: its state or exit code, how often it was started again, and its machine. */
static void put_notes(const mr_deployment *of, FILE *file) {
    fputs("export notes=", file);
    put_quoted(of->notes, file);
    fputs("\nmkdir -p \"$notes\"\nrm -f \"$notes\"/*\n", file);
}

/* A task's loop. $0 is the checkpoint folder, "$@" the command. Slurm's signals must also reach the command. */
static void put_task(const mr_deployment *of, FILE *file) {
    fputs("task='\n", file);
    if (of->trains)
        fputs("more=(${SLURM_RESTART_COUNT:+--resume})\n", file);
    else {
        fputs("more=()\ncase \"", file);
        put_resuming_tasks(of->plan, file);
        fputs("\" in *\" $SLURM_PROCID \"*) more=(--resume \"$0/$SLURM_PROCID.checkpoint\") ;; esac\n", file);
    }
    fputs(of->notes ? "note() {\n"
                      "    echo \"$1 $tries $SLURMD_NODENAME\" >\"$notes/.$SLURM_PROCID\" &&\n"
                      "        mv \"$notes/.$SLURM_PROCID\" \"$notes/$SLURM_PROCID\"\n"
                      "}\n"
                    : "note() { :; }\n", file);
    fputs("asked= tries=0\n"
          "trap \"asked=yes\" TERM INT\n"
          "while :; do\n"
          "    note running\n"
          "    status=0\n"
          "    \"$@\" \"${more[@]}\" || status=$?\n", file);
    if (!of->trains)
        fputs("    [ -z \"$asked\" ] || : >\"$0/asked\"\n", file);
    fprintf(file, "    [ -z \"$asked\" ] && [ $status -gt 128 ] && [ $tries -lt %d ] || {\n"
                  "        note $status\n"
                  "%s"
                  "        exit $status\n"
                  "    }\n"
                  "    tries=$((tries + 1))\n", of->on_death == MR_DEATH_ENDS ? 0 : MOST_RESTARTS,
            of->trains ? "" : "        [ -n \"$asked\" ] || [ $status = 0 ] || echo $status >\"$0/failed\"\n");
    fputs(
          "    echo \"task $SLURM_PROCID was ended by signal $((status - 128)): it is started again\" >&2\n", file);
    if (of->trains)
        fputs("    more=(--resume)\n", file);
    fputs("done'\n", file);
}

int mr_deploy_slurm(const mr_deployment *of) {
    const mr_plan_view *plan = of->plan;
    mr_deploy_file script;
    int status = mr_deploy_open(of, &script, "%s.sbatch", of->name);
    if (status)
        return status;
    FILE *file = script.stream;
    fprintf(file, "#!/bin/bash\n"
                  "# Made by \"millrace deploy\" from %s: sbatch %s.sbatch\n", of->path, of->name);
    if (of->trains)
        fprintf(file, "# After an interruption: sbatch %s.sbatch --resume\n", of->name);
    put_tasks(plan, file);
    fprintf(file, "#SBATCH --job-name=%s\n#SBATCH --ntasks=%d\n", of->name, count_tasks(plan));
    if (is_on_one_machine(plan))
        fputs("#SBATCH --nodes=1\n", file);
    if (plan->asked_workers)
        fprintf(file, "#SBATCH --cpus-per-task=%d\n", plan->asked_workers);
    if (most_gpus(plan))
        fprintf(file, "#SBATCH --gpus-per-task=%d\n", most_gpus(plan));
    /* Delivers frames in flight if the job is cancelled or reaches the time limit. */
    fputs("#SBATCH --signal=TERM@60\n"
          "set -eu\n"
          "export MILLRACE_RUN=$(printf '%016x' \"$SLURM_JOB_ID\")\n"
          "export MILLRACE_RUNTIME=\"${TMPDIR:-/tmp}/millrace-$SLURM_JOB_ID\"\n",
          file);
    if (!of->trains)
        put_state(of, file);
    if (of->notes)
        put_notes(of, file);
    put_task(of, file);
    fprintf(file, "status=0\nsrun --export=ALL --kill-on-bad-exit=1 --distribution=block bash -c \"$task\" %s",
            of->trains ? "task" : "\"$state\"");
    put_word(file, of->command);
    status = mr_deploy_words(of, of->path, put_word, file);
    /* Tasks on one machine cannot have the same address. */
    if (plan->node_count && mr_plan_view_http(plan)->listen)
        fputs(" --set http.listen=off", file);
    /* The words that follow the script on sbatch's command line. */
    fputs(" \"$@\" || status=$?\n", file);
    /* srun's code may be that of a task which Slurm has killed after another had failed. */
    if (!of->trains)
        fputs("[ ! -e \"$state/failed\" ] || status=$(cat \"$state/failed\")\n"
              "[ $status != 0 ] || [ -e \"$state/asked\" ] || rm -rf \"$state\"\n", file);
    fputs("exit $status\n", file);
    int closed = mr_deploy_close(&script);
    return status ? status : closed;
}
