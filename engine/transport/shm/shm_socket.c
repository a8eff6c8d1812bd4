#include "engine/transport/shm/shm_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "millrace/status.h"

enum { BACKLOG = 64 };

static int unavailable(const char *what) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: %s: %s", what, strerror(errno));
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

static int open_socket(int *fd) {
    *fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *fd < 0 ? unavailable("socket") : MR_OK;
}

static int address_of(const char *path, struct sockaddr_un *address) {
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: the path of the socket is longer than %zu bytes: %s",
                       sizeof address->sun_path - 1, path);
    strcpy(address->sun_path, path);
    return MR_OK;
}

static int listen_at(const char *path, int *fd) {
    struct sockaddr_un address;
    int status = address_of(path, &address);
    if (!status)
        status = open_socket(fd);
    if (!status && (bind(*fd, (struct sockaddr *)&address, sizeof address) || listen(*fd, BACKLOG)))
        status = unavailable(path);
    return status;
}

static void hold_spare(mr_shm_listener *listener) {
    listener->spare = fcntl(listener->fd, F_DUPFD_CLOEXEC, 0);
}

int mr_shm_listen(mr_shm_listener *listener, const char *parent) {
    *listener = (mr_shm_listener){.fd = -1, .spare = -1};
    /* If it cannot be made, the folder in it says so. */
    mkdir(parent, 0700);
    int status = mr_temp_folder_make(&listener->temp, parent);
    int length = status ? 0 : snprintf(listener->path, sizeof listener->path, "%s/shm", listener->temp.folder);
    if (length < 0 || (size_t)length >= sizeof listener->path)
        status =
            mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: no socket can be made in %s: its path is too long", parent);
    if (!status)
        status = listen_at(listener->path, &listener->fd);
    if (!status) {
        hold_spare(listener);
        return MR_OK;
    }
    mr_shm_unlisten(listener);
    return MR_ERROR_UNAVAILABLE;
}

void mr_shm_unlisten(mr_shm_listener *listener) {
    mr_temp_folder_remove(&listener->temp);
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->spare >= 0)
        close(listener->spare);
    *listener = (mr_shm_listener){.fd = -1, .spare = -1};
}

static int check_user(int fd) {
    struct ucred other;
    socklen_t bytes = sizeof other;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes))
        return unavailable("SO_PEERCRED");
    if (other.uid == geteuid())
        return MR_OK;
    return mr_fail(MR_ERROR_PERMISSION, "shared memory: the process %d at the other end belongs to another user (%u)",
                   (int)other.pid, other.uid);
}

/* Accepts the connection with the spare descriptor, and closes it. */
static int turn_away(mr_shm_listener *listener) {
    int status = unavailable("accept");
    if (listener->spare >= 0)
        close(listener->spare);
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    hold_spare(listener);
    return status;
}

int mr_shm_accept(mr_shm_listener *listener, int *fd) {
    *fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (*fd < 0 && (errno == EMFILE || errno == ENFILE))
        return turn_away(listener);
    if (*fd < 0)
        return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR ? MR_ERROR_AGAIN : unavailable("accept");
    int status = check_user(*fd);
    if (status)
        close(*fd);
    return status;
}

int mr_shm_connect(const char *path, int *fd) {
    struct sockaddr_un address;
    int status = address_of(path, &address);
    if (!status)
        status = open_socket(fd);
    if (status)
        return status;
    if (connect(*fd, (struct sockaddr *)&address, sizeof address))
        status = errno == EACCES ? mr_fail(MR_ERROR_PERMISSION, "shared memory: %s belongs to another user", path)
                                 : unavailable(path);
    if (!status)
        status = check_user(*fd);
    if (status)
        close(*fd);
    return status;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

typedef union passed {
    char bytes[CMSG_SPACE(MR_SHM_FDS * sizeof(int))];
    struct cmsghdr align;
} passed;

static void pass(struct msghdr *about, passed *room, const int *fds, size_t count) {
    memset(room, 0, sizeof *room);
    about->msg_control = room->bytes;
    about->msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *rights = CMSG_FIRSTHDR(about);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
}

int mr_shm_send(int fd, const mr_shm_message *message, const void *data, size_t bytes, const int *fds, size_t count) {
    struct iovec parts[2] = {{(void *)(uintptr_t)message, sizeof *message}, {(void *)(uintptr_t)data, bytes}};
    struct msghdr about = {.msg_iov = parts, .msg_iovlen = bytes ? 2 : 1};
    passed room;
    if (count)
        pass(&about, &room, fds, count);
    if (sendmsg(fd, &about, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
        return MR_OK;
    /* Too many descriptors under way are like too many bytes: the peer will fetch them. */
    if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS || errno == EINTR)
        return MR_ERROR_AGAIN;
    if (errno == EPIPE || errno == ECONNRESET)
        return mr_fail(MR_ERROR_CLOSED, "shared memory: the peer has left");
    return unavailable("sendmsg");
}

/* Takes all received descriptors, so that none leaks. */
static int take_fds(struct msghdr *about, mr_shm_received *received) {
    size_t count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(about); part; part = CMSG_NXTHDR(about, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t bytes = part->cmsg_len - CMSG_LEN(0);
        for (size_t i = 0; i < bytes / sizeof(int) && count < MR_SHM_FDS; i++)
            memcpy(&received->fds[count++], CMSG_DATA(part) + i * sizeof(int), sizeof(int));
    }
    /* The room is enough for all that may come, so the system had no descriptors to give. */
    if (about->msg_flags & MSG_CTRUNC)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: this process may open no more files");
    return MR_OK;
}

/* If the other end closed with unread data, the first call reports a reset, before the data that it had sent. */
static ssize_t receive(int fd, struct msghdr *about, int flags) {
    ssize_t got = recvmsg(fd, about, flags);
    return got < 0 && errno == ECONNRESET ? recvmsg(fd, about, flags) : got;
}

int mr_shm_receive(int fd, mr_shm_received *received, void *data, size_t room) {
    *received = (mr_shm_received){.fds = {-1, -1}};
    struct iovec parts[2] = {{&received->message, sizeof received->message}, {data, room}};
    passed control;
    struct msghdr about = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t got = receive(fd, &about, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? MR_ERROR_AGAIN : unavailable("recvmsg");
    if (got == 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: the other end has closed the connection");
    int status = take_fds(&about, received);
    if (!status && (about.msg_flags & MSG_TRUNC || (size_t)got < sizeof received->message))
        status = mr_fail(MR_ERROR_PROTOCOL, "shared memory: a message of the wrong size");
    if (status)
        mr_shm_close_received(received);
    else
        received->bytes = (size_t)got - sizeof received->message;
    return status;
}

void mr_shm_close_received(mr_shm_received *received) {
    for (size_t i = 0; i < MR_SHM_FDS; i++)
        if (received->fds[i] >= 0)
            close(received->fds[i]);
    received->fds[0] = received->fds[1] = -1;
}
