#include "stages/live/connection/tcp.h"

#include <errno.h>
#include <gnutls/x509.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/authorities.h"
#include "engine/base/clock.h"
#include "millrace/stage.h"
#include "millrace/status.h"

/* ---- connecting -------------------------------------------------------------------------------------------------- */

/* 0, an errno, or -1: cancelled. */
static int try_address(mr_tcp *made, const mr_address *to, int wake, int64_t until_ns) {
    const int on = 1;
    int error = 0;
    socklen_t size = sizeof error;
    made->fd = socket(to->at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made->fd < 0)
        return errno;
    setsockopt(made->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(made->fd, (const struct sockaddr *)&to->at, to->bytes) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    struct pollfd ready = {.fd = made->fd, .events = POLLOUT};
    const int status = mr_live_wait(&ready, 1, wake, until_ns);
    if (status)
        return status == MR_ERROR_CANCELLED ? -1 : ETIMEDOUT;
    return getsockopt(made->fd, SOL_SOCKET, SO_ERROR, &error, &size) ? errno : error;
}

/* The addresses share the remaining time. */
static int connect_to(mr_tcp *made, const mr_tcp_params *params) {
    mr_address addresses[MR_MOST_ADDRESSES];
    int count, error = EADDRNOTAVAIL;
    const int status = mr_resolve(addresses, &count, params->host, params->port, params->wake, params->until_ns);
    if (status)
        return status;
    for (int i = 0; i < count; i++) {
        const int64_t now_ns = mr_now_ns();
        error = try_address(made, &addresses[i], params->wake, now_ns + (params->until_ns - now_ns) / (count - i));
        if (error < 0)
            return MR_ERROR_CANCELLED;
        if (error == 0) {
            made->peer = addresses[i];
            made->own.bytes = sizeof made->own.at;
            getsockname(made->fd, (struct sockaddr *)&made->own.at, &made->own.bytes);
            return MR_OK;
        }
        mr_tcp_close(made);
    }
    return mr_fail(MR_ERROR_IO, "%s: cannot connect to port %s: %s: does the server run, and is the port right?",
                   params->name, params->port, strerror(error));
}

/* ---- TLS --------------------------------------------------------------------------------------------------------- */

static int read_trust(mr_tcp *made, const mr_tcp_params *params) {
    if (gnutls_certificate_allocate_credentials(&made->trust) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    const char *ca_file = params->ca_file ? params->ca_file : mr_authorities();
    const int read = ca_file ? gnutls_certificate_set_x509_trust_file(made->trust, ca_file, GNUTLS_X509_FMT_PEM)
                             : gnutls_certificate_set_x509_system_trust(made->trust);
    if (ca_file && read <= 0)
        return mr_fail(MR_ERROR_CONFIG, "%s: %s %s has no certificates: %s", params->name,
                       params->ca_file ? "ca_file" : "SSL_CERT_FILE or the system's", ca_file,
                       read < 0 ? gnutls_strerror(read) : "it is empty");
    const int own = params->certificate_file
                        ? gnutls_certificate_set_x509_key_file(made->trust, params->certificate_file, params->key_file,
                                                               GNUTLS_X509_FMT_PEM)
                        : 0;
    return own >= 0 ? MR_OK : mr_fail(MR_ERROR_CONFIG, "%s: certificate_file %s with key_file %s: %s", params->name,
                                      params->certificate_file, params->key_file, gnutls_strerror(own));
}

static int begin_tls(mr_tcp *made, const mr_tcp_params *params) {
    const int status = read_trust(made, params);
    if (status)
        return status;
    if (gnutls_init(&made->tls, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0 ||
        gnutls_set_default_priority(made->tls) < 0 ||
        gnutls_credentials_set(made->tls, GNUTLS_CRD_CERTIFICATE, made->trust) < 0 ||
        gnutls_server_name_set(made->tls, GNUTLS_NAME_DNS, params->host, strlen(params->host)) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    gnutls_session_set_verify_cert(made->tls, params->host, 0);
    gnutls_transport_set_int(made->tls, made->fd);
    return MR_OK;
}

static int refuse_certificate(mr_tcp *made, const mr_tcp_params *params) {
    gnutls_datum_t words = {0};
    const unsigned found = gnutls_session_get_verify_cert_status(made->tls);
    gnutls_certificate_verification_status_print(found, GNUTLS_CRT_X509, &words, 0);
    const int status = mr_fail(MR_ERROR_CONFIG, "%s: the server's certificate is not trusted: %s Name a ca_file that "
                                                "has the certificate of its authority.",
                               params->name, words.data ? (const char *)words.data : "");
    gnutls_free(words.data);
    return status;
}

/* The peer's own words, if it has sent an alert. */
static const char *words_for(const mr_tcp *made, int error) {
    const bool alert = error == GNUTLS_E_FATAL_ALERT_RECEIVED || error == GNUTLS_E_WARNING_ALERT_RECEIVED;
    const char *words = alert ? gnutls_alert_get_name(gnutls_alert_get(made->tls)) : NULL;
    return words ? words : gnutls_strerror(error);
}

static int shake_hands(mr_tcp *made, const mr_tcp_params *params) {
    for (;;) {
        const int result = gnutls_handshake(made->tls);
        if (result == GNUTLS_E_SUCCESS)
            return MR_OK;
        if (result == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR)
            return refuse_certificate(made, params);
        if (gnutls_error_is_fatal(result))
            return mr_fail(MR_ERROR_IO, "%s: TLS failed: %s: is this a port for TLS?", params->name,
                           words_for(made, result));
        struct pollfd ready = {.fd = made->fd, .events = gnutls_record_get_direction(made->tls) ? POLLOUT : POLLIN};
        const int status = mr_live_wait(&ready, 1, params->wake, params->until_ns);
        if (status == MR_ERROR_AGAIN)
            return mr_fail(MR_ERROR_IO, "%s: TLS was not answered in time", params->name);
        if (status)
            return status;
    }
}

/* ---- the socket -------------------------------------------------------------------------------------------------- */

int mr_tcp_check_files(const mr_tcp_params *params) {
    mr_tcp made = {.fd = -1};
    const int status = params->tls ? read_trust(&made, params) : MR_OK;
    mr_tcp_close(&made);
    return status;
}

int mr_tcp_open(mr_tcp *socket, const mr_tcp_params *params) {
    *socket = (mr_tcp){.fd = -1};
    int status = connect_to(socket, params);
    if (!status && params->tls)
        status = begin_tls(socket, params);
    if (!status && params->tls)
        status = shake_hands(socket, params);
    if (status)
        mr_tcp_close(socket);
    return status;
}

void mr_tcp_close(mr_tcp *socket) {
    if (socket->tls)
        gnutls_deinit(socket->tls);
    if (socket->trust)
        gnutls_certificate_free_credentials(socket->trust);
    if (socket->fd >= 0)
        close(socket->fd);
    *socket = (mr_tcp){.fd = -1};
}

static int read_tls(mr_tcp *socket, void *data, size_t room, size_t *bytes) {
    const ssize_t got = gnutls_record_recv(socket->tls, data, room);
    if (got > 0) {
        *bytes = (size_t)got;
        return MR_OK;
    }
    if (got == 0 || got == GNUTLS_E_PREMATURE_TERMINATION)
        return MR_END;
    if (!gnutls_error_is_fatal((int)got))
        return MR_ERROR_AGAIN;
    return mr_fail(MR_ERROR_IO, "TLS failed: %s", words_for(socket, (int)got));
}

int mr_tcp_read(mr_tcp *socket, void *data, size_t room, size_t *bytes) {
    *bytes = 0;
    if (socket->tls)
        return read_tls(socket, data, room, bytes);
    const ssize_t got = recv(socket->fd, data, room, 0);
    if (got > 0) {
        *bytes = (size_t)got;
        return MR_OK;
    }
    if (got == 0)
        return MR_END;
    if (errno == EAGAIN || errno == EINTR)
        return MR_ERROR_AGAIN;
    return mr_fail(MR_ERROR_IO, "%s", strerror(errno));
}

int mr_tcp_write(mr_tcp *socket, const void *data, size_t count, size_t *bytes) {
    *bytes = 0;
    const ssize_t put = socket->tls ? gnutls_record_send(socket->tls, data, count)
                                    : send(socket->fd, data, count, MSG_NOSIGNAL);
    if (put >= 0) {
        *bytes = (size_t)put;
        return put > 0 ? MR_OK : MR_ERROR_AGAIN;
    }
    if (socket->tls ? !gnutls_error_is_fatal((int)put) : errno == EAGAIN || errno == EINTR)
        return MR_ERROR_AGAIN;
    return mr_fail(MR_ERROR_IO, "%s", socket->tls ? words_for(socket, (int)put) : strerror(errno));
}

bool mr_tcp_pending(const mr_tcp *socket) {
    return socket->tls && gnutls_record_check_pending(socket->tls) > 0;
}
