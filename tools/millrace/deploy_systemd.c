/* Units: a service for each node, a template where several processes run it, and a target for all of them. */

#include "tools/millrace/deploy.h"
#include "tools/millrace/run_nodes.h"

/* How a service ends that another start would not mend: usage, data, input, permission, pipeline. */
#define FINAL_EXITS "64 65 66 77 78"

/* A word of ExecStart: in quotes, where % and $ mean nothing. */
static void put_word(void *context, const char *word) {
    FILE *file = context;
    fputs(" \"", file);
    for (; *word; word++) {
        if (*word == '"' || *word == '\\')
            fputc('\\', file);
        if (*word == '%' || *word == '$')
            fputc(*word, file);
        fputc(*word, file);
    }
    fputc('"', file);
}

/* A service that failed and is started again goes on where it was; one that has ended in order begins anew. */
static void put_checkpoint(const mr_deployment *of, const mr_plan_node *node, FILE *file) {
    char path[512];
    const char *of_process = node->replicas > 1 ? ".%i" : "";
    if (!mr_run_resumes(of->plan, (int)(node - of->plan->nodes))) {
        fputc('\n', file);
        return;
    }
    snprintf(path, sizeof path, "%%t/millrace-%s/%s%s.checkpoint", of->name, node->id, of_process);
    fprintf(file, " --resume %s\n"
                  "ExecStopPost=-/bin/sh -c 'test \"$$SERVICE_RESULT\" != success || rm -f %s'\n", path, path);
}

static void put_service(const mr_deployment *of, const mr_plan_node *node, FILE *file) {
    fprintf(file, "# Made by \"millrace deploy\" from %s.\n"
                  "[Unit]\n"
                  "Description=Node %s of the millrace pipeline %s%s\n"
                  "PartOf=%s.target\n"
                  "After=network-online.target\nWants=network-online.target\n"
                  "StartLimitIntervalSec=60\nStartLimitBurst=5\n\n"
                  "[Service]\n"
                  "Type=notify\nWatchdogSec=30\n"
                  "ExecStart=", of->path, node->id, of->plan->name, node->replicas > 1 ? ", process %i" : "", of->name);
    put_word(file, of->command);
    mr_deploy_words(of, of->path, put_word, file);
    fprintf(file, " --node %s%s", node->id, node->replicas > 1 ? " --replica %i" : "");
    put_checkpoint(of, node, file);
    fprintf(file, "Environment=MILLRACE_RUN=%s MILLRACE_RUNTIME=%%t/millrace-%s\n"
                  "RuntimeDirectory=millrace-%s\nRuntimeDirectoryMode=0700\nRuntimeDirectoryPreserve=yes\n"
                  "Restart=on-failure\nRestartSec=1\nRestartPreventExitStatus=" FINAL_EXITS "\n"
                  "TimeoutStopSec=15\nNoNewPrivileges=yes\n\n"
                  "[Install]\nWantedBy=%s.target\n", of->run, of->name, of->name, of->name);
}

static int write_service(const mr_deployment *of, const mr_plan_node *node) {
    char name[256];
    snprintf(name, sizeof name, "%s-%s%s.service", of->name, node->id, node->replicas > 1 ? "@" : "");
    FILE *file = mr_deploy_open(of, name);
    if (!file)
        return MR_ERROR_IO;
    put_service(of, node, file);
    return mr_deploy_close(file, name);
}

int mr_deploy_systemd(const mr_deployment *of) {
    char name[256];
    snprintf(name, sizeof name, "%s.target", of->name);
    FILE *file = mr_deploy_open(of, name);
    if (!file)
        return MR_ERROR_IO;
    fprintf(file, "# Made by \"millrace deploy\" from %s.\n"
                  "[Unit]\nDescription=The millrace pipeline %s\nWants=", of->path, of->plan->name);
    for (size_t n = 0; n < of->plan->node_count; n++) {
        const mr_plan_node *node = &of->plan->nodes[n];
        for (int r = 0; r < node->replicas && node->replicas > 1; r++)
            fprintf(file, "%s-%s@%d.service ", of->name, node->id, r);
        if (node->replicas == 1)
            fprintf(file, "%s-%s.service ", of->name, node->id);
    }
    fputs("\n\n[Install]\nWantedBy=multi-user.target\n", file);
    int status = mr_deploy_close(file, name);
    for (size_t n = 0; n < of->plan->node_count && !status; n++)
        status = write_service(of, &of->plan->nodes[n]);
    return status;
}
