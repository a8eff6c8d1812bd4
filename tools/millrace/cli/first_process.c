#include "tools/millrace/cli/first_process.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Collects all that have ended, and exits if the command is one of them. */
static void collect(pid_t command) {
    int how;
    for (pid_t ended; (ended = waitpid(-1, &how, WNOHANG)) > 0;)
        if (ended == command)
            _exit(WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how));
}

static _Noreturn void be_first(pid_t command, const sigset_t *all) {
    for (;;) {
        const int got = sigwaitinfo(all, NULL);
        if (got == SIGCHLD)
            collect(command);
        else if (got > 0)
            kill(command, got);
        else if (errno != EINTR)
            abort();
    }
}

void mr_first_process(void) {
    sigset_t all, before;
    if (getpid() != 1)
        return;
    signal(SIGCHLD, SIG_DFL); /* if it is ignored, the end of the command is not reported */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    const pid_t command = fork();
    if (command > 0)
        be_first(command, &all);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
