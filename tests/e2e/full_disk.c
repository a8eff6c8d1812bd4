/* A disk that is full, for programs that need no mount for it: preloaded before the command, it lets a write to a file
 * below $FULL_FOLDER take only half of what is given, and then fails those that follow with ENOSPC, as long as the file
 * $FULL_WHILE is there. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_full(int fd) {
    const char *folder = getenv("FULL_FOLDER"), *flag = getenv("FULL_WHILE");
    char link[64], path[4096];
    if (!folder || !flag || access(flag, F_OK))
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
