#include "tools/millrace/control.h"

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

#include "engine/base/log.h"
#include "tools/millrace/control_answer.h"

/* A client that takes nothing for so long is let go: signals wait meanwhile. */
static const struct timeval PATIENCE = {.tv_usec = 500000};

typedef struct client {
    int fd; /* 0: the place is free */
    size_t length;
    char text[MR_CONTROL_REQUEST];
} client;

static struct {
    int fd; /* 0: there is no socket */
    char path[MR_CONTROL_PATH];
    client clients[MR_CONTROL_CLIENTS];
} control;

/* ---- the socket ------------------------------------------------------------------------------------------------ */

/* Opens the folder of the socket, made where it is missing, if nobody else can enter it. */
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
                       "the folder %s of the control socket is open to others: chmod 700 it, or name one of your own",
                       name);
    }
    *folder = fd;
    return MR_OK;
}

/* Takes away what a run that is gone has left. */
static int make_room(const char *path) {
    struct stat found;
    int other;
    if (lstat(path, &found))
        return MR_OK;
    if (!S_ISSOCK(found.st_mode))
        return mr_fail(MR_ERROR_USAGE, "%s is there, and is no socket", path);
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
    /* What is allowed is so from the beginning: the socket takes it from its descriptor. */
    if (fd < 0 || fchmod(fd, 0600) || bind(fd, (struct sockaddr *)&address, sizeof address) ||
        listen(fd, MR_CONTROL_CLIENTS)) {
        int status = mr_fail(MR_ERROR_IO, "cannot listen at %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return status;
    }
    control.fd = fd;
    snprintf(control.path, sizeof control.path, "%s", path);
    mr_log(MR_LOG_INFO, "this run is controlled at %s", path);
    return MR_OK;
}

static int open_at(const char *path) {
    int folder = -1;
    int status = open_folder(path, &folder);
    if (status)
        return status;
    /* Two runs that begin at once do not take each other for gone. */
    if (flock(folder, LOCK_EX))
        status = mr_fail(MR_ERROR_IO, "cannot lock the folder of %s: %s", path, strerror(errno));
    if (!status)
        status = make_room(path);
    if (!status)
        status = listen_at(path);
    close(folder);
    return status;
}

int mr_control_open(const char *path) {
    char folder[MR_CONTROL_PATH], name[MR_CONTROL_PATH];
    if (path && strcmp(path, "off") == 0)
        return MR_OK;
    if (path && strlen(path) >= MR_CONTROL_PATH)
        return mr_fail(MR_ERROR_USAGE, "%s is too long for a socket, which may have %d bytes", path,
                       MR_CONTROL_PATH - 1);
    if (path)
        return open_at(path);
    if (!mr_control_folder(folder))
        return MR_OK;
    /* Nobody has asked for this one. */
    if (mr_control_name(folder, getpid(), name) || open_at(name))
        mr_log(MR_LOG_INFO, "this run cannot be controlled: %s", mr_message());
    return MR_OK;
}

static void let_go(client *one) {
    close(one->fd);
    one->fd = 0;
    one->length = 0;
}

void mr_control_close(void) {
    if (!control.fd)
        return;
    for (int i = 0; i < MR_CONTROL_CLIENTS; i++)
        if (control.clients[i].fd)
            let_go(&control.clients[i]);
    unlink(control.path);
    close(control.fd);
    control.fd = 0;
}

/* ---- clients --------------------------------------------------------------------------------------------------- */

static void take_client(void) {
    struct ucred who;
    socklen_t bytes = sizeof who;
    int fd = accept4(control.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    client *place = NULL;
    for (int i = 0; i < MR_CONTROL_CLIENTS && !place; i++)
        place = control.clients[i].fd ? NULL : &control.clients[i];
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && (who.uid == geteuid() || who.uid == 0);
    if (!place || !known || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &PATIENCE, sizeof PATIENCE)) {
        close(fd);
        return;
    }
    place->fd = fd;
    place->length = 0;
}

static bool send_all(int fd, const char *text, size_t length) {
    while (length > 0) {
        ssize_t sent = send(fd, text, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        text += sent;
        length -= (size_t)sent;
    }
    return true;
}

static bool answer(client *one, const char *request, mr_pipeline *pipeline) {
    size_t length = 0;
    char *text = mr_control_answer(request, pipeline, &length);
    bool sent = text && send_all(one->fd, text, length);
    free(text);
    return sent;
}

/* Reads what has come and answers each whole line. */
static void read_client(client *one, mr_pipeline *pipeline) {
    ssize_t got = recv(one->fd, one->text + one->length, sizeof one->text - one->length, MSG_DONTWAIT);
    bool stays = got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
    one->length += got > 0 ? (size_t)got : 0;
    for (char *end; stays && (end = memchr(one->text, '\n', one->length));) {
        size_t line = (size_t)(end - one->text) + 1;
        *end = 0;
        stays = answer(one, one->text, pipeline);
        one->length -= line;
        memmove(one->text, end + 1, one->length);
    }
    if (!stays || one->length == sizeof one->text)
        let_go(one);
}

size_t mr_control_fds(struct pollfd *fds) {
    size_t count = 0;
    if (!control.fd)
        return 0;
    fds[count++] = (struct pollfd){.fd = control.fd, .events = POLLIN};
    for (int i = 0; i < MR_CONTROL_CLIENTS; i++)
        if (control.clients[i].fd)
            fds[count++] = (struct pollfd){.fd = control.clients[i].fd, .events = POLLIN};
    return count;
}

void mr_control_serve(const struct pollfd *fds, size_t count, mr_pipeline *pipeline) {
    for (size_t i = 1; i < count; i++)
        for (int c = 0; fds[i].revents && c < MR_CONTROL_CLIENTS; c++)
            if (control.clients[c].fd == fds[i].fd)
                read_client(&control.clients[c], pipeline);
    if (count > 0 && fds[0].revents)
        take_client();
}
