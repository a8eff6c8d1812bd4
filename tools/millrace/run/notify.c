#include "tools/millrace/run/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
    struct sockaddr_un to;
    socklen_t length; /* 0: no service manager */
    int64_t watchdog_ns;
} manager;

/* WATCHDOG_PID, if set, names the process that the watchdog monitors. */
static int64_t read_watchdog(void) {
    const char *every = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!every || (pid && atol(pid) != (long)getpid()))
        return 0;
    return strtoll(every, NULL, 10) * 1000 / 2;
}

void mr_notify_begin(void) {
    const char *path = getenv("NOTIFY_SOCKET");
    manager.length = 0;
    manager.watchdog_ns = path ? read_watchdog() : 0;
    if (path && (*path == '/' || *path == '@') && strlen(path) < sizeof manager.to.sun_path) {
        manager.to = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(manager.to.sun_path, path, strlen(path));
        /* A name that begins with @ is abstract: the first byte is zero. */
        if (*path == '@')
            manager.to.sun_path[0] = 0;
        manager.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void mr_notify(const char *format, ...) {
    char text[512];
    va_list arguments;
    if (manager.length == 0)
        return;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    int to = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (to < 0 || length <= 0)
        return;
    size_t bytes = (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    /* Ignores errors, since the manager may be gone. */
    sendto(to, text, bytes, MSG_NOSIGNAL, (const struct sockaddr *)&manager.to, manager.length);
    close(to);
}

int64_t mr_notify_watchdog_ns(void) {
    return manager.watchdog_ns;
}
