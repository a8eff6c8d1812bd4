/* Addresses that a server of this process listens at, and the names by which others ask for it.
 *
 * Names but "localhost" are not looked up: they may mean something else tomorrow. Any thread. */
#ifndef MILLRACE_STAGES_PREVIEW_ADDRESS_H
#define MILLRACE_STAGES_PREVIEW_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

typedef struct mr_address {
    struct sockaddr_storage socket;
    socklen_t bytes;
    bool loopback; /* only this machine reaches it */
} mr_address;

/* "127.0.0.1:8090", "[::1]:8090", "localhost:8090" (which is 127.0.0.1); port 0: a free one. MR_ERROR_CONFIG. */
int mr_address_parse(const char *text, mr_address *address);

/* Opens a socket that listens there, without waiting, and closed by exec. MR_ERROR_UNAVAILABLE (in use, or not an
 * address of this machine), MR_ERROR_PERMISSION, MR_ERROR_IO. *port: that of the socket. */
int mr_address_listen(const mr_address *address, const char *text, int *fd, int *port);

/* Whether the value of a `Host` header names this machine by a loopback address or as localhost, with any port. A page
 * that a browser loaded from elsewhere can have its own name resolved to 127.0.0.1; the header then has that name. */
bool mr_address_host_is_local(const char *host);

#endif
