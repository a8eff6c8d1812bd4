#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
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

static int take(const char *path, int fd, bool *regular) {
    struct stat found;
    if (fstat(fd, &found))
        return mr_file_fail("look at", path);
    *regular = S_ISREG(found.st_mode);
    if (!*regular)
        return MR_OK;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return mr_fail(MR_ERROR_IO, "%s is being written by another stage or program", path);
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
