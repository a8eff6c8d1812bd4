/* Makes a graph's picture with Graphviz's program `dot`. */
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/status.h"
#include "tools/millrace/graph/graph_print.h"

static int run_dot(const char *kind, FILE *from, FILE *to) {
    char option[16];
    char *const words[] = {"dot", option, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status = 0;
    snprintf(option, sizeof option, "-T%s", kind);
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return mr_fail(MR_ERROR_MEMORY, "no memory to start dot");
    error = posix_spawn_file_actions_adddup2(&actions, fileno(from), STDIN_FILENO);
    error = error ? error : posix_spawn_file_actions_adddup2(&actions, fileno(to), STDOUT_FILENO);
    error = error ? error : posix_spawnp(&child, "dot", &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error)
        return mr_fail(MR_ERROR_UNAVAILABLE, "--format %s needs dot, a program of Graphviz: %s; install graphviz, or "
                       "take --format dot to another machine", kind, strerror(error));
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return status == 0 ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "Graphviz's dot cannot make %s of this graph", kind);
}

int mr_chart_picture(const mr_chart *graph, const char *kind, FILE *stream) {
    char piece[8192];
    FILE *text = tmpfile(), *picture = tmpfile();
    int status = text && picture ? mr_chart_dot(graph, text) : mr_file_fail("write", "a temporary file");
    if (!status && fflush(text))
        status = mr_file_fail("write", "a temporary file");
    if (!status) {
        rewind(text);
        status = run_dot(kind, text, picture);
    }
    if (!status) {
        rewind(picture);
        for (size_t bytes; (bytes = fread(piece, 1, sizeof piece, picture)) > 0;)
            fwrite(piece, 1, bytes, stream);
    }
    if (text)
        fclose(text);
    if (picture)
        fclose(picture);
    return status;
}
