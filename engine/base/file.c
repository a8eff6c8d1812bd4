#include "engine/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* If the path's part before the last slash is no folder: how many of its bytes to name. 0: it is one. */
static int missing_folder(const char *path) {
    char folder[PATH_MAX];
    struct stat found;
    const char *slash = strrchr(path, '/');
    const int length = slash && slash > path && slash - path < PATH_MAX ? (int)(slash - path) : 0;
    snprintf(folder, sizeof folder, "%.*s", length, path);
    return length && stat(folder, &found) ? length : 0;
}

int mr_file_status(int error) {
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
        return MR_ERROR_NO_INPUT;
    case EACCES:
    case EPERM:
    case EROFS:
        return MR_ERROR_PERMISSION;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return MR_ERROR_MEMORY;
    default:
        return MR_ERROR_IO;
    }
}

int mr_file_fail(const char *verb, const char *path) {
    const int error = errno, missing = error == ENOENT ? missing_folder(path) : 0;
    const char *hint = error == ENXIO ? " (a FIFO without a reader)" : "";
    const int found = mr_file_status(error), status = found == MR_ERROR_NO_INPUT ? MR_ERROR_IO : found;
    if (missing)
        return mr_fail(status, "cannot %s %s: there is no folder %.*s", verb, path, missing, path);
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
    return mr_file_empty(path, fd);
}

int mr_file_empty(const char *path, int fd) {
    return ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) ? mr_file_fail("empty", path) : MR_OK;
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

static int open_regular(const char *path, int flags, int *fd) {
    bool regular = false;
    int opened = open(path, O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0666);
    if (opened < 0 && errno == ENOENT)
        return mr_fail(MR_ERROR_NO_INPUT, "%s does not exist", path);
    if (opened < 0)
        return mr_file_fail("write to", path);
    int status = look(path, opened, &regular);
    if (!status && !regular)
        status = mr_fail(MR_ERROR_IO, "%s is not a regular file", path);
    if (status)
        close(opened);
    else
        *fd = opened;
    return status;
}

int mr_file_continue(const char *path, int *fd) {
    return open_regular(path, 0, fd);
}

int mr_file_append(const char *path, int *fd) {
    return open_regular(path, O_CREAT | O_APPEND, fd);
}

int mr_file_write_at(const char *path, int fd, const void *data, size_t bytes, int64_t at) {
    const char *from = data;
    while (bytes > 0) {
        ssize_t written = pwrite(fd, from, bytes, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return mr_file_fail("write", path);
        from += written;
        at += written;
        bytes -= (size_t)written;
    }
    return MR_OK;
}

/* ---- replacing ------------------------------------------------------------------------------------------------- */

enum { PATH_BYTES = 4096 };

/* A dead process left the existing file, or another program made it. This removes a link itself, not what it points
 * to. */
static int open_new(const char *path) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
    int fd = open(path, flags, 0666);
    if (fd < 0 && errno == EEXIST && !unlink(path))
        fd = open(path, flags, 0666);
    return fd;
}

static int write_new(const char *path, const void *content, size_t bytes) {
    const char *at = content;
    int fd = open_new(path);
    if (fd < 0)
        return mr_file_fail("write to", path);
    while (bytes > 0) {
        ssize_t done = write(fd, at, bytes);
        if (done < 0 && errno != EINTR)
            break;
        at += done > 0 ? done : 0;
        bytes -= done > 0 ? (size_t)done : 0;
    }
    int status = bytes || fsync(fd) ? mr_file_fail("write to", path) : MR_OK, error = errno;
    close(fd);
    errno = error;
    return status;
}

/* The folder that a file is in; `folder` must have PATH_BYTES bytes. */
static void folder_of(const char *path, char *folder) {
    snprintf(folder, PATH_BYTES, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    else
        snprintf(folder, PATH_BYTES, ".");
}

/* Some file systems cannot do this for folders. */
int mr_file_sync_folder(const char *path) {
    char folder[PATH_BYTES];
    folder_of(path, folder);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return mr_file_fail("look into", folder);
    int failed = fsync(fd) && errno != EINVAL;
    int status = failed ? mr_file_fail("write to", folder) : MR_OK;
    close(fd);
    return status;
}

int mr_file_can_make(const char *path) {
    char folder[PATH_BYTES];
    folder_of(path, folder);
    return access(folder, W_OK | X_OK) ? mr_file_fail("write to", path) : MR_OK;
}

int mr_file_make_folder(const char *path) {
    return mkdir(path, 0777) && errno != EEXIST ? mr_file_fail("make", path) : MR_OK;
}

int mr_file_make_folder_of(const char *path) {
    char folder[PATH_BYTES];
    folder_of(path, folder);
    return mr_file_make_folder(folder);
}

/* Changes the path while it works. */
static int make_folders(char *path, unsigned mode) {
    for (char *at = path + 1;; at++) {
        const char kept = *at;
        if (kept && kept != '/')
            continue;
        *at = 0;
        const bool failed = access(path, F_OK) && mkdir(path, mode) && errno != EEXIST;
        const int status = failed ? mr_file_fail("make", path) : MR_OK;
        *at = kept;
        if (failed || !kept)
            return status;
    }
}

/* $VARIABLE/millrace/NAME, else ~/FALLBACK/millrace/NAME. */
static int make_own(const char *variable, const char *fallback, const char *name, unsigned mode, char *folder,
                    size_t room) {
    const char *base = getenv(variable), *home = getenv("HOME");
    size_t length;
    if (base && *base == '/')
        length = (size_t)snprintf(folder, room, "%s/millrace/%s", base, name);
    else if (home && *home == '/')
        length = (size_t)snprintf(folder, room, "%s/%s/millrace/%s", home, fallback, name);
    else
        return mr_fail(MR_ERROR_IO, "neither %s nor HOME names a folder: set %s to one", variable, variable);
    if (length >= room)
        return mr_fail(MR_ERROR_IO, "the name of the folder millrace/%s is too long", name);
    const int status = make_folders(folder, mode);
    char why[256];
    snprintf(why, sizeof why, "%s", status ? mr_message() : "");
    return status ? mr_fail(status, "%s: set %s to a folder that you may write", why, variable) : MR_OK;
}

int mr_file_cache_folder(const char *name, const char *given, unsigned mode, char *folder, size_t room) {
    if (!given)
        return make_own("XDG_CACHE_HOME", ".cache", name, mode, folder, room);
    if ((size_t)snprintf(folder, room, "%s", given) >= room)
        return mr_fail(MR_ERROR_IO, "the name of the cache's folder is too long");
    return make_folders(folder, mode);
}

int mr_file_state_folder(const char *name, char *folder, size_t room) {
    return make_own("XDG_STATE_HOME", ".local/state", name, 0700, folder, room);
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    remove(path);
    return 0;
}

void mr_file_remove_folder(const char *folder) {
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

int mr_file_can_replace(const char *path) {
    struct stat found;
    if (stat(path, &found) || S_ISREG(found.st_mode))
        return MR_OK;
    errno = S_ISDIR(found.st_mode) ? EISDIR : EEXIST;
    return mr_fail(MR_ERROR_IO, "%s is not a regular file, and is not replaced by one: name a file", path);
}

int mr_file_replace(const char *path, const void *content, size_t bytes) {
    char part[PATH_BYTES];
    if ((size_t)snprintf(part, sizeof part, "%s.part", path) >= sizeof part)
        return mr_fail(MR_ERROR_IO, "%s: the path is too long", path);
    int status = mr_file_can_replace(path);
    if (status)
        return status;
    status = write_new(part, content, bytes);
    if (!status && rename(part, path))
        status = mr_file_fail("write to", path);
    int error = errno;
    if (status)
        unlink(part);
    errno = error;
    return status ? status : mr_file_sync_folder(path);
}

/* ---- locking --------------------------------------------------------------------------------------------------- */

/* True if the path still leads to the file: the lock's previous holder may have removed it. */
static bool is_there(const char *path, int fd) {
    struct stat open_one, named;
    return !fstat(fd, &open_one) && !lstat(path, &named) && open_one.st_dev == named.st_dev &&
           open_one.st_ino == named.st_ino;
}

static int refuse_locked(const char *path, int fd) {
    char owner[24] = "";
    ssize_t got = pread(fd, owner, sizeof owner - 1, 0);
    size_t digits = got > 0 ? strspn(owner, "0123456789") : 0;
    owner[digits] = '\0';
    return mr_fail(MR_ERROR_IO, "%s is in use by another run%s%s%s; end that run, or use another file for this one",
                   path, digits ? " (process " : "", owner, digits ? ")" : "");
}

/* Opens and locks "NAME.lock"; *fd is -1 if it was removed in between. */
static int try_lock(const char *path, const char *lock, int *fd) {
    char owner[24];
    int opened = open(lock, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (opened < 0)
        return mr_file_fail("write to", lock);
    bool locked = flock(opened, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    int status = locked ? refuse_locked(path, opened) : MR_OK;
    int length = snprintf(owner, sizeof owner, "%ld\n", (long)getpid());
    if (!status && is_there(lock, opened)) {
        *fd = opened;
        return ftruncate(opened, 0) || pwrite(opened, owner, (size_t)length, 0) < 0 ? mr_file_fail("write to", lock)
                                                                                    : MR_OK;
    }
    close(opened);
    errno = locked ? EWOULDBLOCK : errno;
    return status;
}

int mr_file_lock(const char *path, int *fd) {
    char lock[PATH_BYTES];
    int status = MR_OK, locked = -1;
    if ((size_t)snprintf(lock, sizeof lock, "%s.lock", path) >= sizeof lock) {
        errno = ENAMETOOLONG;
        return mr_fail(MR_ERROR_IO, "%s: the path is too long", path);
    }
    while (!status && locked < 0)
        status = try_lock(path, lock, &locked);
    if (status && locked >= 0)
        mr_file_unlock(path, locked);
    else if (!status)
        *fd = locked;
    return status;
}

/* Removed while it is locked, so that no other process owns it. */
void mr_file_unlock(const char *path, int fd) {
    char lock[PATH_BYTES];
    if (fd < 0)
        return;
    if ((size_t)snprintf(lock, sizeof lock, "%s.lock", path) < sizeof lock && is_there(lock, fd))
        unlink(lock);
    close(fd);
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static int judge(const char *what, const char *path, int fd, size_t most, size_t *bytes) {
    struct stat found;
    if (fstat(fd, &found))
        return mr_fail(MR_ERROR_IO, "cannot read %s %s: %s", what, path, strerror(errno));
    if (S_ISDIR(found.st_mode))
        return mr_fail(MR_ERROR_DATA, "%s %s is a folder, not a file", what, path);
    if (!S_ISREG(found.st_mode))
        return mr_fail(MR_ERROR_DATA, "%s %s is not a file", what, path);
    if (found.st_size == 0)
        return mr_fail(MR_ERROR_DATA, "%s %s is an empty file", what, path);
    if ((uint64_t)found.st_size > most)
        return mr_fail(MR_ERROR_DATA, "%s %s has %lld bytes, and at most %zu are read", what, path,
                       (long long)found.st_size, most);
    *bytes = (size_t)found.st_size;
    return MR_OK;
}

static int read_bytes(const char *what, const char *path, int fd, mr_file_bytes *to) {
    for (size_t done = 0; done < to->bytes;) {
        ssize_t got = read(fd, to->data + done, to->bytes - done);
        if (got < 0 && errno != EINTR)
            return mr_fail(MR_ERROR_IO, "cannot read %s %s: %s", what, path, strerror(errno));
        if (got == 0)
            return mr_fail(MR_ERROR_DATA, "%s %s has become shorter while it was read", what, path);
        done += got > 0 ? (size_t)got : 0;
    }
    to->data[to->bytes] = 0;
    return MR_OK;
}

int mr_file_read(const char *what, const char *path, size_t most, size_t room, mr_file_bytes *to) {
    mr_file_bytes made = {0};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return mr_fail(mr_file_status(errno), "cannot read %s %s: %s", what, path, strerror(errno));
    int status = judge(what, path, fd, most, &made.bytes);
    if (!status && !(made.data = mr_alloc(made.bytes + room + 1)))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for %s %s", what, path);
    if (!status)
        status = read_bytes(what, path, fd, &made);
    close(fd);
    if (status)
        mr_free(made.data);
    else
        *to = made;
    return status;
}

bool mr_file_head(char *text, size_t room, const char *path, ...) {
    char whole[PATH_BYTES];
    va_list arguments;
    va_start(arguments, path);
    int length = vsnprintf(whole, sizeof whole, path, arguments);
    va_end(arguments);
    FILE *file = length < (int)sizeof whole ? fopen(whole, "re") : NULL;
    text[file ? fread(text, 1, room - 1, file) : 0] = '\0';
    if (file)
        fclose(file);
    return file != NULL;
}
