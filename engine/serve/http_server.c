#include "engine/serve/http_server.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/serve/http_parts.h"
#include "engine/serve/http_permission.h"
#include "engine/serve/http_token.h"
#include "millrace/status.h"

enum {
    LAST_TURNS = 3,        /* for a resumed request: its answer is begun, and written */
    OTHERS = 64,           /* connections that are not streams */
    REQUEST_BYTES = 16384, /* for a request's line and headers, and for the answer's headers */
    REST_BYTES = 256,
    BODY_BYTES = 4096,     /* of a POST */
    MOST_SWEEP_MS = 1000
};

static const int64_t SECOND_NS = 1000000000;
/* How long all connections may be taken before those are closed whose clients still owe their request. */
static const int64_t PATIENCE_NS = 50000000;

/* Bytes of a stream that are given to the system at once, and that the system keeps: how far a slow client may lag. */
static const struct {
    size_t block;
    int socket;
} buffers[] = {[MR_HTTP_MULTIPART] = {32768, 131072}, [MR_HTTP_EVENTS] = {4096, 32768}};

/* A slot for a connection and its request. */
struct mr_http_request {
    mr_http_server *server;
    struct MHD_Connection *connection; /* NULL: the slot is free */
    int fd;
    int64_t since_ns;                  /* when it connected; stream: when it last asked for a part */
    bool waiting;                      /* suspended, until it is woken */
    bool asked;                        /* the request is whole: a route's function was called */
    bool over;                         /* time is over, or the client has left: it must be closed */
    atomic_bool woken;
    const mr_http_route *route;        /* NULL: the request is not read yet */
    bool posts;                        /* the path is for POST */
    bool logs_in;                      /* the answer gives the cookie */
    char rest[REST_BYTES];
    char *body;                        /* of a POST, BODY_BYTES + 1; NULL: none */
    size_t body_bytes;
    void *state;
    void (*end)(void *state);
    mr_http_reply (*next)(void *state, mr_http_content *part); /* NULL: no stream */
    mr_http_parts parts;
};

struct mr_http_server {
    struct MHD_Daemon *daemon;
    mr_http_route *routes;
    mr_http_permission permission;
    char *certificate, *key;
    const char *not_found;
    int most_streams, streams;
    int64_t timeout_ns, sweep_ns; /* sweep_ns: when the next sweep is due */
    int sweep_ms;                 /* between two sweeps */
    int wake;                     /* an eventfd: a request was woken, or the server is to end */
    atomic_bool ending, woken;    /* woken: the eventfd was written since the thread read it */
    pthread_t thread;
    bool threaded;
    bool closed_one;              /* a connection has ended since the library ran */
    int64_t full_ns;              /* since when all slots are taken; 0: one is free */
    int slots, taken;
    mr_http_request *slot;        /* the server's thread, and destroy after it, but for `woken` */
};

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void begin_connection(mr_http_server *server, struct MHD_Connection *handle, void **context) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
    int at = 0;
    while (at < server->slots && server->slot[at].connection)
        at++;
    *context = NULL;
    if (!info || at == server->slots)
        return;
    server->taken++;
    mr_http_request *request = *context = &server->slot[at];
    request->connection = handle;
    request->fd = info->connect_fd;
    request->since_ns = mr_now_ns();
    request->over = false;
    request->asked = false;
}

static void note_connection(void *context, struct MHD_Connection *handle, void **socket_context,
                            enum MHD_ConnectionNotificationCode code) {
    mr_http_server *server = context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        begin_connection(server, handle, socket_context);
    } else if (*socket_context) {
        server->closed_one = true;
        server->taken--;
        ((mr_http_request *)*socket_context)->connection = NULL;
    }
}

static mr_http_request *request_of(struct MHD_Connection *handle) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void suspend(mr_http_request *request) {
    request->waiting = true;
    MHD_suspend_connection(request->connection);
}

static void resume(mr_http_request *request) {
    request->waiting = false;
    MHD_resume_connection(request->connection);
}

static bool has_come(const mr_http_request *request, short event) {
    struct pollfd on = {.fd = request->fd, .events = event};
    return poll(&on, 1, 0) > 0;
}

static bool has_left(const mr_http_request *request) {
    return has_come(request, POLLRDHUP);
}

/* The library does not notice when a suspended connection's client leaves, or closes the sending side. */
static void sweep_stream(mr_http_request *request, int64_t now) {
    request->over = has_left(request);
    if (!request->waiting)
        return;
    bool silent = request->parts.kind == MR_HTTP_EVENTS && now - request->since_ns >= request->server->timeout_ns;
    if (silent)
        mr_http_parts_comment(&request->parts);
    if (request->over || silent)
        resume(request);
}

/* A client that sends a byte now and then is not idle for the library, but takes up a connection. And if hundreds
 * connect at once and leave before their requests are whole, the library overlooks some. */
static void sweep_request(mr_http_request *request, int64_t now) {
    const bool gone = !request->asked && has_left(request);
    if (request->over || (!gone && now - request->since_ns < request->server->timeout_ns))
        return;
    request->over = true;
    shutdown(request->fd, SHUT_RDWR);
    if (request->waiting)
        resume(request);
}

/* Clients that connect and send nothing, or a byte now and then, must not keep others away until their time is over. A
 * request that has come and is not read yet is no fault of the client. */
static void make_room(mr_http_server *server) {
    const int64_t now = mr_now_ns();
    if (server->taken < server->slots) {
        server->full_ns = 0;
        return;
    }
    server->full_ns = server->full_ns ? server->full_ns : now;
    if (now - server->full_ns < PATIENCE_NS)
        return;
    server->full_ns = now;
    for (int i = 0; i < server->slots; i++) {
        mr_http_request *request = &server->slot[i];
        if (request->connection && !request->asked && now - request->since_ns >= PATIENCE_NS &&
            !has_come(request, POLLIN))
            shutdown(request->fd, SHUT_RDWR);
    }
}

static void sweep(mr_http_server *server) {
    const int64_t now = mr_now_ns();
    if (now < server->sweep_ns)
        return;
    server->sweep_ns = now + server->sweep_ms * INT64_C(1000000);
    for (int i = 0; i < server->slots; i++) {
        mr_http_request *request = &server->slot[i];
        if (request->connection)
            (request->next ? sweep_stream : sweep_request)(request, now);
    }
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

/* Takes the response. */
static mr_http_reply answer(mr_http_request *request, unsigned code, const char *type, struct MHD_Response *response) {
    static const char *const headers[][2] = {
        {"Cache-Control", "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Referrer-Policy", "no-referrer"},
        {"Content-Security-Policy", "default-src 'none'; img-src 'self'; connect-src 'self'; style-src "
                                    "'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'none'; base-uri "
                                    "'none'; form-action 'none'"}};
    if (!response)
        return MR_HTTP_END;
    /* Without chunks, and closed after it. */
    MHD_set_response_options(response, MHD_RF_HTTP_VERSION_1_0_ONLY, MHD_RO_END);
    MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
    if (code == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"millrace\"");
    if (request->logs_in)
        MHD_add_response_header(response, "Set-Cookie", request->server->permission.cookie);
    if (code == MHD_HTTP_SEE_OTHER)
        MHD_add_response_header(response, "Location", "./");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", request->posts ? "POST" : "GET, HEAD");
    if (request->next)
        MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* nginx must pass each part on at once */
    if (code == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, "Retry-After", "1");
    enum MHD_Result queued = MHD_queue_response(request->connection, code, response);
    MHD_destroy_response(response);
    return queued == MHD_YES ? MR_HTTP_DONE : MR_HTTP_END;
}

mr_http_reply mr_http_say(mr_http_request *request, unsigned code, const char *text) {
    return answer(request, code, "text/plain; charset=utf-8",
                  MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT));
}

static void keep_data(void *owner) {
}

mr_http_reply mr_http_send(mr_http_request *request, const mr_http_content *content) {
    void (*release)(void *owner) = content->release ? content->release : keep_data;
    struct MHD_Response *response = MHD_create_response_from_buffer_with_free_callback_cls(
        content->bytes, (void *)(uintptr_t)content->data, release, content->owner);
    if (!response)
        release(content->owner);
    return answer(request, content->code ? content->code : MHD_HTTP_OK, content->type, response);
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

static ssize_t read_stream(void *context, uint64_t position, char *to, size_t room) {
    mr_http_request *request = context;
    mr_http_content part;
    if (request->over)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (!request->parts.busy) {
        atomic_store(&request->woken, false);
        switch (request->next(request->state, &part)) {
        case MR_HTTP_WAIT:
            suspend(request);
            return 0;
        case MR_HTTP_END:
            return MHD_CONTENT_READER_END_OF_STREAM;
        case MR_HTTP_DONE:
            mr_http_parts_begin(&request->parts, &part);
        }
    }
    request->since_ns = mr_now_ns();
    return (ssize_t)mr_http_parts_copy(&request->parts, to, room);
}

mr_http_reply mr_http_stream(mr_http_request *request, mr_http_stream_kind kind,
                             mr_http_reply (*next)(void *state, mr_http_content *part)) {
    const int bytes = buffers[kind].socket;
    if (request->server->streams >= request->server->most_streams)
        return mr_http_say(request, MHD_HTTP_SERVICE_UNAVAILABLE, "too many streams are open; try again later\n");
    request->server->streams++;
    request->next = next;
    request->parts = (mr_http_parts){.kind = kind};
    setsockopt(request->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    return answer(request, MHD_HTTP_OK, mr_http_parts_type(kind),
                  MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, buffers[kind].block, read_stream, request, NULL));
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

const char *mr_http_rest(const mr_http_request *request) {
    return request->rest;
}

void mr_http_keep(mr_http_request *request, void *state, void (*end)(void *state)) {
    request->state = state;
    request->end = end;
}

void *mr_http_state(const mr_http_request *request) {
    return request->state;
}

const char *mr_http_header(const mr_http_request *request, const char *name) {
    return MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, name);
}

const char *mr_http_argument(const mr_http_request *request, const char *name) {
    return MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, name);
}

const char *mr_http_body(const mr_http_request *request) {
    return request->body ? request->body : "";
}

/* Whether the url fits a route's path; *rest: what its star matches. */
static bool fits(const char *path, const char *url, char rest[REST_BYTES]) {
    const char *star = strchr(path, '*');
    *rest = '\0';
    if (!star)
        return strcmp(path, url) == 0;
    const size_t before = (size_t)(star - path), after = strlen(star + 1), bytes = strlen(url);
    if (bytes <= before + after || bytes - before - after >= REST_BYTES || strncmp(path, url, before) != 0 ||
        strcmp(star + 1, url + bytes - after) != 0)
        return false;
    memcpy(rest, url + before, bytes - before - after);
    rest[bytes - before - after] = '\0';
    return true;
}

static const mr_http_route *find_route(mr_http_request *request, const char *url, bool post) {
    const mr_http_route *other = NULL, *route = request->server->routes;
    for (; route->path; route++) {
        if (!fits(route->path, url, request->rest))
            continue;
        if (route->post == post)
            return route;
        other = other ? other : route;
        if (!strchr(route->path, '*'))
            break; /* the path is this route's alone */
    }
    request->posts = other && other->post;
    return other;
}

/* ---- permission ------------------------------------------------------------------------------------------------- */

static mr_http_reply answer_login(mr_http_request *request, void *context) {
    request->logs_in = true;
    return mr_http_say(request, MHD_HTTP_OK, "logged in\n");
}

static mr_http_reply ask_for_token(mr_http_request *request) {
    if (!mr_http_wants_page(request->connection))
        return mr_http_say(request, MHD_HTTP_UNAUTHORIZED,
                           "a token is needed, and none or a wrong one came: Authorization: Bearer TOKEN, or "
                           "?token=TOKEN\n");
    return mr_http_send(request, &(mr_http_content){.type = "text/html; charset=utf-8", .data = mr_http_login_page,
                                                    .bytes = strlen(mr_http_login_page),
                                                    .code = MHD_HTTP_UNAUTHORIZED});
}

/* Checks permission; answers if there is none. */
static bool may_not(mr_http_request *request, const mr_http_route *route, bool post, mr_http_reply *reply) {
    const mr_http_permission *permission = &request->server->permission;
    if (mr_http_has_other_host(permission, request->connection))
        *reply = mr_http_say(request, MHD_HTTP_FORBIDDEN,
                             "ask for this server as 127.0.0.1, [::1] or localhost; for other names it needs a "
                             "`token`, or `hosts`\n");
    else if (!route->open && !mr_http_has_token(permission, request->connection))
        *reply = ask_for_token(request);
    else if (post && route->post && mr_http_is_forged(request->connection))
        *reply = mr_http_say(request, MHD_HTTP_FORBIDDEN,
                             "a POST needs the header X-Millrace: 1, and may not come from another site's page\n");
    else
        return false;
    return true;
}

/* A browser that opens the first page with the token in its address: logs it in, and leads it to the address without
 * the token. */
static bool hides_token(mr_http_request *request, const mr_http_route *route) {
    return route && strcmp(route->path, "/") == 0 && mr_http_wants_page(request->connection) &&
           mr_http_has_token_in_url(&request->server->permission, request->connection);
}

/* Chooses the route, or answers with why there is none. */
static mr_http_reply choose(mr_http_request *request, const char *url, const char *method) {
    static const mr_http_route none = {0};
    const bool post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
    const bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    const mr_http_route *route = find_route(request, url, post);
    mr_http_reply reply;
    if (!post && !get && !request->posts)
        return mr_http_say(request, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
    if (may_not(request, route ? route : &none, post, &reply))
        return reply;
    if (!route)
        return mr_http_say(request, MHD_HTTP_NOT_FOUND, request->server->not_found);
    if (route->post != post || (!post && !get))
        return mr_http_say(request, MHD_HTTP_METHOD_NOT_ALLOWED,
                           route->post ? "only POST is answered here\n" : "only GET and HEAD are answered\n");
    request->route = route;
    request->asked = !post;
    if (!post && hides_token(request, route)) {
        request->logs_in = true;
        return mr_http_say(request, MHD_HTTP_SEE_OTHER, "the page is at ./\n");
    }
    if (!post)
        return route->answer(request, route->context);
    request->body_bytes = 0;
    request->body = mr_alloc(BODY_BYTES + 1);
    if (!request->body)
        return MR_HTTP_END;
    *request->body = '\0';
    return MR_HTTP_DONE;
}

/* Takes the next bytes of a POST's body. Those that do not fit are only counted. */
static void take_body(mr_http_request *request, const char *data, size_t bytes) {
    const size_t room = request->body_bytes < BODY_BYTES ? BODY_BYTES - request->body_bytes : 0;
    const size_t kept = bytes < room ? bytes : room;
    if (kept) {
        memcpy(request->body + request->body_bytes, data, kept);
        request->body[request->body_bytes + kept] = '\0';
    }
    request->body_bytes += bytes;
}

static mr_http_reply answer_route(mr_http_request *request) {
    request->asked = true;
    if (request->body && request->body_bytes > BODY_BYTES)
        return mr_http_say(request, MHD_HTTP_CONTENT_TOO_LARGE, "the body has more than 4096 bytes\n");
    if (request->body && strlen(request->body) != request->body_bytes)
        return mr_http_say(request, MHD_HTTP_BAD_REQUEST, "the body has a zero byte\n");
    return request->route->answer(request, request->route->context);
}

static enum MHD_Result take_request(void *context, struct MHD_Connection *handle, const char *url, const char *method,
                                    const char *version, const char *data, size_t *bytes, void **request_context) {
    mr_http_request *request = request_of(handle);
    if (!request || request->over)
        return MHD_NO;
    *request_context = request;
    if (request->body && *bytes) {
        take_body(request, data, *bytes);
        *bytes = 0;
        return MHD_YES;
    }
    atomic_store(&request->woken, false);
    mr_http_reply reply = request->route ? answer_route(request) : choose(request, url, method);
    if (reply == MR_HTTP_WAIT)
        suspend(request);
    return reply == MR_HTTP_END ? MHD_NO : MHD_YES;
}

static void end_request(void *context, struct MHD_Connection *handle, void **request_context,
                        enum MHD_RequestTerminationCode code) {
    mr_http_request *request = *request_context;
    if (!request)
        return;
    if (request->next) {
        request->server->streams--;
        mr_http_parts_end(&request->parts);
    }
    if (request->end)
        request->end(request->state);
    request->route = NULL;
    request->next = NULL;
    request->posts = request->logs_in = false;
    mr_free(request->body);
    request->body = NULL;
    mr_http_keep(request, NULL, NULL);
    *request_context = NULL;
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

static void wake_thread(mr_http_server *server) {
    const uint64_t one = 1;
    if (atomic_exchange(&server->woken, true))
        return;
    /* It fails only if the thread has been woken 2^64 - 2 times already. */
    ssize_t count = write(server->wake, &one, sizeof one);
    (void)count;
}

void mr_http_wake(mr_http_request *request) {
    atomic_store(&request->woken, true);
    wake_thread(request->server);
}

static void resume_woken(mr_http_server *server) {
    uint64_t count;
    while (read(server->wake, &count, sizeof count) > 0)
        continue;
    if (!atomic_exchange(&server->woken, false))
        return;
    for (int i = 0; i < server->slots; i++)
        if (server->slot[i].waiting && atomic_load(&server->slot[i].woken))
            resume(&server->slot[i]);
}

static int wait_ms(mr_http_server *server) {
    MHD_UNSIGNED_LONG_LONG ms;
    bool sooner = MHD_get_timeout(server->daemon, &ms) == MHD_YES && ms < (unsigned)server->sweep_ms;
    int most_ms = sooner ? (int)ms : server->sweep_ms;
    return server->full_ns && most_ms > PATIENCE_NS / 1000000 ? (int)(PATIENCE_NS / 1000000) : most_ms;
}

static void *serve(void *context) {
    mr_http_server *server = context;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd on[] = {{.fd = info->epoll_fd, .events = POLLIN}, {.fd = server->wake, .events = POLLIN}};
    while (!atomic_load(&server->ending)) {
        poll(on, 2, wait_ms(server));
        resume_woken(server);
        sweep(server);
        make_room(server);
        /* If there were as many connections as may be, the library accepts more when it is called again. */
        do {
            server->closed_one = false;
            MHD_run(server->daemon);
        } while (server->closed_one);
    }
    /* Sends the answers that were made just before the end. */
    resume_woken(server);
    for (int i = 0; i < LAST_TURNS; i++)
        MHD_run(server->daemon);
    return NULL;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------ */

static struct MHD_Daemon *start_daemon(mr_http_server *server, int fd) {
    unsigned idle_s = (unsigned)((server->timeout_ns + SECOND_NS - 1) / SECOND_NS);
    static char priorities[] = "SECURE128:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";
    /* Options end at the first MHD_OPTION_END: without a certificate the list is empty. */
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}},
                                tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, server->certificate},
                                         {MHD_OPTION_HTTPS_MEM_KEY, 0, server->key},
                                         {MHD_OPTION_HTTPS_PRIORITIES, 0, priorities},
                                         {MHD_OPTION_END, 0, NULL}};
    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (server->certificate ? MHD_USE_TLS : 0);
    return MHD_start_daemon(flags, 0, NULL, NULL, take_request, server,
                            MHD_OPTION_ARRAY, server->certificate ? tls : plain,
                            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)server->slots,
                            MHD_OPTION_CONNECTION_TIMEOUT, idle_s,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
                            MHD_OPTION_NOTIFY_CONNECTION, note_connection, server,
                            MHD_OPTION_NOTIFY_COMPLETED, end_request, server, MHD_OPTION_END);
}

/* Allocates what the server holds beside the daemon; whether that was possible. */
static bool allocate(mr_http_server *server, const mr_http_params *params) {
    size_t routes = 0;
    while (params->routes[routes++].path)
        continue;
    server->slot = mr_calloc((size_t)server->slots, sizeof *server->slot);
    server->routes = mr_calloc(routes + 1, sizeof *server->routes);
    server->certificate = params->certificate ? mr_strdup(params->certificate) : NULL;
    server->key = params->key ? mr_strdup(params->key) : NULL;
    if (!server->slot || !server->routes || server->wake < 0 ||
        (params->certificate && (!server->certificate || !server->key)) ||
        mr_http_permission_init(&server->permission, params->token, params->hosts, params->any_host,
                                params->certificate != NULL))
        return false;
    if (params->token)
        *server->routes = (mr_http_route){.path = "/login", .answer = answer_login, .post = true};
    memcpy(server->routes + (params->token ? 1 : 0), params->routes, routes * sizeof *server->routes);
    for (int i = 0; i < server->slots; i++)
        server->slot[i].server = server;
    return true;
}

int mr_http_server_create(mr_http_server **result, const mr_http_params *params) {
    mr_http_server *server = mr_calloc(1, sizeof *server);
    if (!server) {
        close(params->fd);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    const int64_t sweep_ms = params->timeout_ns / 8000000;
    *server = (mr_http_server){.not_found = params->not_found, .timeout_ns = params->timeout_ns,
                               .most_streams = params->most_streams, .slots = params->most_streams + OTHERS,
                               .sweep_ms = sweep_ms < MOST_SWEEP_MS ? (int)sweep_ms : MOST_SWEEP_MS,
                               .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (allocate(server, params))
        server->daemon = start_daemon(server, params->fd);
    else
        close(params->fd);
    server->threaded = server->daemon && mr_thread_create(&server->thread, serve, server) == 0;
    if (server->threaded) {
        if (params->thread)
            pthread_setname_np(server->thread, params->thread);
        *result = server;
        return MR_OK;
    }
    mr_http_server_destroy(&server);
    return mr_fail(MR_ERROR_UNAVAILABLE, "cannot start the HTTP server: no memory, or no descriptors or threads left%s",
                   params->certificate ? "; or `certificate` and `key` are not in PEM form, or do not belong together"
                                       : "");
}

void mr_http_server_destroy(mr_http_server **result) {
    mr_http_server *server = *result;
    if (!server)
        return;
    if (server->threaded) {
        atomic_store(&server->ending, true);
        wake_thread(server);
        pthread_join(server->thread, NULL);
    }
    /* The library may not be stopped while connections are suspended. */
    for (int i = 0; server->daemon && i < server->slots; i++)
        if (server->slot[i].waiting)
            resume(&server->slot[i]);
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    if (server->wake >= 0)
        close(server->wake);
    mr_http_permission_fini(&server->permission);
    mr_http_token_forget(&server->key);
    mr_free(server->certificate);
    mr_free(server->routes);
    mr_free(server->slot);
    mr_free(server);
    *result = NULL;
}
