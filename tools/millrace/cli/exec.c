#include "tools/millrace/cli/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/grow.h"
#include "millrace/status.h"
#include "tools/millrace/cli/plan_rows.h"

/* One of the program's streams; its end of the pipe, and the text so far. */
typedef struct stream {
    int from, to;
    void *text;
    size_t bytes, room;
} stream;

typedef struct running {
    const mr_exec *call;
    pid_t pid;
    int end; /* readable once the program has ended */
    stream out, err;
} running;

/* ---- starting -------------------------------------------------------------------------------------------------- */

static bool open_pipe(stream *one) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return false;
    *one = (stream){.from = ends[0], .to = ends[1]};
    return !fcntl(one->from, F_SETFL, O_NONBLOCK);
}

static void close_end(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static int redirect(const running *of, posix_spawn_file_actions_t *actions) {
    int error = of->call->input ? posix_spawn_file_actions_adddup2(actions, fileno(of->call->input), STDIN_FILENO)
                                : posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    error = error ? error : posix_spawn_file_actions_adddup2(actions, of->out.to, STDOUT_FILENO);
    return error ? error : posix_spawn_file_actions_adddup2(actions, of->err.to, STDERR_FILENO);
}

/* millrace ignores or blocks some signals, and a program would inherit that. */
static int expect_signals(posix_spawnattr_t *attributes) {
    sigset_t none, ignored;
    sigemptyset(&none);
    sigemptyset(&ignored);
    sigaddset(&ignored, SIGPIPE);
    sigaddset(&ignored, SIGXFSZ);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    error = error ? error : posix_spawnattr_setsigdefault(attributes, &ignored);
    return error ? error : posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

static int spawn(running *of) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = redirect(of, &actions);
        error = error ? error : expect_signals(&attributes);
        error = error ? error : posix_spawnp(&of->pid, of->call->words[0], &actions, &attributes,
                                             (char *const *)(uintptr_t)of->call->words, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

static int refuse(const mr_exec *call, int error) {
    if (error == ENOENT)
        return mr_fail(MR_ERROR_UNAVAILABLE, "there is no program %s here: install %s", call->words[0], call->package);
    return mr_fail(error == EACCES ? MR_ERROR_PERMISSION : mr_file_status(error), "cannot start %s: %s",
                   call->words[0], strerror(error));
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* Reads what is there. The stream is closed at its end. */
static int read_stream(const mr_exec *call, stream *one) {
    char piece[16384];
    ssize_t got = 1;
    while (one->from >= 0 && (got = read(one->from, piece, sizeof piece)) > 0) {
        if (one->bytes + (size_t)got > call->most)
            return mr_fail(MR_ERROR_PROTOCOL, "%s prints more than %zu bytes", call->words[0], call->most);
        if (!mr_append_bytes(&one->text, &one->room, &one->bytes, piece, (size_t)got))
            return mr_fail(MR_ERROR_MEMORY, "no memory for the output of %s", call->words[0]);
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        close_end(&one->from);
    return MR_OK;
}

/* Until the program has ended. A process that it left may hold the pipes open: nobody waits for that one. */
static int read_all(running *of) {
    const int64_t patience = of->call->patience_ns, deadline = mr_now_ns() + patience;
    for (bool ended = false; !ended;) {
        struct pollfd fds[] = {{of->end, POLLIN, 0}, {of->out.from, POLLIN, 0}, {of->err.from, POLLIN, 0}};
        const int64_t left = deadline - mr_now_ns();
        char text[MR_WORDS];
        if (patience && left <= 0)
            return mr_fail(MR_ERROR_UNAVAILABLE, "%s has not answered within %s and was ended", of->call->words[0],
                           mr_words_duration(patience, text));
        if (poll(fds, 3, patience ? (int)(left / 1000000) + 1 : -1) < 0 && errno != EINTR)
            return mr_file_fail("wait for", of->call->words[0]);
        ended = fds[0].revents != 0;
        int status = read_stream(of->call, &of->out);
        if (!status)
            status = read_stream(of->call, &of->err);
        if (status)
            return status;
    }
    return MR_OK;
}

static int terminate(stream *one, char **text, size_t *bytes) {
    *bytes = one->bytes;
    if (!mr_append_bytes(&one->text, &one->room, &one->bytes, "", 1))
        return mr_fail(MR_ERROR_MEMORY, "no memory for the output of a program");
    *text = one->text;
    one->text = NULL;
    return MR_OK;
}

static int collect(running *of, mr_exec_result *result) {
    int ended = 0, status = of->end < 0 ? mr_file_fail("watch", of->call->words[0]) : read_all(of);
    if (status)
        kill(of->pid, SIGKILL);
    while (waitpid(of->pid, &ended, 0) < 0 && errno == EINTR)
        continue;
    result->code = WIFSIGNALED(ended) ? 128 + WTERMSIG(ended) : WEXITSTATUS(ended);
    if (!status)
        status = terminate(&of->out, &result->out, &result->out_bytes);
    return status ? status : terminate(&of->err, &result->err, &result->err_bytes);
}

int mr_exec_run(const mr_exec *call, mr_exec_result *result) {
    running of = {.call = call, .end = -1, .out = {.from = -1, .to = -1}, .err = {.from = -1, .to = -1}};
    *result = (mr_exec_result){0};
    bool runs = false;
    int status = open_pipe(&of.out) && open_pipe(&of.err) ? MR_OK : mr_file_fail("make a pipe to", call->words[0]);
    if (!status) {
        const int error = spawn(&of);
        runs = !error;
        status = error ? refuse(call, error) : MR_OK;
    }
    close_end(&of.out.to);
    close_end(&of.err.to);
    if (!status) {
        of.end = pidfd_open(of.pid, 0);
        status = collect(&of, result);
    }
    close_end(&of.end);
    close_end(&of.out.from);
    close_end(&of.err.from);
    mr_free(of.out.text);
    mr_free(of.err.text);
    if (status) {
        mr_exec_fini(result);
        result->code = runs ? 128 + SIGKILL : 0;
    }
    return status;
}

void mr_exec_fini(mr_exec_result *result) {
    mr_free(result->out);
    mr_free(result->err);
    *result = (mr_exec_result){0};
}
