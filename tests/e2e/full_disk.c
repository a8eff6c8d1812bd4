/* A disk that is full, for programs that need no mount for it: preloaded before the command, it lets a write to a file
 * below $FULL_FOLDER take only half of what is given, and then fails those that follow with ENOSPC, as long as the file
 * $FULL_WHILE is there. A folder in a folder below $FULL_FOLDER cannot be made meanwhile. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder that is full now; NULL: none. */
static const char *full_folder(void) {
    const char *folder = getenv("FULL_FOLDER"), *flag = getenv("FULL_WHILE");
    return folder && flag && !access(flag, F_OK) ? folder : NULL;
}

static int is_full(int fd) {
    const char *folder = full_folder();
    char link[64], path[4096];
    if (!folder)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    return strncmp(path, folder, strlen(folder)) == 0;
}

ssize_t write(int fd, const void *data, size_t bytes) {
    static __thread int halved;
    ssize_t (*next)(int, const void *, size_t);
    *(void **)&next = dlsym(RTLD_NEXT, "write");
    if (!is_full(fd))
        return next(fd, data, bytes);
    halved = !halved;
    if (halved && bytes > 1)
        return next(fd, data, bytes / 2);
    errno = ENOSPC;
    return -1;
}

int mkdir(const char *path, mode_t mode) {
    int (*next)(const char *, mode_t);
    const char *folder = full_folder();
    const size_t length = folder ? strlen(folder) : 0;
    *(void **)&next = dlsym(RTLD_NEXT, "mkdir");
    if (!folder || strncmp(path, folder, length) != 0 || !path[length] || !strchr(path + length + 1, '/'))
        return next(path, mode);
    errno = ENOSPC;
    return -1;
}
