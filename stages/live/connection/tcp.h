/* A non-blocking socket to a server, plain or with TLS. One thread at a time.
 *
 * Messages use `name`, a URL without user and password. */
#pragma once

#include <gnutls/gnutls.h>
#include <stddef.h>

#include "stages/live/connection/address.h"

typedef struct mr_tcp {
    int fd; /* -1: closed */
    gnutls_session_t tls;
    gnutls_certificate_credentials_t trust;
    mr_address peer, own;
} mr_tcp;

typedef struct mr_tcp_params {
    const char *host, *port;
    bool tls;
    const char *ca_file; /* trusted certificates; NULL: the system's */
    const char *certificate_file, *key_file; /* the client's own; NULL: none */
    const char *name;    /* for messages */
    int wake;
    int64_t until_ns;
} mr_tcp_params;

/* Reads the files with certificates and the key, as open does. MR_ERROR_CONFIG, MR_ERROR_MEMORY. */
int mr_tcp_check_files(const mr_tcp_params *params);
/* Connects to one of the host's addresses. With TLS, the certificate must be valid for the host. MR_ERROR_IO,
 * MR_ERROR_CONFIG (untrusted certificate, unreadable file), MR_ERROR_CANCELLED, MR_ERROR_MEMORY. */
int mr_tcp_open(mr_tcp *socket, const mr_tcp_params *params);
/* Closes at once; does nothing with fd -1. */
void mr_tcp_close(mr_tcp *socket);
/* Reads at most `room` bytes without waiting: MR_OK, MR_ERROR_AGAIN (nothing now), MR_END (the peer has closed it),
 * MR_ERROR_IO. */
int mr_tcp_read(mr_tcp *socket, void *data, size_t room, size_t *bytes);
/* Writes as much as possible: MR_OK with *bytes > 0, MR_ERROR_AGAIN, MR_ERROR_IO. After AGAIN, the next call must start
 * with the same bytes. */
int mr_tcp_write(mr_tcp *socket, const void *data, size_t count, size_t *bytes);
/* Whether received data waits in the TLS layer, where poll() cannot see it. */
bool mr_tcp_pending(const mr_tcp *socket);
