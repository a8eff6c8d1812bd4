/* System calls that a fake of a V4L2 device takes for its own node. The real ones get all others. */
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>

#define REAL(name) ((__typeof__(&name))(uintptr_t)dlsym(RTLD_NEXT, #name))

/* Defines open and open64: `take()` gives the descriptor of the device at `path`. */
#define WRAP_OPEN(function, node, take)                                                                               \
    int function(const char *path, int flags, ...) {                                                                  \
        va_list arguments;                                                                                            \
        va_start(arguments, flags);                                                                                   \
        const unsigned mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, unsigned) : 0;                      \
        va_end(arguments);                                                                                            \
        return strcmp(path, node) == 0 ? take() : REAL(function)(path, flags, mode);                                  \
    }
#define WRAP_OPENS(node, take) WRAP_OPEN(open, node, take) WRAP_OPEN(open64, node, take)

/* Defines ioctl: `is_own(fd)` finds the device's descriptors, for which `take(fd, number, argument)` answers. */
#define WRAP_IOCTL(is_own, take)                                                                                      \
    int ioctl(int fd, unsigned long number, ...) {                                                                    \
        va_list arguments;                                                                                            \
        va_start(arguments, number);                                                                                  \
        void *argument = va_arg(arguments, void *);                                                                   \
        va_end(arguments);                                                                                            \
        return is_own(fd) ? take(fd, number, argument) : REAL(ioctl)(fd, number, argument);                           \
    }
