#include "tools/millrace/run/control.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "millrace/log.h"
#include "tools/millrace/run/control_answer.h"
#include "tools/millrace/run/control_job.h"

/* A client that has not read an answer within ANSWER_NS is disconnected. If accept runs out of descriptors it pauses
 * for ACCEPT_NS: the socket stays readable, and poll would return at once. */
static const int64_t ANSWER_NS = 3000000000, ACCEPT_NS = 100000000, NS_PER_MS = 1000000;

typedef struct client {
    int fd; /* 0: the place is free */
    bool ended; /* the end of the file was read */
    size_t length;
    char text[MR_CONTROL_REQUEST];
    mr_control_job *job; /* makes the answer; NULL: none */
    char *answer; /* being sent; NULL: none */
    size_t answer_length, sent;
    int64_t until_ns;
    int64_t heard_ns; /* its last request, or when it connected */
} client;

static struct {
    int fd; /* 0: there is no socket */
    int jobs; /* readable when a job is done */
    const char *refused; /* why no request is done any more; NULL: they are done */
    int64_t accept_ns; /* clients are accepted from then on */
    char path[MR_CONTROL_PATH];
    client clients[MR_CONTROL_CLIENTS];
} control;

/* ---- the socket ------------------------------------------------------------------------------------------------ */

/* Opens the folder of the socket, and creates it if it is missing. Fails if other users can enter it. */
static int open_folder(const char *path, int *folder) {
    char copy[MR_CONTROL_PATH];
    struct stat found;
    snprintf(copy, sizeof copy, "%s", path);
    const char *name = dirname(copy);
    if (mkdir(name, 0700) && errno != EEXIST)
        return mr_fail(errno == EACCES ? MR_ERROR_PERMISSION : MR_ERROR_IO, "cannot make the folder %s: %s", name,
                       strerror(errno));
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &found)) {
        int status = mr_fail(MR_ERROR_IO, "cannot open the folder %s: %s", name, strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    if (found.st_uid != geteuid() || (found.st_mode & 077)) {
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
    control.jobs = mr_control_jobs_open();
    snprintf(control.path, sizeof control.path, "%s", path);
    mr_log(MR_LOG_INFO, "this run is controlled at %s", path);
    return MR_OK;
}

static int open_at(const char *path) {
    int folder = -1;
    int status = open_folder(path, &folder);
    if (status)
        return status;
    /* The lock keeps others, runs that begin at once and `millrace ctl`, from taking this socket for a dead one before
     * it listens. */
    if (flock(folder, LOCK_EX))
        status = mr_fail(MR_ERROR_IO, "cannot lock the folder of %s: %s", path, strerror(errno));
    if (!status)
        status = make_room(path);
    if (!status)
        status = listen_at(path);
    close(folder);
    return status;
}

/* This socket was not asked for, so a run that cannot have it continues. */
static void open_by_default(void) {
    mr_control_folders folders;
    char name[MR_CONTROL_PATH];
    mr_control_find_folders(&folders);
    for (int i = 0; i < folders.count; i++)
        if (!mr_control_name(folders.path[i], getpid(), name) && !open_at(name))
            return;
    mr_log(MR_LOG_WARNING, "`millrace ctl` cannot reach this run: %s; --control PATH names another socket, and "
                           "--control off none", mr_message());
}

int mr_control_open(const char *path) {
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

static void disconnect(client *one) {
    close(one->fd);
    mr_control_job_drop(&one->job);
    free(one->answer);
    *one = (client){0};
}

void mr_control_unlink(void) {
    if (control.fd)
        unlink(control.path);
}

/* ---- clients --------------------------------------------------------------------------------------------------- */

/* A free place, or that of the client that has asked for nothing for longest: idle ones keep no other out. NULL: all
 * are being answered. */
static client *find_place(void) {
    client *idle = NULL;
    for (int i = 0; i < MR_CONTROL_CLIENTS; i++) {
        client *one = &control.clients[i];
        if (!one->fd)
            return one;
        if (!one->job && !one->answer && (!idle || one->heard_ns < idle->heard_ns))
            idle = one;
    }
    if (idle)
        disconnect(idle);
    return idle;
}

/* False: no other one waits. */
static bool take_client(int64_t now_ns) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    int fd = accept4(control.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        control.accept_ns = now_ns + ACCEPT_NS;
    if (fd < 0)
        return false;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && (who.uid == geteuid() || who.uid == 0);
    client *place = known ? find_place() : NULL;
    if (place)
        *place = (client){.fd = fd, .heard_ns = now_ns};
    else
        close(fd);
    return true;
}

/* False if the client must be disconnected. */
static bool send_more(client *one, int64_t now_ns) {
    ssize_t sent = send(one->fd, one->answer + one->sent, one->answer_length - one->sent, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return false;
    one->sent += sent > 0 ? (size_t)sent : 0;
    if (one->sent < one->answer_length)
        return now_ns < one->until_ns;
    free(one->answer);
    one->answer = NULL;
    return true;
}

static bool has_request(const client *one) {
    return !one->answer && !one->job && memchr(one->text, '\n', one->length);
}

/* Answers the first request in the buffer; later ones wait until that answer is sent. */
static bool answer(client *one, mr_pipeline *pipeline, int64_t now_ns) {
    char *end = memchr(one->text, '\n', one->length);
    *end = 0;
    if (pipeline && mr_control_takes_long(one->text))
        one->job = mr_control_job_begin(one->text, pipeline);
    if (!one->job)
        one->answer = mr_control_answer(one->text, pipeline, control.refused, &one->answer_length);
    one->sent = 0;
    one->heard_ns = now_ns;
    one->until_ns = now_ns + ANSWER_NS;
    one->length -= (size_t)(end - one->text) + 1;
    memmove(one->text, end + 1, one->length);
    return one->job || (one->answer && send_more(one, now_ns));
}

/* A job's answer, if that is done. */
static bool take_answer(client *one, int64_t now_ns) {
    if (!mr_control_job_take(&one->job, &one->answer, &one->answer_length))
        return true;
    one->until_ns = now_ns + ANSWER_NS;
    return one->answer && send_more(one, now_ns);
}

static bool read_more(client *one) {
    ssize_t got = recv(one->fd, one->text + one->length, sizeof one->text - one->length, 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    one->ended = got == 0;
    one->length += (size_t)got;
    return one->length < sizeof one->text || has_request(one);
}

static void serve_client(client *one, bool ready, mr_pipeline *pipeline, int64_t now_ns) {
    bool stays = true;
    if (one->job)
        stays = take_answer(one, now_ns);
    else if (one->answer)
        stays = send_more(one, now_ns);
    else if (ready && !has_request(one))
        stays = read_more(one);
    if (stays && has_request(one))
        stays = answer(one, pipeline, now_ns);
    if (!stays || (one->ended && !one->answer && !one->job && !has_request(one)))
        disconnect(one);
}

/* ---- for the serving thread ------------------------------------------------------------------------------------ */

static int earlier_ms(int wait_ms, int64_t at_ns, int64_t now_ns) {
    int64_t left_ms = at_ns > now_ns ? (at_ns - now_ns) / NS_PER_MS + 1 : 0;
    return wait_ms < 0 || left_ms < wait_ms ? (int)left_ms : wait_ms;
}

size_t mr_control_fds(struct pollfd *fds, int *wait_ms) {
    int64_t now_ns = mr_clock_now_ns(mr_clock_real());
    size_t count = 0;
    if (!control.fd)
        return 0;
    bool accepts = now_ns >= control.accept_ns;
    if (!accepts)
        *wait_ms = earlier_ms(*wait_ms, control.accept_ns, now_ns);
    fds[count++] = (struct pollfd){.fd = accepts ? control.fd : -1, .events = POLLIN};
    fds[count++] = (struct pollfd){.fd = control.jobs, .events = POLLIN};
    for (int i = 0; i < MR_CONTROL_CLIENTS; i++) {
        const client *one = &control.clients[i];
        if (!one->fd)
            continue;
        /* A client whose answer is being made is not listened to. */
        fds[count++] = (struct pollfd){.fd = one->job ? -one->fd - 1 : one->fd,
                                       .events = one->answer ? POLLOUT : POLLIN};
        if (one->answer)
            *wait_ms = earlier_ms(*wait_ms, one->until_ns, now_ns);
        else if (has_request(one))
            *wait_ms = 0;
    }
    return count;
}

void mr_control_serve(const struct pollfd *fds, size_t count, mr_pipeline *pipeline) {
    int64_t now_ns = mr_clock_now_ns(mr_clock_real());
    for (size_t i = 1; i < count; i++) {
        uint64_t done;
        int fd = fds[i].fd < 0 ? -fds[i].fd - 1 : fds[i].fd;
        if (fds[i].fd == control.jobs && fds[i].revents && read(control.jobs, &done, sizeof done) != sizeof done)
            continue;
        for (int c = 0; c < MR_CONTROL_CLIENTS; c++)
            if (control.clients[c].fd == fd)
                serve_client(&control.clients[c], fds[i].revents != 0, pipeline, now_ns);
    }
    /* At most half of the places at a time: a client that came just before these is heard before it can be cut. */
    for (int i = 0; count > 0 && fds[0].revents && i < MR_CONTROL_CLIENTS / 2 && take_client(now_ns); i++)
        ;
}

/* Answers what has been asked before the end; who has not asked yet is disconnected. */
static void serve_last(void) {
    struct pollfd fds[MR_CONTROL_FDS];
    int wait_ms = 0;
    for (int i = 0; i < MR_CONTROL_CLIENTS; i++) {
        size_t count = mr_control_fds(fds, &wait_ms);
        if (poll(fds, count, 0) > 0)
            mr_control_serve(fds, count, NULL);
    }
}

void mr_control_close(const char *why) {
    if (!control.fd)
        return;
    unlink(control.path);
    control.refused = why;
    serve_last();
    control.refused = NULL;
    for (int i = 0; i < MR_CONTROL_CLIENTS; i++)
        if (control.clients[i].fd)
            disconnect(&control.clients[i]);
    mr_control_jobs_close();
    close(control.fd);
    control.fd = 0;
}
