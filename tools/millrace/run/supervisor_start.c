/* Starts the nodes' processes in a common environment. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/print.h"
#include "tools/millrace/run/run_report.h"
#include "tools/millrace/run/supervisor_parts.h"

/* Makes an option with a separate file for each node. */
static const char *of_node(const char *option, const char *path, const mr_child *child) {
    char *text = NULL;
    if (asprintf(&text, strcmp(path, "off") == 0 ? "%s=%s" : "%s=%s.%s", option, path, child->name) < 0)
        _exit(mr_status_exit_code(MR_ERROR_MEMORY));
    return text;
}

/* Sets a number, unless it is set already, so that consumers can distinguish a producer's runs. */
static int set_run(void) {
    uint64_t run;
    char text[32];
    if (getrandom(&run, sizeof run, 0) != (ssize_t)sizeof run)
        return mr_fail(MR_ERROR_INTERNAL, "no random number for the run: %s", strerror(errno));
    snprintf(text, sizeof text, "%016llx", (unsigned long long)run);
    const char *given = getenv("MILLRACE_RUN");
    setenv("MILLRACE_RUN", text, given && !*given);
    return MR_OK;
}

/* A child must get no signals from the terminal, not even one that came while it was still in the terminal's group. */
static void leave_terminal(void) {
    static const int sent[] = {SIGINT, SIGHUP};
    sigset_t hangup;
    setpgid(0, 0);
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        struct sigaction before;
        if (!sigaction(sent[i], NULL, &before) && signal(sent[i], SIG_IGN) != SIG_ERR) /* this drops pending ones */
            sigaction(sent[i], &before, NULL);
    }
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP); /* a reload request waits until the node takes signals */
    sigprocmask(SIG_SETMASK, &hangup, NULL);
}

/* Runs in the child; never returns. If the supervisor is killed, the child must be killed too. Otherwise it would hold
 * files that the next run writes, and write checkpoints that the next run has read. */
static void become(const mr_supervisor *s, const mr_child *child, int report) {
    char replica[16], fd[16], epoch[16], written[MR_TEMP_FOLDER_PATH + sizeof child->name];
    size_t count = 0;
    while (s->how->command[count])
        count++;
    const char **command = calloc(count + 7, sizeof *command);
    if (!command)
        _exit(mr_status_exit_code(MR_ERROR_MEMORY));
    memcpy(command, s->how->command, count * sizeof *command);
    snprintf(replica, sizeof replica, "%d", child->replica);
    snprintf(fd, sizeof fd, "%d", report);
    command[count++] = "--node";
    command[count++] = mr_supervisor_node(s, child)->id;
    command[count++] = "--replica";
    command[count++] = replica;
    if (child->resumes)
        command[count++] = of_node("--resume", s->how->resume ? s->how->resume : s->checkpoint, child);
    if (s->how->control)
        command[count] = of_node("--control", s->how->control, child);
    leave_terminal();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != s->self)
        _exit(mr_status_exit_code(MR_ERROR_CANCELLED));
    setenv(MR_REPORT_VARIABLE, fd, 1);
    if (child->resumes && !s->how->resume) {
        snprintf(written, sizeof written, "%s/%s", s->temp.folder, child->name);
        setenv("MILLRACE_WRITTEN", written, 1);
    }
    /* If the process cannot give the same frames again, a new epoch distinguishes its frames from earlier ones with the
     * same numbers. */
    snprintf(epoch, sizeof epoch, "%d", child->restarts);
    setenv("MILLRACE_EPOCH", epoch, 1);
    execv("/proc/self/exe", (char *const *)(uintptr_t)command);
    mr_print(stderr, "millrace: error: cannot start the node %s: %s\n", child->name, strerror(errno));
    _exit(mr_status_exit_code(MR_ERROR_INTERNAL));
}

static int start(mr_supervisor *s, mr_child *child) {
    int ends[2];
    child->ready = child->finished = child->asked = false;
    child->length = 0;
    child->start_ns = 0;
    if (pipe2(ends, O_CLOEXEC))
        return mr_fail(MR_ERROR_INTERNAL, "no pipe to the node %s: %s", child->name, strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        fcntl(ends[1], F_SETFD, 0);
        fcntl(s->temp.held, F_SETFD, 0); /* The child may outlive this process for a moment. */
        mr_nodes_http_give(s->http, (size_t)(child - s->children));
        become(s, child, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return mr_fail(MR_ERROR_INTERNAL, "cannot start the node %s: %s", child->name, strerror(errno));
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    child->pipe = ends[0];
    child->pid = pid;
    return MR_OK;
}

int mr_supervisor_start_due(mr_supervisor *s, int64_t now_ns) {
    for (size_t i = 0; i < s->count; i++) {
        mr_child *child = &s->children[i];
        if (child->pid || child->done || child->start_ns > now_ns)
            continue;
        int status = start(s, child);
        if (status)
            return status;
    }
    return MR_OK;
}

/* Makes the folder that the author names, else a temporary one. If that cannot be written, as in a container with a
 * read-only root, uses one in memory: the contents are small. */
static int make_folder(mr_supervisor *s, const char *named) {
    const char *temporary = getenv("TMPDIR"), *own = getenv("XDG_RUNTIME_DIR");
    const char *parents[] = {named && *named ? named : temporary && *temporary ? temporary : "/tmp", own, "/dev/shm"};
    const size_t count = named && *named ? 1 : sizeof parents / sizeof *parents;
    char first[512] = "";
    if (named && *named)
        mkdir(named, 0700); /* if this fails, making the folder inside reports it */
    for (size_t i = 0; i < count; i++) {
        if (!parents[i] || !*parents[i])
            continue;
        if (!mr_temp_folder_make(&s->temp, parents[i]))
            return MR_OK;
        if (!*first)
            snprintf(first, sizeof first, "%s", mr_message());
    }
    return mr_fail(MR_ERROR_IO, "the nodes need a folder for their sockets: %s; name one that can be written by "
                                "MILLRACE_RUNTIME=/its/path", first);
}

/* Sets all nodes' environment: the run's number, and a folder for sockets, checkpoints and notes about ended nodes. */
int mr_supervisor_environment(mr_supervisor *s) {
    const char *said = getenv("MILLRACE_RUNTIME");
    int status = make_folder(s, said);
    if (status)
        return status;
    if (!said || !*said)
        setenv("MILLRACE_RUNTIME", s->temp.folder, 1);
    setenv("MILLRACE_ENDED", s->temp.folder, 1);
    snprintf(s->checkpoint, sizeof s->checkpoint, "%s/checkpoint", s->temp.folder);
    return set_run();
}
