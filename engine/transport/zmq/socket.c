#include "engine/transport/zmq/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/localhost.h"
#include "engine/base/memory.h"
#include "engine/transport/zmq/guard.h"
#include "engine/transport/zmq/curve_keys.h"
#include "engine/transport/zmq/ipc_path.h"
#include "engine/transport/zmq/reconnect.h"
#include "millrace/status.h"

enum { ENDPOINT_BYTES = 512, HOST_BYTES = 256, ID_BYTES = 256 };
static const int64_t DEFAULT_HANDSHAKE_NS = 10000000000, NS_PER_MS = 1000000;

static const char tcp[] = "tcp://", ipc[] = "ipc://";

struct mr_zmq {
    mr_zmq_params params; /* the strings only until it is attached */
    char id[ID_BYTES];
    void *context, *socket;
    mr_zmq_guard *guard; /* NULL if it connects */
    mr_zmq_reconnect reconnect;
    bool made_folder;    /* for an ipc endpoint */
    char endpoint[ENDPOINT_BYTES];
};

/* ---- sockets of a type ------------------------------------------------------------------------------------------- */

static bool starts_with(const char *text, const char *begin) {
    return strncmp(text, begin, strlen(begin)) == 0;
}

/* Copies the host of tcp://HOST:PORT, without brackets; false without a host or a port. */
static bool take_host(const char *endpoint, char host[HOST_BYTES]) {
    const char *from = endpoint + strlen(tcp), *colon = strrchr(from, ':');
    if (!colon || colon == from || !colon[1])
        return false;
    bool bracketed = *from == '[' && colon[-1] == ']';
    size_t length = (size_t)(colon - from) - (bracketed ? 2 : 0);
    if (length >= HOST_BYTES)
        return false;
    memcpy(host, from + bracketed, length);
    host[length] = '\0';
    return true;
}

/* Names but "localhost" are not looked up: they may mean something else tomorrow. */
static bool is_loopback(const char *host) {
    struct in_addr four;
    struct in6_addr six;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == IN_LOOPBACKNET;
    if (inet_pton(AF_INET6, host, &six) == 1) /* libzmq names an endpoint at 127.0.0.1 in IPv6 */
        return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == IN_LOOPBACKNET);
    return strcmp(host, "localhost") == 0;
}

static int wrong_with(const char **wrong, const char *member) {
    if (wrong)
        *wrong = member;
    return MR_ERROR_CONFIG;
}

static int check_endpoint(const mr_zmq_params *params, bool *local) {
    char host[HOST_BYTES];
    const char *endpoint = params->endpoint;
    if (strlen(endpoint) >= ENDPOINT_BYTES)
        return mr_fail(MR_ERROR_CONFIG, "the endpoint is longer than %d bytes", ENDPOINT_BYTES - 1);
    if (starts_with(endpoint, ipc)) {
        *local = true;
        if (endpoint[strlen(ipc)] == '@' || !endpoint[strlen(ipc)])
            return mr_fail(MR_ERROR_CONFIG, "%s names no file: anybody on this machine could connect; write "
                                            "ipc://FOLDER/NAME with a folder of your own", endpoint);
        if (strlen(endpoint + strlen(ipc)) >= sizeof ((struct sockaddr_un *)0)->sun_path)
            return mr_fail(MR_ERROR_CONFIG, "the path of a socket can have at most %zu bytes, and this has %zu: "
                                            "\"%s\"; name a shorter one",
                           sizeof ((struct sockaddr_un *)0)->sun_path - 1, strlen(endpoint + strlen(ipc)),
                           endpoint + strlen(ipc));
        return MR_OK;
    }
    if (!starts_with(endpoint, tcp) || !take_host(endpoint, host))
        return mr_fail(MR_ERROR_CONFIG,
                       "\"%s\" is not an endpoint: write tcp://HOST:PORT, or ipc://FOLDER/NAME on this "
                       "machine",
                       endpoint);
    *local = is_loopback(host);
    return MR_OK;
}

static int check_curve(const mr_zmq_params *params, bool local, const char **wrong) {
    const char *partner = params->bind ? "allow" : "server", *end = params->bind ? "binds" : "connects";
    bool named = params->bind ? params->allow_count > 0 : params->server != NULL;
    if (!params->key && named) {
        mr_fail(MR_ERROR_CONFIG, "`%s` needs a `key`: a file that `millrace keygen` makes", partner);
        return wrong_with(wrong, partner);
    }
    if (params->key && !named) {
        mr_fail(MR_ERROR_CONFIG, "a `key` on a socket that %s needs `%s`: %s", end, partner,
                params->bind ? "the file with the public keys that may connect"
                             : "the file with the public key of the other end");
        return wrong_with(wrong, "key");
    }
    if (params->bind ? params->server != NULL : params->allow_count > 0) {
        mr_fail(MR_ERROR_CONFIG, "`%s` is for a socket that %s", params->bind ? "server" : "allow",
                params->bind ? "connects" : "binds");
        return wrong_with(wrong, params->bind ? "server" : "allow");
    }
    if (!params->key && !local) {
        mr_fail(MR_ERROR_CONFIG, "%s can be reached from other machines, and any program could connect: give a `key` "
                                 "and `%s`, or use tcp://127.0.0.1:PORT", params->endpoint, partner);
        return wrong_with(wrong, "endpoint");
    }
    return MR_OK;
}

int mr_zmq_check(const mr_zmq_params *params, const char **wrong) {
    bool local = false;
    if (check_endpoint(params, &local))
        return wrong_with(wrong, "endpoint");
    return check_curve(params, local, wrong);
}

/* Reads the key pair, and the keys of the other end: `allow` or `server`. */
static int read_keys(const mr_zmq_params *params, mr_key_pair *pair, mr_allow_list *allow, char server[MR_KEY_TEXT],
                     const char **wrong) {
    if (!params->key)
        return MR_OK;
    wrong_with(wrong, "key");
    int status = mr_key_pair_read(pair, params->key);
    if (status)
        return status;
    wrong_with(wrong, params->bind ? "allow" : "server");
    for (size_t i = 0; !status && i < params->allow_count; i++)
        status = mr_allow_list_add(allow, params->allow[i]);
    return status || params->bind ? status : mr_key_public(params->server, server);
}

int mr_zmq_check_files(const mr_zmq_params *params, const char **wrong) {
    mr_key_pair pair = {0};
    mr_allow_list allow = {0};
    char server[MR_KEY_TEXT];
    int status = mr_zmq_check(params, wrong);
    if (!status)
        status = read_keys(params, &pair, &allow, server, wrong);
    mr_key_pair_forget(&pair);
    mr_allow_list_fini(&allow);
    return status;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int set(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value);
}

/* A machine that disappeared would otherwise be counted among the peers for hours. */
enum { ALIVE_AFTER_S = 30, ALIVE_EVERY_S = 10, ALIVE_TIMES = 3 };

static int keep_alive(void *socket) {
    return set(socket, ZMQ_TCP_KEEPALIVE, 1) || set(socket, ZMQ_TCP_KEEPALIVE_IDLE, ALIVE_AFTER_S) ||
           set(socket, ZMQ_TCP_KEEPALIVE_INTVL, ALIVE_EVERY_S) || set(socket, ZMQ_TCP_KEEPALIVE_CNT, ALIVE_TIMES);
}

/* Messages queued for a connection that broke are discarded. libzmq uses the linger time that was set when the socket
 * was bound, not when it is closed. With the default, closing the socket just when a connection breaks could wait
 * forever. */
static int set_limits(void *socket, const mr_zmq_params *params) {
    int64_t most = params->max_message_bytes > 0 ? params->max_message_bytes : -1;
    if (set(socket, ZMQ_LINGER, 0) || set(socket, ZMQ_SNDHWM, params->send_hwm) ||
        set(socket, ZMQ_RCVHWM, params->receive_hwm) || set(socket, ZMQ_IPV6, 1) || keep_alive(socket) ||
        set(socket, ZMQ_HANDSHAKE_IVL, (int)(params->handshake_ns / NS_PER_MS)) ||
        zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &most, sizeof most))
        return mr_fail(MR_ERROR_INTERNAL, "ZeroMQ refuses a limit: %s", zmq_strerror(errno));
    return MR_OK;
}

static int set_curve(void *socket, const mr_zmq_params *params, const mr_key_pair *pair, const char *server) {
    int failed = params->bind
                     ? set(socket, ZMQ_CURVE_SERVER, 1)
                     : zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, MR_KEY_TEXT) ||
                           zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, pair->public_key, MR_KEY_TEXT);
    if (failed || zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, pair->secret_key, MR_KEY_TEXT))
        return mr_fail(MR_ERROR_UNAVAILABLE, "libzmq has no CURVE here: %s", zmq_strerror(errno));
    return MR_OK;
}

/* Messages beside those in the queue: one that is being read, one read ahead for the owner, one not counted yet. */
enum { BESIDE_QUEUE = 3 };

static mr_zmq_bound bound_of(const mr_zmq_params *params) {
    const bool sends = params->type == ZMQ_PUSH || params->type == ZMQ_XPUB;
    if (!sends && params->receive_hwm == 0) /* any number of messages may wait */
        return (mr_zmq_bound){0};
    return (mr_zmq_bound){.message_bytes = params->max_message_bytes > 0 ? (uint64_t)params->max_message_bytes : 0,
                          .most = sends ? 1 : (uint64_t)params->receive_hwm + BESIDE_QUEUE,
                          .beside = MR_ZMQ_BESIDE};
}

static int guard(mr_zmq *made, mr_allow_list *allow) {
    const mr_zmq_params *params = &made->params;
    const mr_zmq_guard_params guarding = {.id = params->id,
                                          .most = params->max_peers,
                                          .handshake_ns = params->handshake_ns,
                                          .unknown_ns = params->unknown_ns,
                                          .bound = bound_of(params)};
    return mr_zmq_guard_begin(&made->guard, made->context, made->socket, &guarding, allow);
}

static int create(mr_zmq *made, const mr_key_pair *pair, mr_allow_list *allow, const char *server) {
    const mr_zmq_params *params = &made->params;
    made->context = zmq_ctx_new();
    made->socket = made->context ? zmq_socket(made->context, params->type) : NULL;
    if (!made->socket)
        return mr_fail(MR_ERROR_UNAVAILABLE, "ZeroMQ cannot create a socket: %s", zmq_strerror(errno));
    int status = set_limits(made->socket, params);
    if (!status && params->key)
        status = set_curve(made->socket, params, pair, server);
    /* With a domain libzmq also asks the guard about peers without keys. */
    if (!status && params->bind && zmq_setsockopt(made->socket, ZMQ_ZAP_DOMAIN, params->id, strlen(params->id)))
        status = mr_fail(MR_ERROR_INTERNAL, "ZeroMQ refuses a ZAP domain: %s", zmq_strerror(errno));
    if (!status && params->bind)
        status = guard(made, allow);
    if (!status && !params->bind && params->keeps)
        status = mr_zmq_reconnect_begin(&made->reconnect, made->context, made->socket);
    return status;
}

int mr_zmq_create(mr_zmq **socket, const mr_zmq_params *params) {
    mr_key_pair pair = {0};
    mr_allow_list allow = {0};
    char server[MR_KEY_TEXT] = "";
    mr_zmq *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory");
    made->params = *params;
    snprintf(made->id, sizeof made->id, "%s", params->id);
    if (params->handshake_ns <= 0)
        made->params.handshake_ns = DEFAULT_HANDSHAKE_NS;
    int status = mr_zmq_check(params, NULL);
    if (!status)
        status = read_keys(params, &pair, &allow, server, NULL);
    if (!status)
        status = mr_zmq_room_check(params);
    if (!status)
        status = create(made, &pair, &allow, server);
    mr_key_pair_forget(&pair);
    mr_allow_list_fini(&allow);
    if (status)
        mr_zmq_close(&made, 0);
    else
        *socket = made;
    return status;
}

int mr_zmq_attach(mr_zmq *socket) {
    const mr_zmq_params *params = &socket->params;
    char endpoint[ENDPOINT_BYTES];
    int status = params->bind ? mr_ipc_path_check(params, &socket->made_folder) : MR_OK;
    if (status)
        return status;
    const char *port = mr_localhost_port(params->endpoint);
    snprintf(endpoint, sizeof endpoint, "%s%s", port ? "tcp://127.0.0.1:" : "", port ? port : params->endpoint);
    int failed = params->bind ? zmq_bind(socket->socket, endpoint) : zmq_connect(socket->socket, endpoint);
    /* The process that had made the folder has just removed it. */
    if (failed && params->bind && errno == ENOENT && !mr_ipc_path_check(params, &socket->made_folder))
        failed = zmq_bind(socket->socket, endpoint);
    if (failed && params->bind && errno == EADDRINUSE)
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s is in use by another program or stage: end that, or choose another %s",
                       params->endpoint, mr_ipc_path_of(params->endpoint) ? "path" : "port");
    if (failed)
        return mr_fail(errno == EINVAL   ? MR_ERROR_CONFIG
                       : errno == EACCES ? MR_ERROR_PERMISSION
                                         : MR_ERROR_UNAVAILABLE,
                       "cannot %s %s: %s", params->bind ? "bind" : "connect to", params->endpoint,
                       zmq_strerror(errno));
    size_t bytes = sizeof socket->endpoint;
    if (zmq_getsockopt(socket->socket, ZMQ_LAST_ENDPOINT, socket->endpoint, &bytes))
        snprintf(socket->endpoint, sizeof socket->endpoint, "%s", params->endpoint);
    return MR_OK;
}

/* A fault of the address was reported when it was attached, and libzmq retries. */
void mr_zmq_renew(mr_zmq *socket) {
    zmq_disconnect(socket->socket, socket->endpoint);
    zmq_connect(socket->socket, socket->endpoint);
}

/* To close a connection drops what has come and is not read. After the last of it nothing comes: it is given up. */
static bool has_unread(const mr_zmq *socket) {
    const int type = socket->params.type;
    int events = 0;
    size_t bytes = sizeof events;
    return (type == ZMQ_PULL || type == ZMQ_SUB) &&
           !zmq_getsockopt(socket->socket, ZMQ_EVENTS, &events, &bytes) && events & ZMQ_POLLIN;
}

void mr_zmq_keep(mr_zmq *socket) {
    if (!has_unread(socket) && mr_zmq_reconnect_due(&socket->reconnect, socket->id, socket->endpoint, mr_now_ns()))
        mr_zmq_renew(socket);
}

void *mr_zmq_handle(const mr_zmq *socket) {
    return socket->socket;
}

long mr_zmq_receive(mr_zmq *socket, void *part) {
    const long bytes = TEMP_FAILURE_RETRY(zmq_msg_recv(part, socket->socket, ZMQ_DONTWAIT));
    if (!socket->guard)
        return bytes;
    if (bytes < 0 && errno == EAGAIN)
        mr_zmq_note_empty(socket);
    else if (bytes >= 0)
        mr_zmq_taken_note(mr_zmq_guard_taken(socket->guard), zmq_msg_get(part, ZMQ_SRCFD), (size_t)bytes,
                          !zmq_msg_more(part));
    return bytes;
}

void mr_zmq_note_empty(mr_zmq *socket) {
    if (socket->guard)
        mr_zmq_taken_note_empty(mr_zmq_guard_taken(socket->guard));
}

void mr_zmq_note_wait(mr_zmq *socket, bool waits) {
    if (socket->guard)
        mr_zmq_taken_note_wait(mr_zmq_guard_taken(socket->guard), waits);
}

const char *mr_zmq_endpoint(const mr_zmq *socket) {
    return socket->endpoint;
}

int mr_zmq_allow(mr_zmq *socket, const char *key_or_path) {
    mr_allow_list allow = {0};
    int status = mr_allow_list_add(&allow, key_or_path);
    if (!status)
        mr_zmq_guard_allow(socket->guard, &allow);
    mr_allow_list_fini(&allow);
    return status;
}

void mr_zmq_know(const mr_zmq *socket, uint32_t peer, int fd) {
    if (socket->guard)
        mr_zmq_guard_know(socket->guard, peer, fd);
}

int mr_zmq_present(const mr_zmq *socket) {
    return socket->guard ? mr_zmq_guard_present(socket->guard) : 1;
}

uint64_t mr_zmq_refused(const mr_zmq *socket) {
    return socket->guard ? mr_zmq_guard_refused(socket->guard) : 0;
}

void mr_zmq_close(mr_zmq **socket, int linger_ms) {
    mr_zmq *gone = *socket;
    if (!gone)
        return;
    if (gone->params.bind)
        mr_ipc_path_remove(gone->endpoint, gone->made_folder);
    if (gone->socket) {
        set(gone->socket, ZMQ_LINGER, linger_ms);
        zmq_close(gone->socket);
    }
    if (gone->context)
        zmq_ctx_shutdown(gone->context);
    mr_zmq_guard_end(&gone->guard);
    mr_zmq_reconnect_end(&gone->reconnect);
    while (gone->context && zmq_ctx_term(gone->context) && errno == EINTR)
        ;
    mr_free(gone);
    *socket = NULL;
}
