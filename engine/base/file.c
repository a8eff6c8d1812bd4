#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/status.h"

int mr_file_fail(const char *verb, const char *path) {
    int error = errno;
    const char *hint = error == ENXIO ? " (a FIFO that nobody reads)" : "";
    int status = error == EACCES || error == EPERM || error == EROFS ? MR_ERROR_PERMISSION : MR_ERROR_IO;
    return mr_fail(status, "cannot %s %s: %s%s", verb, path, strerror(error), hint);
}

static int look(const char *path, int fd, bool *regular) {
    struct stat found;
    if (fstat(fd, &found))
        return mr_file_fail("look at", path);
    *regular = S_ISREG(found.st_mode);
    if (*regular && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return mr_fail(MR_ERROR_IO, "%s is being written by another stage or program", path);
    return MR_OK;
}

static int take(const char *path, int fd, bool *regular) {
    int status = look(path, fd, regular);
    if (status || !*regular)
        return status;
    return ftruncate(fd, 0) ? mr_file_fail("empty", path) : MR_OK;
}

int mr_file_take(const char *path, int *fd, bool *regular) {
    /* Not waiting keeps a FIFO without a reader from holding up the start for ever. */
    int opened = open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (opened < 0)
        return mr_file_fail("write to", path);
    int status = take(path, opened, regular);
    if (status)
        close(opened);
    else
        *fd = opened;
    return status;
}

int mr_file_continue(const char *path, int *fd) {
    bool regular = false;
    int opened = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (opened < 0 && errno == ENOENT)
        return mr_fail(MR_ERROR_NO_INPUT, "%s is not there", path);
    if (opened < 0)
        return mr_file_fail("write to", path);
    int status = look(path, opened, &regular);
    if (!status && !regular)
        status = mr_fail(MR_ERROR_IO, "%s is no regular file", path);
    if (status)
        close(opened);
    else
        *fd = opened;
    return status;
}

/* ---- replacing ------------------------------------------------------------------------------------------------- */

enum { PATH_BYTES = 4096 };

static int write_new(const char *path, const void *content, size_t bytes) {
    const char *at = content;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0)
        return mr_file_fail("write to", path);
    while (bytes > 0) {
        ssize_t done = write(fd, at, bytes);
        if (done < 0 && errno != EINTR)
            break;
        at += done > 0 ? done : 0;
        bytes -= done > 0 ? (size_t)done : 0;
    }
    int status = bytes || fsync(fd) ? mr_file_fail("write to", path) : MR_OK;
    close(fd);
    return status;
}

/* The renaming is on the disk. Some file systems know no such thing of folders. */
static int sync_folder(const char *path) {
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return mr_file_fail("look into", slash ? folder : ".");
    int failed = fsync(fd) && errno != EINVAL;
    int status = failed ? mr_file_fail("write to", folder) : MR_OK;
    close(fd);
    return status;
}

int mr_file_replace(const char *path, const void *content, size_t bytes) {
    char part[PATH_BYTES];
    if ((size_t)snprintf(part, sizeof part, "%s.part", path) >= sizeof part)
        return mr_fail(MR_ERROR_IO, "%s: the path is too long", path);
    int status = write_new(part, content, bytes);
    if (!status && rename(part, path))
        status = mr_file_fail("write to", path);
    if (status)
        unlink(part);
    return status ? status : sync_folder(path);
}
