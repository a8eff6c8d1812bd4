#include "tools/millrace/run/node_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "engine/base/print.h"
#include "millrace/status.h"

#define FD_VARIABLE "MILLRACE_LOG_FD"

/* Of this process, if it is a node's. */
static struct {
    int end;
    size_t child;
    mr_log_function *logged; /* where lines go too */
    void *logged_context;
} node;

int mr_node_log_open(int ends[2]) {
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends)
               ? mr_fail(MR_ERROR_INTERNAL, "no socket for the nodes' log lines: %s", strerror(errno)) : MR_OK;
}

void mr_node_log_give(int end, size_t child) {
    char text[48];
    snprintf(text, sizeof text, "%d,%zu", end, child);
    fcntl(end, F_SETFD, 0);
    setenv(FD_VARIABLE, text, 1);
}

bool mr_node_log_take(int end, mr_node_line *line) {
    return recv(end, line, sizeof *line, MSG_DONTWAIT) == (ssize_t)sizeof *line;
}

static void send_line(mr_log_level level, const char *text) {
    mr_node_line line = {.child = node.child, .level = level};
    mr_print_into(line.text, sizeof line.text, "%s", text);
    send(node.end, &line, sizeof line, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void take_line(void *context, mr_log_level level, const char *text) {
    node.logged(node.logged_context, level, text);
    send_line(level, text);
}

void mr_node_log_failed(void) {
    if (node.logged)
        send_line(MR_LOG_ERROR, mr_message());
}

void mr_node_log_begin(void) {
    const char *given = getenv(FD_VARIABLE);
    const bool is = given && sscanf(given, "%d,%zu", &node.end, &node.child) == 2 &&
                    fcntl(node.end, F_SETFD, FD_CLOEXEC) == 0;
    unsetenv(FD_VARIABLE);
    if (!is)
        return;
    node.logged = mr_log_target(&node.logged_context);
    mr_log_to(take_line, NULL);
}
