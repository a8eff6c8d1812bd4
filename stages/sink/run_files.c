#include "stages/sink/run_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/status.h"

int mr_run_files_begin(const char *list) {
    return unlink(list) && !access(list, F_OK) ? mr_file_fail("remove", list) : MR_OK;
}

int mr_run_files_add(const char *list, const char *path) {
    const size_t bytes = strlen(path);
    const struct iovec parts[] = {{.iov_base = (void *)(uintptr_t)path, .iov_len = bytes},
                                  {.iov_base = "\n", .iov_len = 1}};
    int fd = open(list, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666);
    bool done = fd >= 0 && writev(fd, parts, 2) == (ssize_t)bytes + 1 && (!fdatasync(fd) || errno == EINVAL);
    int status = done ? MR_OK : mr_file_fail("write to", list);
    if (fd >= 0)
        close(fd);
    return status;
}

int mr_run_files_read(const char *list, int (*take)(void *context, const char *path), void *context) {
    FILE *file = fopen(list, "re");
    char *line = NULL;
    size_t room = 0;
    int status = file || errno == ENOENT ? MR_OK : mr_file_fail("read", list);
    for (ssize_t bytes; file && !status && (bytes = getline(&line, &room, file)) > 0 && line[bytes - 1] == '\n';) {
        line[bytes - 1] = '\0';
        status = take(context, line);
    }
    free(line);
    if (file)
        fclose(file);
    return status;
}
