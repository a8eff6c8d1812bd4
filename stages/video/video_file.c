#include "stages/video/video_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "stages/sink/keep.h"

enum { MOST_AGAIN = 10000 };

/* *exists: a file has that name. */
static int open_new(mr_video_file *file, mr_full *full, const mr_stage *self, bool *exists) {
    int fd = open(file->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_EXCL, 0666);
    int error = errno, status = fd < 0 ? mr_full_meet(full, self, error, file->path) : MR_OK;
    *exists = fd < 0 && error == EEXIST;
    errno = error;
    if (fd < 0)
        return status ? status : mr_file_fail("write to", file->path);
    flock(fd, LOCK_EX | LOCK_NB); /* other programs see that it is being written */
    file->fd = fd;
    return MR_OK;
}

int mr_video_file_make(mr_video_file *file, const mr_file_names *names, uint64_t number, int64_t begun_ns,
                       bool replaces, mr_full *full, const mr_stage *self) {
    bool regular = false, exists = true;
    int status = MR_OK;
    *file = (mr_video_file){0};
    for (int again = 0; exists && again < MOST_AGAIN; again++) {
        status = mr_file_name_print(file->name, names->pattern, names->source, number, begun_ns / 1000000000, again);
        if (status)
            return status;
        if (snprintf(file->path, sizeof file->path, "%s/%s", names->folder, file->name) >= (int)sizeof file->path)
            return mr_fail(MR_ERROR_IO, "%s: the path is too long", names->folder);
        if (replaces) {
            exists = false;
            status = mr_file_take(file->path, &file->fd, &regular);
        } else {
            status = open_new(file, full, self, &exists);
        }
    }
    if (!status)
        mr_keep_mark(self, file->fd);
    return status;
}

int mr_video_file_write(mr_video_file *file, mr_muxer *muxer, mr_full *full, const mr_stage *self) {
    size_t bytes;
    const uint8_t *data = mr_muxer_bytes(muxer, &bytes);
    while (file->written < bytes) {
        ssize_t done = write(file->fd, data + file->written, bytes - file->written);
        if (done < 0 && errno != EINTR) {
            int error = errno, status = mr_full_meet(full, self, error, file->path);
            errno = error;
            return status ? status : mr_file_fail("write to", file->path);
        }
        file->written += done > 0 ? (size_t)done : 0;
    }
    if (bytes)
        mr_full_pass(full, self, file->path);
    mr_muxer_forget(muxer);
    file->written = 0;
    return MR_OK;
}

int mr_video_file_close(mr_video_file *file) {
    int fd = file->fd;
    file->fd = 0;
    file->ending = false;
    if (fd && close(fd))
        return mr_file_fail("write to", file->path);
    return MR_OK;
}
