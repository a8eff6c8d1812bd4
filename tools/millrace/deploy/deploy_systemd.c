/* Writes units: a service for each node, or a template if several processes run it, and a target for all nodes. A
 * pipeline without nodes gets one service. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/print.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/deploy/deploy_targets.h"

/* Exit codes after which a restart would fail again: usage, data, input, permission, pipeline. */
#define FINAL_EXITS "64 65 66 77 78"

/* Start: TensorRT makes engines for minutes, and a run that resumes reads its files; systemd would allow 90 s. End:
 * longer than the run's own limits, so that it can say which call does not return. */
#define TIMES "TimeoutStartSec=15min\nTimeoutStopSec=25\n"

/* systemd's limits for a unit's name and for a line in a unit. */
enum { MOST_NAME = 255, MOST_LINE = (1 << 20) - 1 };

/* Writes a quoted text. Letters in `doubled` are special to systemd and must be doubled; % begins a specifier
 * everywhere. */
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

/* Writes an ExecStart argument. systemd expands variables in arguments, but not in the command's path. */
static int put_word(void *context, const char *word) {
    fputc(' ', context);
    put_quoted(word, "%$", context);
    return 0;
}

/* Writes a text for people only. The quotes keep blanks. They also keep a backslash, which would continue the line at
 * the end. systemd does not parse quotes here, so only % is escaped. */
static void put_description(const mr_deployment *of, FILE *file) {
    fputs("the millrace pipeline \"", file);
    for (const char *at = of->plan->name; *at; at++)
        fputs(*at == '%' ? "%%" : (char[]){*at, 0}, file);
    fputc('"', file);
}

/* ---- a service ------------------------------------------------------------------------------------------------- */

/* A service that failed continues from where it was when restarted; one that ended normally begins again. */
static void put_checkpoint(const mr_deployment *of, const mr_view_node *node, FILE *file) {
    const char *name = node ? node->id : "run", *of_process = node && node->replicas > 1 ? ".%i" : "";
    if (!mr_plan_resumes(of->plan, node ? (int)(node - of->plan->nodes) : 0)) {
        fputc('\n', file);
        return;
    }
    fprintf(file, " --resume %%S/millrace-%s/%s%s.checkpoint\n", of->name, name, of_process);
    fprintf(file, "ExecStopPost=-/bin/sh -c 'test \"$$SERVICE_RESULT\" != success || "
                  "rm -f %%S/millrace-%s/%s%s.checkpoint'\n", of->name, name, of_process);
}

/* Writes "ExecStart=" up to the last override; it is as long as `deploy`'s command line. */
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
    /* The node and the checkpoint follow; their names have bounded length. */
    if (!status && bytes > MOST_LINE - 4 * MOST_NAME)
        status = mr_fail(MR_ERROR_USAGE, "a command of %zu bytes is longer than systemd reads: write what --set and "
                         "--input give into the pipeline", bytes);
    if (!status)
        fwrite(line, 1, bytes, file);
    free(line);
    return status;
}

/* The parts that all units of a pipeline share. */
typedef struct units {
    const mr_deployment *of;
    char *environment; /* the file with variables; NULL: none */
} units;

static void put_head(const units *u, const mr_view_node *node, FILE *file) {
    const mr_deployment *of = u->of;
    fprintf(file, "# Made by \"millrace deploy\" from %s.\n[Unit]\nDescription=", of->path);
    if (node)
        fprintf(file, "Node %s of ", node->id);
    put_description(of, file);
    fputs(node && node->replicas > 1 ? ", process %i\n" : "\n", file);
    /* A node that has failed for good ends the others, which would wait for it. */
    if (node)
        fprintf(file, "PartOf=%s.target\nOnFailure=%s-end.target\n", of->name, of->name);
    fputs("After=network-online.target\nWants=network-online.target\n"
          "StartLimitIntervalSec=60\nStartLimitBurst=5\n\n"
          "[Service]\nType=notify\nWatchdogSec=30\n", file);
}

/* Writes a path; % begins a specifier. systemd drops a line's last blanks, and a last backslash continues the line: a
 * folder whose name ends so gets a slash. */
static void put_path(const char *key, const char *path, FILE *file) {
    char last = 0;
    fputs(key, file);
    for (const char *at = path; *at; at++) {
        fputs(*at == '%' ? "%%" : (char[]){*at, 0}, file);
        last = *at;
    }
    fputs(last == ' ' || last == '\\' ? "/\n" : "\n", file);
}

/* Relative paths in --input and --set start from this folder, unless it is gone. */
static void put_surroundings(const units *u, FILE *file) {
    char *here = getcwd(NULL, 0);
    if (here)
        put_path("WorkingDirectory=-", here, file);
    if (u->environment)
        put_path("EnvironmentFile=", u->environment, file);
    free(here);
}

/* What a run never needs. These need no rights, so they also hold for a user's own services. */
static const char confined[] = "NoNewPrivileges=yes\nLockPersonality=yes\nRestrictNamespaces=yes\n"
                               "RestrictRealtime=yes\nRestrictSUIDSGID=yes\nSystemCallArchitectures=native\n"
                               "SystemCallFilter=@system-service\nSystemCallErrorNumber=EPERM\n"
                               "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n";
/* The system's services can have these too. Files of other users stay readable, and low ports usable. */
static const char confined_system[] =
    "CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_CHOWN CAP_FOWNER CAP_NET_BIND_SERVICE\n"
    "ProtectSystem=full\nProtectClock=yes\nProtectHostname=yes\nProtectKernelLogs=yes\nProtectKernelModules=yes\n"
    "ProtectKernelTunables=yes\nProtectControlGroups=yes\nProtectProc=invisible\nKeyringMode=private\n"
    "RemoveIPC=yes\n";

/* A pipeline with one process needs no socket folder, and puts the control socket where `ctl` looks. */
static void put_rest(const units *u, const mr_view_node *node, FILE *file) {
    const char *name = u->of->name;
    put_surroundings(u, file);
    if (node)
        fprintf(file, "Environment=MILLRACE_RUN=%s MILLRACE_RUNTIME=%%t/millrace-%s\n"
                      "RuntimeDirectory=millrace-%s\nRuntimeDirectoryMode=0700\nRuntimeDirectoryPreserve=yes\n",
                u->of->run, name, name);
    fprintf(file, "StateDirectory=millrace-%s\nStateDirectoryMode=0700\n"
                  "Restart=%s\nRestartSec=1\nRestartPreventExitStatus=" FINAL_EXITS "\n"
                  TIMES "%s%s\n"
                  "[Install]\nWantedBy=%s.target\n", name, u->of->on_death == MR_DEATH_ENDS ? "no" : "on-failure",
            confined, geteuid() == 0 ? confined_system : "", node ? name : "multi-user");
}

/* Several nodes on one machine cannot have the address in the pipeline: each has a socket in the runtime folder. */
static void put_http(const mr_deployment *of, const mr_view_node *node, FILE *file) {
    if (node && mr_plan_view_http(of->plan)->listen)
        fprintf(file, " --set http.listen=unix:%%t/millrace-%s/%s%s.http",
                of->name, node->id, node->replicas > 1 ? ".%i" : "");
}

/* node NULL: for a pipeline without nodes. */
static int put_service(const units *u, const mr_view_node *node, FILE *file) {
    put_head(u, node, file);
    int status = put_command(u->of, file);
    if (node)
        fprintf(file, " --node %s%s", node->id, node->replicas > 1 ? " --replica %i" : "");
    put_http(u->of, node, file);
    put_checkpoint(u->of, node, file);
    fputs("ExecReload=/bin/kill -HUP $MAINPID\n", file);
    put_rest(u, node, file);
    return status;
}

static int write_service(const units *u, const mr_view_node *node) {
    mr_deploy_file unit;
    int status = node ? mr_deploy_open(u->of, &unit, "%s-%s%s.service", u->of->name, node->id,
                                       node->replicas > 1 ? "@" : "")
                      : mr_deploy_open(u->of, &unit, "%s.service", u->of->name);
    if (status)
        return status;
    status = put_service(u, node, unit.stream);
    int closed = mr_deploy_close(&unit);
    return status ? status : closed;
}

/* ---- all of them ----------------------------------------------------------------------------------------------- */

static int check_here(void) {
    char *here = getcwd(NULL, 0);
    int status = MR_OK;
    if (here && !mr_printable(here))
        status = mr_fail(MR_ERROR_USAGE, "the path of this folder, \"%s\", holds a control character, or bytes that "
                         "are not UTF-8: units cannot name it, and relative paths would begin elsewhere; run the "
                         "command in another one", here);
    free(here);
    return status;
}

static int check(const mr_deployment *of) {
    if (strpbrk(of->command, "\"'\\"))
        return mr_fail(MR_ERROR_USAGE, "--command: systemd takes no path with quotes or backslashes: %s", of->command);
    int status = check_here();
    if (status)
        return status;
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

/* Starting it stops the pipeline's target, and its services with it. */
static int write_end(const mr_deployment *of) {
    mr_deploy_file unit;
    int status = mr_deploy_open(of, &unit, "%s-end.target", of->name);
    if (status)
        return status;
    fprintf(unit.stream, "# Made by \"millrace deploy\" from %s.\n[Unit]\nDescription=The end of ", of->path);
    put_description(of, unit.stream);
    fprintf(unit.stream, "\nConflicts=%s.target\n", of->name);
    return mr_deploy_close(&unit);
}

int mr_deploy_systemd(const mr_deployment *of) {
    units u = {.of = of};
    int status = check(of);
    if (!status)
        status = mr_deploy_environment(of, &u.environment);
    if (!status && of->plan->node_count)
        status = write_target(of);
    if (!status && of->plan->node_count)
        status = write_end(of);
    for (size_t n = 0; n < of->plan->node_count && !status; n++)
        status = write_service(&u, &of->plan->nodes[n]);
    if (!status && !of->plan->node_count)
        status = write_service(&u, NULL);
    free(u.environment);
    return status;
}
