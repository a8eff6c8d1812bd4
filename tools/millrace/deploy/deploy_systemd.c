/* Units: a service for each node, a template if several processes run it, and a target for all of them. */
#include <stdlib.h>
#include <string.h>

#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/deploy/deploy.h"

/* Exit codes after which another start would fail again: usage, data, input, permission, pipeline. */
#define FINAL_EXITS "64 65 66 77 78"

/* The longest name of a unit, and the longest line of one, that systemd reads. */
enum { MOST_NAME = 255, MOST_LINE = (1 << 20) - 1 };

/* In quotes. The letters of `doubled` are special to systemd and written twice; % begins a specifier everywhere. */
static void put_quoted(const char *text, const char *doubled, FILE *file) {
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        if (strchr(doubled, *text))
            fputc(*text, file);
        fputc(*text, file);
    }
    fputc('"', file);
}

/* An argument of ExecStart. Variables are expanded in arguments, but not in the path of the command. */
static int put_word(void *context, const char *word) {
    fputc(' ', context);
    put_quoted(word, "%$", context);
    return 0;
}

/* A text for people only. The quotes keep blanks, and a backslash, which at the end of a line would continue it.
 * systemd does not parse them here: nothing within them is escaped but %. */
static void put_description(const mr_deployment *of, FILE *file) {
    fputs("the millrace pipeline \"", file);
    for (const char *at = of->plan->name; *at; at++)
        fputs(*at == '%' ? "%%" : (char[]){*at, 0}, file);
    fputc('"', file);
}

/* ---- a node ---------------------------------------------------------------------------------------------------- */

/* A service that failed and is started again goes on where it was; one that has ended in order begins anew. */
static void put_checkpoint(const mr_deployment *of, const mr_view_node *node, FILE *file) {
    const char *of_process = node->replicas > 1 ? ".%i" : "";
    if (!mr_plan_resumes(of->plan, (int)(node - of->plan->nodes))) {
        fputc('\n', file);
        return;
    }
    fprintf(file, " --resume %%t/millrace-%s/%s%s.checkpoint\n", of->name, node->id, of_process);
    fprintf(file, "ExecStopPost=-/bin/sh -c 'test \"$$SERVICE_RESULT\" != success || "
                  "rm -f %%t/millrace-%s/%s%s.checkpoint'\n", of->name, node->id, of_process);
}

/* "ExecStart=" up to the last override, which is as long as the command line of `deploy` was. */
static int put_command(const mr_deployment *of, FILE *file) {
    char *line = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&line, &bytes);
    if (!stream)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    fputs("ExecStart=", stream);
    put_quoted(of->command, "%", stream);
    int status = mr_deploy_words(of, of->path, put_word, stream);
    if (fclose(stream) && !status)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    /* The node and the checkpoint follow, which have names of bounded length. */
    if (!status && bytes > MOST_LINE - 4 * MOST_NAME)
        status = mr_fail(MR_ERROR_USAGE, "a command of %zu bytes is longer than systemd reads: write what --set and "
                         "--input give into the pipeline", bytes);
    if (!status)
        fwrite(line, 1, bytes, file);
    free(line);
    return status;
}

static int put_service(const mr_deployment *of, const mr_view_node *node, FILE *file) {
    fprintf(file, "# Made by \"millrace deploy\" from %s.\n"
                  "[Unit]\n"
                  "Description=Node %s of ", of->path, node->id);
    put_description(of, file);
    fprintf(file, "%s\n"
                  "PartOf=%s.target\n"
                  "After=network-online.target\nWants=network-online.target\n"
                  "StartLimitIntervalSec=60\nStartLimitBurst=5\n\n"
                  "[Service]\n"
                  "Type=notify\nWatchdogSec=30\n", node->replicas > 1 ? ", process %i" : "", of->name);
    int status = put_command(of, file);
    fprintf(file, " --node %s%s", node->id, node->replicas > 1 ? " --replica %i" : "");
    put_checkpoint(of, node, file);
    fputs("ExecReload=/bin/kill -HUP $MAINPID\n", file);
    fprintf(file, "Environment=MILLRACE_RUN=%s MILLRACE_RUNTIME=%%t/millrace-%s\n"
                  "RuntimeDirectory=millrace-%s\nRuntimeDirectoryMode=0700\nRuntimeDirectoryPreserve=yes\n"
                  "Restart=on-failure\nRestartSec=1\nRestartPreventExitStatus=" FINAL_EXITS "\n"
                  "TimeoutStopSec=15\nNoNewPrivileges=yes\n\n"
                  "[Install]\nWantedBy=%s.target\n", of->run, of->name, of->name, of->name);
    return status;
}

static int write_service(const mr_deployment *of, const mr_view_node *node) {
    mr_deploy_file unit;
    int status = mr_deploy_open(of, &unit, "%s-%s%s.service", of->name, node->id, node->replicas > 1 ? "@" : "");
    if (status)
        return status;
    status = put_service(of, node, unit.stream);
    int closed = mr_deploy_close(&unit);
    return status ? status : closed;
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static int check(const mr_deployment *of) {
    if (strpbrk(of->command, "\"'\\"))
        return mr_fail(MR_ERROR_USAGE, "--command: systemd takes no path with quotes or backslashes: %s", of->command);
    for (size_t n = 0; n < of->plan->node_count; n++) {
        const mr_view_node *node = &of->plan->nodes[n];
        int bytes = snprintf(NULL, 0, "%s-%s.service", of->name, node->id);
        if (node->replicas > 1)
            bytes += snprintf(NULL, 0, "@%d", node->replicas - 1);
        if (bytes > MOST_NAME)
            return mr_fail(MR_ERROR_CONFIG,
                           "nodes.%s: its unit would have a name of %d bytes, and systemd takes %d: give the "
                           "pipeline a shorter name", node->id, bytes, MOST_NAME);
    }
    return MR_OK;
}

static int write_target(const mr_deployment *of) {
    mr_deploy_file unit;
    int status = mr_deploy_open(of, &unit, "%s.target", of->name);
    if (status)
        return status;
    FILE *file = unit.stream;
    fprintf(file, "# Made by \"millrace deploy\" from %s.\n"
                  "[Unit]\nDescription=", of->path);
    put_description(of, file);
    fputs("\nWants=", file);
    for (size_t n = 0; n < of->plan->node_count; n++) {
        const mr_view_node *node = &of->plan->nodes[n];
        for (int r = 0; r < node->replicas && node->replicas > 1; r++)
            fprintf(file, "%s-%s@%d.service ", of->name, node->id, r);
        if (node->replicas == 1)
            fprintf(file, "%s-%s.service ", of->name, node->id);
    }
    fputs("\n\n[Install]\nWantedBy=multi-user.target\n", file);
    return mr_deploy_close(&unit);
}

int mr_deploy_systemd(const mr_deployment *of) {
    int status = check(of);
    if (!status)
        status = write_target(of);
    for (size_t n = 0; n < of->plan->node_count && !status; n++)
        status = write_service(of, &of->plan->nodes[n]);
    return status;
}
