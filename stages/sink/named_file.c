#include "stages/sink/named_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include "engine/base/file.h"
#include "stages/sink/keep.h"

enum { MOST_AGAIN = 10000 };

/* *exists: a file has that name. */
static int open_new(mr_named_file *file, mr_full *full, const mr_stage *self, bool *exists) {
    int fd = open(file->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_EXCL, 0666);
    int error = errno, status = fd < 0 ? mr_full_meet(full, self, error, file->path) : MR_OK;
    *exists = fd < 0 && error == EEXIST;
    errno = error;
    if (fd < 0)
        return status ? status : mr_file_fail("write to", file->path);
    flock(fd, LOCK_EX | LOCK_NB);
    file->fd = fd;
    return MR_OK;
}

static int open_again(mr_named_file *file, mr_full *full, const mr_stage *self, bool *exists) {
    bool regular = false;
    if (!file->replaces)
        return open_new(file, full, self, exists);
    *exists = false;
    return mr_file_take(file->path, &file->fd, &regular);
}

int mr_named_file_make(mr_named_file *file, const mr_file_names *names, uint64_t number, int64_t begun_ns,
                       mr_full *full, const mr_stage *self) {
    bool exists = true;
    int status = MR_OK;
    file->fd = 0;
    for (int again = 0; exists && again < MOST_AGAIN; again++) {
        status = mr_file_name_print(file->name, names->pattern, names->source, number, begun_ns / 1000000000, again);
        if (status)
            return status;
        if (snprintf(file->path, sizeof file->path, "%s/%s", names->folder, file->name) >= (int)sizeof file->path)
            return mr_fail(MR_ERROR_IO, "%s: the path is too long", names->folder);
        status = open_again(file, full, self, &exists);
    }
    if (!status)
        mr_keep_mark(self, file->fd);
    return status;
}
