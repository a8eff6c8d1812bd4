#include "stages/video/video_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "stages/sink/named_file.h"

int mr_video_file_make(mr_video_file *file, const mr_file_names *names, uint64_t number, int64_t begun_ns,
                       bool replaces, mr_full *full, const mr_stage *self) {
    mr_named_file made = {.replaces = replaces};
    int status = mr_named_file_make(&made, names, number, begun_ns, full, self);
    *file = (mr_video_file){.fd = made.fd};
    memcpy(file->name, made.name, sizeof file->name);
    memcpy(file->path, made.path, sizeof file->path);
    return status;
}

static int fail_write(const mr_video_file *file, mr_full *full, const mr_stage *self) {
    int error = errno, status = mr_full_meet(full, self, error, file->path);
    errno = error;
    return status ? status : mr_file_fail("write to", file->path);
}

/* If called again, it writes all of them again. */
static int write_patches(const mr_video_file *file, const mr_muxer *muxer, mr_full *full, const mr_stage *self) {
    size_t count;
    const mr_muxer_patch *patches = mr_muxer_patches(muxer, &count);
    for (size_t i = 0; i < count; i++) {
        errno = ENOSPC; /* part of it was written */
        const ssize_t done = pwrite(file->fd, patches[i].data, patches[i].bytes, patches[i].at);
        if (done != (ssize_t)patches[i].bytes && errno != ESPIPE)
            return fail_write(file, full, self);
    }
    return MR_OK;
}

int mr_video_file_write(mr_video_file *file, mr_muxer *muxer, mr_full *full, const mr_stage *self) {
    size_t bytes;
    const uint8_t *data = mr_muxer_bytes(muxer, &bytes);
    while (file->written < bytes) {
        ssize_t done = write(file->fd, data + file->written, bytes - file->written);
        if (done < 0 && errno != EINTR)
            return fail_write(file, full, self);
        file->written += done > 0 ? (size_t)done : 0;
    }
    int status = write_patches(file, muxer, full, self);
    if (status == MR_ERROR_AGAIN)
        return status;
    if (bytes)
        mr_full_pass(full, self, file->path);
    mr_muxer_forget(muxer);
    file->written = 0;
    return status;
}

int mr_video_file_close(mr_video_file *file) {
    int fd = file->fd;
    file->fd = 0;
    file->ending = false;
    if (fd && close(fd))
        return mr_file_fail("write to", file->path);
    return MR_OK;
}
