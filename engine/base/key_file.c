#include "engine/base/key_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/status.h"

enum { PATH_BYTES = 4096 };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

int mr_key_file_open(const char *path, const char *maker, FILE **file) {
    struct stat found;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return mr_fail(MR_ERROR_NO_INPUT,
                       "there is no key file %s: `%s` makes one, with its public key beside it", path, maker);
    if (fd < 0)
        return mr_file_fail("read", path);
    *file = !fstat(fd, &found) && S_ISREG(found.st_mode) ? fdopen(fd, "r") : NULL;
    if (*file)
        return MR_OK;
    close(fd);
    return mr_fail(MR_ERROR_DATA, "the key %s is not a regular file", path);
}

/* The rule of libpq: root's file may be read by the group that root gave it to. */
static bool is_secret(const struct stat *found) {
    return !(found->st_mode & (found->st_uid == 0 ? 037 : 077));
}

int mr_secret_file_check(int fd, const char *path, const char *what) {
    struct stat found;
    if (fstat(fd, &found))
        return mr_file_fail("look at", path);
    if (!is_secret(&found))
        return mr_fail(MR_ERROR_PERMISSION, "%s holds %s, but others may read or change it (mode %03o): restrict it "
                                            "(chmod 600)", path, what, (unsigned)(found.st_mode & 0777));
    return MR_OK;
}

int mr_secret_file_read(const char *path, const char *what, char *text, size_t room) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return mr_fail(mr_file_status(errno), "%s cannot be read from %s: %s", what, path, strerror(errno));
    int status = mr_secret_file_check(fd, path, what);
    ssize_t bytes = status ? 0 : read(fd, text, room);
    if (bytes < 0)
        status = mr_file_fail("read", path);
    close(fd);
    const size_t read_bytes = bytes > 0 ? (size_t)bytes : 0;
    size_t length = 0;
    while (length < read_bytes && !strchr("\r\n", text[length]))
        length++;
    if (!status && (length == 0 || length == room))
        status = mr_fail(MR_ERROR_DATA, length ? "%s: %s in its first line has at most %zu bytes"
                                               : "%s is empty, and %s of up to %zu bytes is expected", path, what,
                         room - 1);
    text[status ? 0 : length] = 0;
    return status;
}

int mr_trusted_file_check(int fd, const char *path, const char *what) {
    struct stat found;
    if (fstat(fd, &found))
        return mr_file_fail("look at", path);
    if (found.st_mode & 002)
        return mr_fail(MR_ERROR_PERMISSION, "%s says %s is trusted, but all users may change it (mode %03o): restrict "
                                            "it (chmod 644)", path, what, (unsigned)(found.st_mode & 0777));
    return MR_OK;
}

int mr_key_file_check_private(FILE *file, const char *path) {
    struct stat found;
    if (fstat(fileno(file), &found))
        return mr_file_fail("look at", path);
    const size_t length = strlen(path);
    if (found.st_mode & 077 && length > 4 && strcmp(path + length - 4, ".pub") == 0)
        return mr_fail(MR_ERROR_PERMISSION, "%s is the public key of a pair, by its name; what is needed is the secret "
                                            "one beside it, NAME.key", path);
    return mr_secret_file_check(fileno(file), path, "a secret key");
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* A file that must not be there yet. */
static int write_new(const char *path, mode_t mode, const char *text) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0 && errno == EEXIST)
        return mr_fail(MR_ERROR_IO, "%s exists already, and keys are not overwritten: use another name, or remove it "
                                    "if no peer trusts it any more", path);
    if (fd < 0)
        return mr_file_fail("write to", path);
    size_t bytes = strlen(text);
    bool whole = write(fd, text, bytes) == (ssize_t)bytes && fsync(fd) == 0;
    int status = whole ? MR_OK : mr_file_fail("write to", path);
    close(fd);
    if (status)
        unlink(path);
    return status;
}

int mr_key_file_write(const char *folder, const char *name, const char *private_text, const char *public_text) {
    char private_path[PATH_BYTES], public_path[PATH_BYTES];
    if (!*name || *name == '.' || strchr(name, '/'))
        return mr_fail(MR_ERROR_USAGE, "\"%s\" cannot be the name of a file", name);
    int length = snprintf(private_path, sizeof private_path, "%s/%s.key", folder, name);
    snprintf(public_path, sizeof public_path, "%s/%s.pub", folder, name);
    if (length < 0 || (size_t)length >= sizeof private_path)
        return mr_fail(MR_ERROR_IO, "%s: the path is too long", folder);
    if (mkdir(folder, 0700) && errno != EEXIST)
        return mr_file_fail("make the folder", folder);
    int status = write_new(private_path, 0600, private_text);
    if (status)
        return status;
    status = write_new(public_path, 0644, public_text);
    if (status)
        unlink(private_path);
    return status;
}
