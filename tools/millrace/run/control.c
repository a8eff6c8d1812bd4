#include "tools/millrace/run/control.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "millrace/log.h"
#include "tools/millrace/run/control_answer.h"

/* A client that has not read an answer within ANSWER_NS is disconnected; at the run's end within LAST_NS. If accept
 * runs out of descriptors, it pauses for ACCEPT_NS, because the socket stays readable and poll would return at once. */
static const int64_t ANSWER_NS = 3000000000, LAST_NS = 500000000, ACCEPT_NS = 100000000, NS_PER_MS = 1000000;

typedef struct client {
    int fd;           /* 0: this entry is free */
    bool asks;        /* a request is being done, or the answer is being sent */
    bool dropped;     /* another client gets this entry: the next request is not done */
    int64_t heard_ns; /* time of the last request, or of the connection */
} client;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a request was done, or a client has left */
    int fd;                 /* 0: there is no socket */
    mr_pipeline *pipeline;  /* NULL: it is not running yet, or no longer */
    int running;            /* requests for it */
    const char *refused;    /* why requests are refused; NULL: they are done */
    int64_t accept_ns;      /* accepts no client before this time; for the accepting thread */
    char path[MR_CONTROL_PATH];
    client clients[MR_CONTROL_CLIENTS];
} control = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the socket ------------------------------------------------------------------------------------------------ */

/* Root's folder also has those of services, whose users must get through; they see nothing in it. */
static mode_t mode_for(const char *folder) {
    return geteuid() == 0 && strncmp(MR_CONTROL_SERVICES, folder, sizeof MR_CONTROL_SERVICES - 2) == 0 &&
           !folder[sizeof MR_CONTROL_SERVICES - 2] ? 0711 : 0700;
}

/* systemd makes root's folder for everybody to read, if a service comes first. If it is for root alone, services cannot
 * get through. A folder that others may write to can hold anything, so it is refused. */
static bool may_be_set(mode_t mode, const struct stat *found) {
    return mode == 0711 && found->st_uid == 0 && !(found->st_mode & 022);
}

/* Opens the socket's folder, and creates it if it is missing. Fails if other users can look into it. */
static int open_folder(const char *path, int *folder) {
    char copy[MR_CONTROL_PATH];
    struct stat found;
    snprintf(copy, sizeof copy, "%s", path);
    const char *name = dirname(copy);
    const bool made = !mkdir(name, 0700);
    if (!made && errno != EEXIST)
        return mr_fail(errno == EACCES ? MR_ERROR_PERMISSION : MR_ERROR_IO, "cannot make the folder %s: %s", name,
                       strerror(errno));
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &found)) {
        int status = mr_fail(MR_ERROR_IO, "cannot open the folder %s: %s", name, strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    const mode_t mode = mode_for(name);
    if ((made || may_be_set(mode, &found)) && !fchmod(fd, mode))
        found.st_mode = mode;
    if (found.st_uid != geteuid() || (found.st_mode & 0777 & ~mode)) {
        close(fd);
        return mr_fail(MR_ERROR_PERMISSION,
                       "the folder %s of the control socket is open to other users: chmod 700 it, or use a folder of "
                       "your own",
                       name);
    }
    *folder = fd;
    return MR_OK;
}

/* Removes the socket that a dead run has left. */
static int make_room(const char *path) {
    struct stat found;
    int other;
    if (lstat(path, &found))
        return MR_OK;
    if (!S_ISSOCK(found.st_mode))
        return mr_fail(MR_ERROR_USAGE, "%s exists and is not a socket", path);
    int status = mr_control_connect(path, &other);
    if (!status) {
        close(other);
        return mr_fail(MR_ERROR_UNAVAILABLE, "another run listens at %s", path);
    }
    if (status != MR_ERROR_UNAVAILABLE)
        return status;
    return unlink(path) ? mr_fail(MR_ERROR_IO, "cannot remove %s: %s", path, strerror(errno)) : MR_OK;
}

static int listen_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The socket inherits the descriptor's mode, so it is never open to others. */
    if (fd < 0 || fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&address, sizeof address) ||
        listen(fd, SOMAXCONN)) {
        int status = mr_fail(MR_ERROR_IO, "cannot listen at %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    control.fd = fd;
    mr_condition_init(&control.changed);
    snprintf(control.path, sizeof control.path, "%s", path);
    mr_log(MR_LOG_INFO, "this run is controlled at %s", path);
    return MR_OK;
}

static int open_at(const char *path) {
    int folder = -1;
    int status = open_folder(path, &folder);
    if (status)
        return status;
    /* Until this socket listens, the lock keeps other starting runs and `millrace ctl` from treating it as a dead
     * one. */
    if (flock(folder, LOCK_EX))
        status = mr_fail(MR_ERROR_IO, "cannot lock the folder of %s: %s", path, strerror(errno));
    if (!status)
        status = make_room(path);
    if (!status)
        status = listen_at(path);
    close(folder);
    return status;
}

/* The user did not ask for this socket, so the run continues without it if it cannot be made. */
static void open_by_default(void) {
    mr_control_folders folders;
    char name[MR_CONTROL_PATH];
    mr_control_find_folders(&folders);
    for (int i = 0; i < folders.count; i++)
        if (!mr_control_name(folders.path[i], getpid(), name) && !open_at(name))
            return;
    if (!folders.count)
        mr_control_fail_no_folder();
    mr_log(MR_LOG_WARNING, "`millrace ctl` cannot reach this run: %s; --control PATH names another socket, and "
                           "--control off none", mr_message());
}

int mr_control_open(const char *path) {
    control.refused = NULL;
    if (path && strcmp(path, "off") == 0)
        return MR_OK;
    if (path && strlen(path) >= MR_CONTROL_PATH)
        return mr_fail(MR_ERROR_USAGE, "%s is too long for a socket, which may have %d bytes", path,
                       MR_CONTROL_PATH - 1);
    if (path)
        return open_at(path);
    open_by_default();
    return MR_OK;
}

void mr_control_unlink(void) {
    if (control.fd)
        unlink(control.path);
}

/* ---- one client ------------------------------------------------------------------------------------------------ */

/* Whether the client's next request may be done. If so, the client keeps the entry. */
static bool begin(client *one, mr_pipeline **pipeline, const char **refused) {
    MR_LOCKED(&control.lock);
    one->asks = !one->dropped;
    one->heard_ns = mr_now_ns();
    control.running += one->asks;
    *pipeline = control.pipeline;
    *refused = control.refused;
    return one->asks;
}

static void end(void) {
    MR_LOCKED(&control.lock);
    control.running--;
    pthread_cond_broadcast(&control.changed);
}

static bool send_all(int fd, const char *text, size_t length) {
    const int64_t until_ns = mr_now_ns() + ANSWER_NS;
    for (ssize_t sent; length > 0; text += sent, length -= (size_t)sent) {
        sent = send(fd, text, length, MSG_NOSIGNAL);
        if ((sent < 0 && errno != EINTR) || mr_now_ns() >= until_ns)
            return false;
        sent = sent < 0 ? 0 : sent;
    }
    return true;
}

char *mr_control_do(const char *request, size_t *length) {
    pthread_mutex_lock(&control.lock);
    mr_pipeline *pipeline = control.pipeline;
    const char *refused = control.refused;
    control.running++;
    pthread_mutex_unlock(&control.lock);
    char *text = mr_control_answer(request, pipeline, refused, length);
    end();
    return text;
}

/* Does a request, and sends the answer. False if the client must be disconnected. */
static bool answer(client *one, const char *request) {
    mr_pipeline *pipeline;
    const char *refused;
    size_t length;
    if (!begin(one, &pipeline, &refused))
        return false;
    char *text = mr_control_answer(request, pipeline, refused, &length);
    end();
    const bool sent = text && send_all(one->fd, text, length);
    free(text);
    MR_LOCKED(&control.lock);
    one->asks = false;
    return sent;
}

/* Answers a client's requests in order, up to the last complete one. */
static void *serve(void *context) {
    client *one = context;
    char text[MR_CONTROL_REQUEST];
    size_t length = 0;
    for (bool stays = true; stays;) {
        char *newline = memchr(text, '\n', length);
        if (newline) {
            *newline = 0;
            stays = answer(one, text);
            length -= (size_t)(newline + 1 - text);
            memmove(text, newline + 1, length);
            continue;
        }
        const ssize_t got = recv(one->fd, text + length, sizeof text - length, 0);
        stays = got > 0 || (got < 0 && errno == EINTR);
        length += got > 0 ? (size_t)got : 0;
    }
    MR_LOCKED(&control.lock);
    close(one->fd);
    *one = (client){0};
    pthread_cond_broadcast(&control.changed);
    return NULL;
}

/* ---- clients --------------------------------------------------------------------------------------------------- */

/* Finds a free entry, or that of the client that has been idle for longest, so that idle clients keep no other out.
 * NULL: all are being answered. With the lock. */
static client *find_place(void) {
    client *idle = NULL;
    for (int i = 0; i < MR_CONTROL_CLIENTS; i++) {
        client *one = &control.clients[i];
        if (!one->fd)
            return one;
        if (!one->asks && (!idle || one->heard_ns < idle->heard_ns))
            idle = one;
    }
    if (!idle)
        return NULL;
    idle->dropped = true;
    shutdown(idle->fd, SHUT_RDWR);
    while (idle->fd)
        pthread_cond_wait(&control.changed, &control.lock);
    return idle;
}

static void begin_client(int fd) {
    const struct timeval most = {.tv_sec = ANSWER_NS / 1000000000};
    pthread_t thread;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
    MR_LOCKED(&control.lock);
    client *place = find_place();
    if (place)
        *place = (client){.fd = fd, .heard_ns = mr_now_ns()};
    if (place && !mr_thread_create(&thread, serve, place)) {
        pthread_detach(thread);
    } else {
        close(fd);
        if (place)
            *place = (client){0};
    }
}

/* False: no other client waits. */
static bool take_client(void) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    int fd = accept4(control.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        control.accept_ns = mr_now_ns() + ACCEPT_NS;
    if (fd < 0)
        return false;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && (who.uid == geteuid() || who.uid == 0))
        begin_client(fd);
    else
        close(fd);
    return true;
}

int mr_control_fd(int *wait_ms) {
    const int64_t left_ns = control.accept_ns - mr_now_ns();
    if (!control.fd || left_ns <= 0)
        return control.fd ? control.fd : -1;
    const int left_ms = (int)(left_ns / NS_PER_MS) + 1;
    if (*wait_ms < 0 || left_ms < *wait_ms)
        *wait_ms = left_ms;
    return -1;
}

/* Accepts at most half of the entries at a time, so that a client accepted just before can be served before it is
 * dropped. */
void mr_control_accept(void) {
    for (int i = 0; i < MR_CONTROL_CLIENTS / 2 && take_client(); i++)
        ;
}

void mr_control_watch(mr_pipeline *pipeline) {
    MR_LOCKED(&control.lock);
    if (pipeline)
        control.refused = NULL;
    else if (control.pipeline)
        control.refused = "the run has ended";
    control.pipeline = pipeline;
    while (!pipeline && control.running)
        pthread_cond_wait(&control.changed, &control.lock);
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

static bool shut_down(int how) {
    bool any = false;
    for (int i = 0; i < MR_CONTROL_CLIENTS; i++)
        if (control.clients[i].fd) {
            shutdown(control.clients[i].fd, how);
            any = true;
        }
    return any;
}

/* Gives clients time to read their answers, at most LAST_NS. */
void mr_control_close(const char *why) {
    const struct timespec until = mr_condition_until(LAST_NS);
    pthread_mutex_lock(&control.lock);
    control.refused = why;
    pthread_mutex_unlock(&control.lock);
    if (!control.fd)
        return;
    unlink(control.path);
    mr_control_accept();
    pthread_mutex_lock(&control.lock);
    bool any = shut_down(SHUT_RD);
    while (any && pthread_cond_timedwait(&control.changed, &control.lock, &until) != ETIMEDOUT)
        any = shut_down(SHUT_RD);
    while (shut_down(SHUT_RDWR))
        pthread_cond_wait(&control.changed, &control.lock);
    pthread_mutex_unlock(&control.lock);
    close(control.fd);
    control.fd = 0;
}
