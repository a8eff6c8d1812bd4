#include "engine/serve/http_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "millrace/status.h"

enum { HOST_BYTES = 64, MOST_PORT = 65535 };

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* Splits HOST:PORT or [HOST]:PORT; `port` is NULL if there is none. */
static bool split(const char *text, char host[HOST_BYTES], const char **port) {
    const char *first = text, *end, *colon;
    if (*text == '[') {
        first = text + 1;
        end = strchr(first, ']');
        if (!end || (end[1] && end[1] != ':'))
            return false;
        colon = end[1] ? end + 1 : NULL;
    } else {
        colon = strchr(text, ':');
        end = colon ? colon : text + strlen(text);
    }
    if (end == first || end - first >= HOST_BYTES)
        return false;
    memcpy(host, first, (size_t)(end - first));
    host[end - first] = '\0';
    *port = colon ? colon + 1 : NULL;
    return true;
}

static bool read_port(const char *text, int *port) {
    if (!text || !*text || strlen(text) > 5 || strspn(text, "0123456789") != strlen(text))
        return false;
    *port = (int)strtol(text, NULL, 10);
    return *port <= MOST_PORT;
}

static bool read_four(const char *host, int port, mr_http_address *address) {
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, &four.sin_addr) != 1)
        return false;
    address->loopback = ntohl(four.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    address->bytes = sizeof four;
    memcpy(&address->socket, &four, sizeof four);
    return true;
}

static bool read_six(const char *host, int port, mr_http_address *address) {
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET6, host, &six.sin6_addr) != 1)
        return false;
    address->loopback = IN6_IS_ADDR_LOOPBACK(&six.sin6_addr);
    address->bytes = sizeof six;
    memcpy(&address->socket, &six, sizeof six);
    return true;
}

static int read_path(const char *path, mr_http_address *address) {
    struct sockaddr_un file = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof file.sun_path)
        return mr_fail(MR_ERROR_CONFIG, "unix:%s: the path of a socket has 1 to %zu bytes", path,
                       sizeof file.sun_path - 1);
    memcpy(file.sun_path, path, strlen(path));
    address->loopback = address->file = true;
    address->bytes = sizeof file;
    memcpy(&address->socket, &file, sizeof file);
    return MR_OK;
}

int mr_http_address_parse(const char *text, mr_http_address *address) {
    char host[HOST_BYTES];
    const char *digits;
    int port;
    *address = (mr_http_address){0};
    if (strncmp(text, "unix:", 5) == 0)
        return read_path(text + 5, address);
    bool read = split(text, host, &digits) && read_port(digits, &port);
    if (read && (*text == '[' ? read_six(host, port, address) : read_four(host, port, address)))
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG,
                   "\"%s\" is not an address to listen at: write 127.0.0.1:8090, [::1]:8090, unix:PATH, or "
                   "0.0.0.0:8090 for all IPv4 addresses of this machine", text);
}

int mr_http_address_check(const char *listen, bool token, bool certificate, bool key, const char **wrong) {
    mr_http_address address;
    *wrong = key ? "key" : "certificate";
    if (certificate != key)
        return mr_fail(MR_ERROR_CONFIG, "without `%s`", key ? "certificate" : "key");
    *wrong = "listen";
    int status = listen ? mr_http_address_parse(listen, &address) : MR_OK;
    if (!status && listen && !address.loopback && (!token || !certificate))
        status = mr_fail(MR_ERROR_CONFIG, "%s is reached from other machines, so a token and TLS are needed", listen);
    return status;
}

bool mr_http_host_is_local(const char *text) {
    char host[HOST_BYTES];
    const char *digits;
    mr_http_address address = {0};
    int port;
    if (!split(text, host, &digits) || (digits && !read_port(digits, &port)))
        return false;
    return (*text == '[' ? read_six(host, 0, &address) : read_four(host, 0, &address)) && address.loopback;
}

/* ---- listening ------------------------------------------------------------------------------------------------- */

/* A socket's path is taken by a program that listens there, or by a file that is no socket. */
static int fail_path(const char *text) {
    struct stat found;
    if (!lstat(text + strlen("unix:"), &found) && !S_ISSOCK(found.st_mode))
        return mr_fail(MR_ERROR_UNAVAILABLE, "cannot listen at %s: %s is there already: name a path at which there is "
                                             "nothing", text,
                       S_ISDIR(found.st_mode) ? "a folder" : "a file that is no socket");
    return mr_fail(MR_ERROR_UNAVAILABLE, "%s is in use by another program or stage: end that, or choose another path",
                   text);
}

static int fail_to_listen(const char *text, int error) {
    switch (error) {
    case EADDRINUSE:
        if (strncmp(text, "unix:", strlen("unix:")) == 0)
            return fail_path(text);
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s is in use by another program or stage: choose another port, or port 0 "
                                             "for any free one", text);
    case EADDRNOTAVAIL:
        return mr_fail(MR_ERROR_UNAVAILABLE, "cannot listen at %s: this machine does not have that address", text);
    case EACCES:
        return mr_fail(MR_ERROR_PERMISSION, strncmp(text, "unix:", 5) == 0
                       ? "may not make the socket %s: choose a folder in which you may write"
                       : "may not listen at %s: choose a port above 1023", text);
    default:
        return mr_fail(MR_ERROR_IO, "cannot listen at %s: %s", text, strerror(error));
    }
}

/* Removes the socket's file if no program listens there: the next bind then succeeds. */
static bool remove_dead(const mr_http_address *address) {
    const char *path = ((const struct sockaddr_un *)(const void *)&address->socket)->sun_path;
    struct stat found;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool dead = fd >= 0 && !lstat(path, &found) && S_ISSOCK(found.st_mode) &&
                      connect(fd, (const struct sockaddr *)&address->socket, address->bytes) && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return dead && !unlink(path);
}

/* A Unix socket's file gets the descriptor's mode, so it is never open to other users. */
static bool bind_to(int fd, const mr_http_address *address) {
    const struct sockaddr *to = (const struct sockaddr *)&address->socket;
    if (address->file && fchmod(fd, 0600))
        return false;
    return !bind(fd, to, address->bytes) ||
           (address->file && errno == EADDRINUSE && remove_dead(address) && !bind(fd, to, address->bytes));
}

static int port_of(int fd) {
    struct sockaddr_storage bound;
    socklen_t bytes = sizeof bound;
    if (getsockname(fd, (struct sockaddr *)&bound, &bytes))
        return 0;
    if (bound.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)(const void *)&bound)->sin6_port);
    return ntohs(((const struct sockaddr_in *)(const void *)&bound)->sin_port);
}

int mr_http_address_listen(const mr_http_address *address, const char *text, int *result, int *port) {
    const int yes = 1;
    int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fail_to_listen(text, errno);
    /* A port whose last connections are still being closed may be used again; one that is listened at may not. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (!bind_to(fd, address) || listen(fd, SOMAXCONN)) {
        int error = errno;
        close(fd);
        return fail_to_listen(text, error);
    }
    *port = address->file ? 0 : port_of(fd);
    *result = fd;
    return MR_OK;
}
