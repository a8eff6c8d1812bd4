/* Addresses that an HTTP server listens at, and the names by which clients may ask for it.
 *
 * No name but "localhost" is looked up: it could mean something else tomorrow. Any thread. */
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

typedef struct mr_http_address {
    struct sockaddr_storage socket;
    socklen_t bytes;
    bool loopback; /* only this machine reaches it */
    bool file;     /* a Unix socket, which only the user and root may use */
} mr_http_address;

/* "127.0.0.1:8090", "[::1]:8090", "localhost:8090" (which is 127.0.0.1), "unix:PATH"; port 0: a free one.
 * MR_ERROR_CONFIG. */
int mr_http_address_parse(const char *text, mr_http_address *address);

/* Whether a server with these may listen there, and for whom. TLS needs a certificate and a key; an address that other
 * machines reach needs TLS and a token. `listen` may be NULL: nowhere. MR_ERROR_CONFIG with the message, and in *wrong
 * what is to blame: "listen", "certificate" or "key". */
int mr_http_address_check(const char *listen, bool token, bool certificate, bool key, const char **wrong);

/* Opens a socket that listens there; it does not block, and exec closes it. *port: the socket's port; 0: a Unix socket,
 * whose file the caller must unlink. Replaces the Unix socket of a program that has ended.
 * MR_ERROR_UNAVAILABLE (in use, or not this machine's address), MR_ERROR_PERMISSION, MR_ERROR_IO. */
int mr_http_address_listen(const mr_http_address *address, const char *text, int *fd, int *port);

/* Whether a `Host` header names this machine: a loopback address or localhost, with any port. A page from elsewhere can
 * make its host name resolve to 127.0.0.1; the header then has that name. */
bool mr_http_host_is_local(const char *host);
