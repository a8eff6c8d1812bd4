#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/millrace/run/control.h"

static bool is_folder(const char *path) {
    struct stat found;
    return path && *path == '/' && stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static bool has(const mr_control_folders *folders, const char *path) {
    for (int i = 0; i < folders->count; i++)
        if (strcmp(folders->path[i], path) == 0)
            return true;
    return false;
}

static void add(mr_control_folders *folders, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(mr_control_folders *folders, const char *format, ...) {
    char path[MR_CONTROL_PATH];
    va_list list;
    va_start(list, format);
    int length = vsnprintf(path, sizeof path, format, list);
    va_end(list);
    if (length > 0 && length < MR_CONTROL_PATH && folders->count < MR_CONTROL_FOLDERS && !has(folders, path))
        strcpy(folders->path[folders->count++], path);
}

/* Folders that systemd made for services of other users (RuntimeDirectory=millrace/NAME). */
static void add_services(mr_control_folders *folders) {
    glob_t found;
    if (glob(MR_CONTROL_SERVICES "*/.", 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            add(folders, "%.*s", (int)strlen(found.gl_pathv[i]) - 2, found.gl_pathv[i]);
    globfree(&found);
}

void mr_control_find_folders(mr_control_folders *folders) {
    const char *own = getenv("MILLRACE_CONTROL"), *session = getenv("XDG_RUNTIME_DIR");
    const unsigned user = (unsigned)geteuid();
    char of_user[40];
    snprintf(of_user, sizeof of_user, "/run/user/%u", user);
    folders->count = 0;
    if (own && *own) {
        add(folders, "%s", own);
        return;
    }
    if (is_folder(session))
        add(folders, "%s/millrace", session);
    if (is_folder(of_user))
        add(folders, "%s/millrace", of_user);
    if (user == 0)
        add(folders, "/run/millrace");
    add(folders, "/tmp/millrace-%u", user);
    if (user == 0)
        add_services(folders);
}

int mr_control_fail_no_folder(void) {
    return mr_fail(MR_ERROR_USAGE, "the folder in MILLRACE_CONTROL is too long for the path of a socket, which may "
                                   "have %d bytes", MR_CONTROL_PATH - 1);
}

int mr_control_name(const char *folder, pid_t pid, char path[MR_CONTROL_PATH]) {
    int length = snprintf(path, MR_CONTROL_PATH, "%s/%ld.sock", folder, (long)pid);
    if (length > 0 && length < MR_CONTROL_PATH)
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE, "%s/%ld.sock is too long for a socket, which may have %d bytes", folder, (long)pid,
                   MR_CONTROL_PATH - 1);
}

static int connect_failed(const char *path) {
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return mr_fail(MR_ERROR_NO_INPUT, "there is no control socket %s", path);
    case ECONNREFUSED:
        return mr_fail(MR_ERROR_UNAVAILABLE, "the run that listened at %s has ended", path);
    case EACCES:
    case EPERM:
        return mr_fail(MR_ERROR_PERMISSION, "cannot connect to %s: %s", path, strerror(errno));
    case EAGAIN:
        return mr_fail(MR_ERROR_AGAIN, "the run that listens at %s does not answer: thousands of connections wait",
                       path);
    default:
        return mr_fail(MR_ERROR_IO, "cannot connect to %s: %s", path, strerror(errno));
    }
}

void mr_control_set_patience(int fd, int seconds) {
    const struct timeval patience = {.tv_sec = seconds};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

/* The system takes a connection at once, unless the run has left as many waiting as it can. */
enum { CONNECT_S = 1 };

int mr_control_connect(const char *path, int *fd) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return mr_fail(MR_ERROR_USAGE, "%s is too long for a socket, which may have %zu bytes", path,
                       sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made < 0)
        return mr_fail(MR_ERROR_IO, "cannot make a socket: %s", strerror(errno));
    mr_control_set_patience(made, CONNECT_S);
    int failed;
    do
        failed = connect(made, (struct sockaddr *)&address, sizeof address);
    while (failed && errno == EINTR);
    if (failed) {
        int status = connect_failed(path);
        close(made);
        return status;
    }
    mr_control_set_patience(made, 0);
    *fd = made;
    return MR_OK;
}

int mr_control_send(int fd, const char *request, size_t length) {
    if (length > MR_CONTROL_REQUEST)
        return mr_fail(MR_ERROR_USAGE, "the request has %zu bytes, and a run takes at most %d", length,
                       MR_CONTROL_REQUEST);
    for (ssize_t sent; length > 0; request += sent, length -= (size_t)sent) {
        do
            sent = send(fd, request, length, MSG_NOSIGNAL);
        while (sent < 0 && errno == EINTR);
        if (sent <= 0)
            return mr_fail(MR_ERROR_CLOSED, "the run no longer listens: %s", strerror(errno));
    }
    return MR_OK;
}

int mr_control_receive(int fd, char **answer) {
    size_t length = 0, room = 0;
    char *text = NULL;
    for (;;) {
        if (length + 1 >= room) {
            room = room ? 2 * room : MR_CONTROL_REQUEST;
            char *wider = room <= MR_CONTROL_ANSWER ? realloc(text, room) : NULL;
            if (!wider) {
                free(text);
                return mr_fail(MR_ERROR_PROTOCOL, "the answer is longer than %d bytes", MR_CONTROL_ANSWER);
            }
            text = wider;
        }
        ssize_t got = recv(fd, text + length, room - length - 1, 0);
        if (got <= 0 && !(got < 0 && errno == EINTR)) {
            free(text);
            if (got < 0 && errno == EAGAIN)
                return mr_fail(MR_ERROR_AGAIN, "the run does not answer");
            return length ? mr_fail(MR_ERROR_UNAVAILABLE, "the run has ended while it answered")
                          : mr_fail(MR_ERROR_CLOSED, "the run answers nothing");
        }
        length += got > 0 ? (size_t)got : 0;
        text[length] = 0;
        if (length > 0 && text[length - 1] == '\n') {
            text[length - 1] = 0;
            *answer = text;
            return MR_OK;
        }
    }
}
