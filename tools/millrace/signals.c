#include "tools/millrace/signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/millrace/control.h"
#include "tools/millrace/run_audit.h"
#include "tools/millrace/summary.h"

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    mr_pipeline *pipeline; /* NULL: not running yet, or no more */
    int fd; /* of signals */
    bool begun, draining, over;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void print_summary(void) {
    mr_summary *summary = NULL;
    if (!watch.pipeline || mr_pipeline_summarize(watch.pipeline, &summary))
        return;
    mr_summary_print(summary, stderr);
    mr_summary_destroy(&summary);
}

static void interrupt(const struct signalfd_siginfo *signal) {
    bool drains = watch.pipeline && !watch.draining;
    mr_run_audit_signal(signal, drains ? MR_SIGNAL_DRAINS : MR_SIGNAL_EXITS);
    if (drains) {
        watch.draining = true;
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\nmillrace: finishing what is in flight; once more to exit at once\n");
        mr_pipeline_stop(watch.pipeline, false);
        return;
    }
    print_summary();
    _exit(128 + (int)signal->ssi_signo);
}

/* Takes the signal that has come; false where it only ends the thread. */
static bool take_signal(int fd) {
    struct signalfd_siginfo signal;
    if (read(fd, &signal, sizeof signal) != sizeof signal)
        return true;
    if (!watch.over && signal.ssi_signo == SIGUSR1)
        print_summary();
    else if (!watch.over)
        interrupt(&signal);
    return !watch.over;
}

static void *wait_for_signals(void *context) {
    int fd = *(const int *)context;
    struct pollfd fds[1 + MR_CONTROL_FDS];
    for (bool goes_on = true; goes_on;) {
        fds[0] = (struct pollfd){.fd = fd, .events = POLLIN};
        size_t count = mr_control_fds(fds + 1);
        if (poll(fds, 1 + count, -1) < 0)
            continue;
        pthread_mutex_lock(&watch.lock);
        mr_control_serve(fds + 1, count, watch.pipeline);
        goes_on = !fds[0].revents || take_signal(fd);
        pthread_mutex_unlock(&watch.lock);
    }
    return NULL;
}

int mr_signals_begin(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    watch.draining = watch.over = false;
    int error = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (!error && (watch.fd = signalfd(-1, &set, SFD_CLOEXEC)) < 0)
        error = errno;
    if (!error)
        error = pthread_create(&watch.thread, NULL, wait_for_signals, &watch.fd);
    if (error)
        return mr_fail(MR_ERROR_INTERNAL, "no thread for signals: %s", strerror(error));
    watch.begun = true;
    pthread_setname_np(watch.thread, "mr-signals");
    return MR_OK;
}

void mr_signals_watch(mr_pipeline *pipeline) {
    pthread_mutex_lock(&watch.lock);
    watch.pipeline = pipeline;
    pthread_mutex_unlock(&watch.lock);
}

void mr_signals_end(void) {
    if (!watch.begun)
        return;
    watch.begun = false;
    pthread_mutex_lock(&watch.lock);
    watch.pipeline = NULL;
    watch.over = true;
    pthread_mutex_unlock(&watch.lock);
    pthread_kill(watch.thread, SIGUSR1);
    pthread_join(watch.thread, NULL);
    close(watch.fd);
}
