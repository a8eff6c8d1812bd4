#include "tools/millrace/run/signals.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "engine/base/thread.h"
#include "millrace/log.h"
#include "tools/millrace/run/control.h"
#include "tools/millrace/run/run_audit.h"
#include "tools/millrace/summary/summary.h"

/* The default time to end. A pipeline that is still starting may need as long: it loads models and opens cameras. */
static const int64_t PATIENCE_NS = 10000000000;
/* The longest time for one message from this thread. */
static const int64_t SAYING_NS = 500000000;
enum { MOST_TO_TERMINAL = 64 };
static const int64_t NS_PER_S = 1000000000, NS_PER_MS = 1000000;

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    mr_pipeline *pipeline; /* NULL: not running yet, or no longer */
    int fd;                /* the signalfd */
    int asked;             /* the first signal that asked for the end; 0: none */
    bool timed;            /* nothing can be drained: exits at until_ns if the process has not ended by then */
    int64_t asked_ns;      /* when that came */
    int64_t until_ns;      /* asked_ns plus patience_ns */
    int64_t patience_ns;
    int code;              /* the run's exit code; -1: it has not ended */
    bool begun, over;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Writes to standard error without the stream's buffer: another thread may hold the buffer's lock while it waits for
 * the reader. A stopped terminal or an unread pipe must not block signals, so text that is not accepted in time is
 * omitted. */
static void say(const char *text, size_t bytes) {
    const int64_t until_ns = mr_now_ns() + SAYING_NS;
    /* If poll reports room, this number of bytes can be written at once. */
    const size_t most = isatty(STDERR_FILENO) ? MOST_TO_TERMINAL : PIPE_BUF;
    struct pollfd one = {.fd = STDERR_FILENO, .events = POLLOUT};
    for (ssize_t done = 0; bytes > 0; text += done, bytes -= (size_t)done) {
        int64_t left_ns = until_ns - mr_now_ns();
        if (left_ns <= 0 || poll(&one, 1, (int)(left_ns / NS_PER_MS) + 1) <= 0)
            return;
        done = write(STDERR_FILENO, text, bytes < most ? bytes : most);
        if (done < 0 && errno != EINTR && errno != EAGAIN)
            return;
        done = done < 0 ? 0 : done;
    }
}

static void __attribute__((format(printf, 1, 2))) say_line(const char *format, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    size_t length = mr_vprint_into(line, sizeof line, format, arguments);
    va_end(arguments);
    say(line, length < sizeof line ? length : sizeof line - 1);
}

static void print_summary(void) {
    mr_summary *summary = NULL;
    char *text = NULL;
    size_t bytes = 0;
    if (!watch.pipeline || mr_pipeline_summarize(watch.pipeline, &summary))
        return;
    FILE *stream = open_memstream(&text, &bytes);
    if (stream) {
        mr_summary_print(summary, stream);
        fclose(stream);
        say(text, bytes);
    }
    free(text);
    mr_summary_destroy(&summary);
}

static void exit_at_once(int signal) {
    mr_control_unlink();
    print_summary();
    _exit(128 + signal);
}

static bool had_terminal[STDERR_FILENO + 1];

void mr_signals_note_terminal(void) {
    had_terminal[STDIN_FILENO] = isatty(STDIN_FILENO);
    had_terminal[STDERR_FILENO] = isatty(STDERR_FILENO);
}

bool mr_signals_terminal_gone(void) {
    return (had_terminal[STDIN_FILENO] && !isatty(STDIN_FILENO)) ||
           (had_terminal[STDERR_FILENO] && !isatty(STDERR_FILENO));
}

/* Reopens files, which may have been moved, and reads the list of sources if there is one. */
static void reload(const struct signalfd_siginfo *signal) {
    mr_run_audit_reopen(signal);
    if (watch.pipeline) {
        mr_pipeline_reopen(watch.pipeline);
        if (mr_pipeline_reload_sources(watch.pipeline))
            mr_log(MR_LOG_DEBUG, "%s", mr_message());
    }
}

/* A pipeline that is still starting first starts, then ends at once. So there is a summary and a clean end. */
static void interrupt(const struct signalfd_siginfo *signal) {
    const int64_t now_ns = mr_now_ns();
    if (watch.asked && (signal->ssi_signo == SIGHUP || mr_signals_are_one(watch.asked_ns, now_ns)))
        return;
    if (watch.code < 0)
        mr_run_audit_signal(signal, watch.asked ? MR_SIGNAL_EXITS : MR_SIGNAL_DRAINS);
    if (watch.asked)
        exit_at_once((int)signal->ssi_signo);
    watch.asked = (int)signal->ssi_signo;
    watch.asked_ns = now_ns;
    watch.until_ns = now_ns + watch.patience_ns;
    watch.timed = !watch.pipeline;
    if (isatty(STDERR_FILENO))
        say_line("\n"
                 "millrace: finishing what is %s; repeat to exit at once\n",
                 watch.code < 0 ? "in flight" : "being read");
    if (watch.pipeline)
        mr_pipeline_stop(watch.pipeline, false);
}

static void give_up(void) {
    double seconds = (double)watch.patience_ns / (double)NS_PER_S;
    if (watch.code < 0) {
        say_line("millrace: error: asked to end %.0f s ago, but the run has not started yet\n", seconds);
        exit_at_once(watch.asked);
    }
    say_line("millrace: warning: asked to end %.0f s ago; results that have not been read by now are lost\n", seconds);
    _exit(watch.code);
}

/* The timeout for poll, in milliseconds. */
static int patience_ms(void) {
    if (!watch.timed)
        return -1;
    int64_t left_ns = watch.until_ns - mr_now_ns();
    if (left_ns <= 0)
        give_up();
    return (int)(left_ns / NS_PER_MS) + 1;
}

/* Handles the signal that has arrived; false if it only ends the thread. */
static bool take_signal(int fd) {
    struct signalfd_siginfo signal;
    if (read(fd, &signal, sizeof signal) != sizeof signal)
        return true;
    if (!watch.over && signal.ssi_signo == SIGUSR1)
        print_summary();
    else if (!watch.over && signal.ssi_signo == SIGHUP && !mr_signals_terminal_gone())
        reload(&signal);
    else if (!watch.over)
        interrupt(&signal);
    return !watch.over;
}

static void *wait_for_signals(void *context) {
    int fd = *(const int *)context;
    for (bool goes_on = true; goes_on;) {
        pthread_mutex_lock(&watch.lock);
        int wait_ms = patience_ms();
        pthread_mutex_unlock(&watch.lock);
        struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = mr_control_fd(&wait_ms), .events = POLLIN}};
        if (poll(fds, 2, wait_ms) < 0)
            continue;
        pthread_mutex_lock(&watch.lock);
        goes_on = !fds[0].revents || take_signal(fd);
        pthread_mutex_unlock(&watch.lock);
        if (goes_on && fds[1].revents)
            mr_control_accept();
    }
    return NULL;
}

void mr_signals_add(sigset_t *set) {
    struct sigaction hangup;
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGUSR1);
    if (sigaction(SIGHUP, NULL, &hangup) || hangup.sa_handler != SIG_IGN)
        sigaddset(set, SIGHUP);
}

static int start(void) {
    sigset_t set;
    sigemptyset(&set);
    mr_signals_add(&set);
    watch.over = false;
    int error = pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (!error && (watch.fd = signalfd(-1, &set, SFD_CLOEXEC)) < 0)
        error = errno;
    if (error)
        return mr_fail(MR_ERROR_INTERNAL, "cannot wait for signals: %s", strerror(error));
    error = mr_thread_create(&watch.thread, wait_for_signals, &watch.fd);
    if (error)
        return mr_thread_fail(error, "the thread for signals");
    watch.begun = true;
    pthread_setname_np(watch.thread, "mr-signals");
    return MR_OK;
}

int mr_signals_begin(int64_t patience_ns) {
    mr_signals_note_terminal();
    watch.asked = 0;
    watch.timed = false;
    watch.code = -1;
    watch.patience_ns = patience_ns > 0 ? patience_ns : PATIENCE_NS;
    return start();
}

void mr_signals_watch(mr_pipeline *pipeline) {
    mr_control_watch(pipeline);
    MR_LOCKED(&watch.lock);
    watch.pipeline = pipeline;
    if (pipeline && watch.timed) {
        mr_pipeline_stop(pipeline, false);
        watch.timed = false;
    }
}

void mr_signals_end(void) {
    if (!watch.begun)
        return;
    watch.begun = false;
    mr_control_watch(NULL);
    pthread_mutex_lock(&watch.lock);
    watch.pipeline = NULL;
    watch.over = true;
    pthread_mutex_unlock(&watch.lock);
    pthread_kill(watch.thread, SIGUSR1);
    pthread_join(watch.thread, NULL);
    close(watch.fd);
    if (watch.timed && watch.code < 0)
        kill(getpid(), watch.asked);
}

bool mr_signals_came(void) {
    MR_LOCKED(&watch.lock);
    return watch.asked != 0;
}

int64_t mr_signals_asked_ns(void) {
    MR_LOCKED(&watch.lock);
    return watch.asked ? watch.asked_ns : 0;
}

int mr_signals_code(int code) {
    return watch.asked && code == mr_status_exit_code(MR_ERROR_CANCELLED) ? 128 + watch.asked : code;
}

void mr_signals_leave(int code) {
    watch.code = code;
    watch.timed = watch.asked != 0;
    if (start())
        mr_log(MR_LOG_WARNING, "%s; the run cannot be asked to end before its results are read", mr_message());
}
