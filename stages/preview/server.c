#include "stages/preview/server.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "stages/preview/address.h"
#include "stages/preview/page.h"

enum {
    REQUEST_BYTES = 16384,  /* of a request's line and headers, and of the answer's headers */
    BLOCK_BYTES = 32768,    /* of a stream, passed to the system at once */
    SOCKET_BYTES = 131072,  /* that the system keeps of a stream: how far behind a slow viewer may be */
    SWEEP_MS = 1000,
    PART_BYTES = 96,
    MOST_ID = 64
};

struct mr_preview_server {
    struct MHD_Daemon *daemon;
    mr_gallery *gallery;
    char *page, *token;
    size_t page_bytes;
    int64_t timeout_ns;
    int wake; /* an eventfd: a connection is resumed, or the server is to end */
    atomic_bool ending;
    pthread_t thread;
    bool threaded;
    struct connection *connections; /* the server's thread, and destroy after it */
    bool ended; /* a connection has */
};

typedef struct connection {
    int fd;
    int64_t since_ns;
    bool stream, shut;
    struct connection *next, **link;
} connection;

/* A picture, or all of a source, for one connection. */
typedef struct request {
    mr_looker looker; /* first: `resume` is called with it */
    mr_preview_server *server;
    struct MHD_Connection *connection;
    bool looks;
    /* of streams: the part that is being sent */
    mr_jpeg *jpeg;
    char head[PART_BYTES];
    size_t head_bytes, sent;
} request;

static const char BOUNDARY[] = "millrace-picture";
static const char PART_END[] = "\r\n--millrace-picture\r\n";

/* ---- connections ------------------------------------------------------------------------------------------------ */

static void begin_connection(mr_preview_server *server, struct MHD_Connection *handle, void **context) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
    connection *made = info ? mr_calloc(1, sizeof *made) : NULL;
    *context = made;
    if (!made)
        return;
    *made = (connection){.fd = info->connect_fd, .since_ns = mr_clock_now_ns(mr_clock_real()),
                         .next = server->connections, .link = &server->connections};
    if (made->next)
        made->next->link = &made->next;
    server->connections = made;
}

static void end_connection(mr_preview_server *server, connection *at) {
    server->ended = true;
    *at->link = at->next;
    if (at->next)
        at->next->link = at->link;
    mr_free(at);
}

static void note_connection(void *context, struct MHD_Connection *handle, void **socket_context,
                            enum MHD_ConnectionNotificationCode code) {
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        begin_connection(context, handle, socket_context);
    else if (*socket_context)
        end_connection(context, *socket_context);
}

static connection *connection_of(struct MHD_Connection *handle) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* Ends those that have lasted too long: a client that sends a byte now and then is not idle, but holds its place. */
static void sweep(mr_preview_server *server) {
    const int64_t now = mr_clock_now_ns(mr_clock_real());
    for (connection *at = server->connections; at; at = at->next)
        if (!at->stream && !at->shut && now - at->since_ns >= server->timeout_ns) {
            shutdown(at->fd, SHUT_RDWR);
            at->shut = true;
        }
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

/* Takes the response. */
static enum MHD_Result answer(struct MHD_Connection *handle, unsigned code, const char *type,
                              struct MHD_Response *response) {
    static const char *const headers[][2] = {{"Cache-Control", "no-store"},
                                             {"X-Content-Type-Options", "nosniff"},
                                             {"Cross-Origin-Resource-Policy", "same-origin"},
                                             {"Referrer-Policy", "no-referrer"},
                                             {"Content-Security-Policy", mr_page_policy}};
    if (!response)
        return MHD_NO;
    /* Without chunks, and closed behind it. */
    MHD_set_response_options(response, MHD_RF_HTTP_VERSION_1_0_ONLY, MHD_RO_END);
    MHD_add_response_header(response, "Content-Type", type);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        MHD_add_response_header(response, headers[i][0], headers[i][1]);
    if (code == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer realm=\"millrace\"");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, "Allow", "GET, HEAD");
    if (code == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, "Retry-After", "1");
    enum MHD_Result queued = MHD_queue_response(handle, code, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result say(struct MHD_Connection *handle, unsigned code, const char *words) {
    return answer(handle, code, "text/plain; charset=utf-8",
                  MHD_create_response_from_buffer(strlen(words), (void *)(uintptr_t)words, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result say_look(struct MHD_Connection *handle, mr_look look) {
    switch (look) {
    case MR_LOOK_UNKNOWN:
        return say(handle, MHD_HTTP_NOT_FOUND, "no source of that name has given a picture; / shows all that have\n");
    case MR_LOOK_FULL:
        return say(handle, MHD_HTTP_SERVICE_UNAVAILABLE, "as many watch already as `viewers` allows\n");
    default:
        return say(handle, MHD_HTTP_SERVICE_UNAVAILABLE, "there is no picture\n");
    }
}

/* ---- permission -------------------------------------------------------------------------------------------------- */

/* Takes the same time for every text of one length. */
static bool is_token(const char *token, const char *given) {
    const size_t bytes = strlen(token), given_bytes = strlen(given);
    unsigned different = bytes != given_bytes;
    for (size_t i = 0; i < given_bytes; i++)
        different |= (unsigned)((unsigned char)given[i] ^ (unsigned char)token[i % bytes]);
    return !different;
}

static bool has_token(const mr_preview_server *server, struct MHD_Connection *handle) {
    static const char scheme[] = "Bearer ";
    const char *header = MHD_lookup_connection_value(handle, MHD_HEADER_KIND, "Authorization");
    const char *argument = MHD_lookup_connection_value(handle, MHD_GET_ARGUMENT_KIND, "token");
    if (header && strncasecmp(header, scheme, sizeof scheme - 1) == 0)
        return is_token(server->token, header + sizeof scheme - 1);
    return argument && is_token(server->token, argument);
}

/* 0, or the code of an answer that says why not. */
static unsigned judge(const mr_preview_server *server, struct MHD_Connection *handle, const char **words) {
    const char *host = MHD_lookup_connection_value(handle, MHD_HEADER_KIND, "Host");
    if (server->token && !has_token(server, handle)) {
        *words = "a token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN\n";
        return MHD_HTTP_UNAUTHORIZED;
    }
    if (!server->token && host && !mr_address_host_is_local(host)) {
        *words = "ask for this server as 127.0.0.1, [::1] or localhost; for other names it needs a `token`\n";
        return MHD_HTTP_FORBIDDEN;
    }
    return 0;
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

static void suspend(mr_looker *looker) {
    MHD_suspend_connection(((request *)(void *)looker)->connection);
}

static void wake(const mr_preview_server *server) {
    const uint64_t one = 1;
    /* It fails only if the thread has been woken 2^64 - 2 times already. */
    ssize_t count = write(server->wake, &one, sizeof one);
    (void)count;
}

/* The library does not wake a thread that is not its own. */
static void resume(mr_looker *looker) {
    const request *at = (const request *)(const void *)looker;
    MHD_resume_connection(at->connection);
    wake(at->server);
}

/* Browsers show a picture once they have seen the boundary behind it, which is therefore sent with it. */
static void begin_part(request *at) {
    const char *before = at->head_bytes ? "" : PART_END + 2;
    at->head_bytes = (size_t)snprintf(at->head, sizeof at->head, "%sContent-Type: image/jpeg\r\nContent-Length: "
                                      "%zu\r\n\r\n", before, at->jpeg->bytes);
    at->sent = 0;
}

/* Copies from `from`, which begins at `begin` of the part, all that is not sent yet and fits. */
static size_t copy_piece(request *at, size_t begin, const void *from, size_t bytes, char *to, size_t room) {
    if (at->sent < begin || at->sent >= begin + bytes)
        return 0;
    size_t offset = at->sent - begin, count = bytes - offset < room ? bytes - offset : room;
    memcpy(to, (const char *)from + offset, count);
    at->sent += count;
    return count;
}

static size_t copy_part(request *at, char *to, size_t room) {
    const size_t end_bytes = sizeof PART_END - 1, picture_end = at->head_bytes + at->jpeg->bytes;
    size_t done = copy_piece(at, 0, at->head, at->head_bytes, to, room);
    done += copy_piece(at, at->head_bytes, at->jpeg->data, at->jpeg->bytes, to + done, room - done);
    done += copy_piece(at, picture_end, PART_END, end_bytes, to + done, room - done);
    if (at->sent == picture_end + end_bytes)
        mr_gallery_drop(at->server->gallery, &at->jpeg);
    return done;
}

static ssize_t read_stream(void *context, uint64_t position, char *to, size_t room) {
    request *at = context;
    (void)position;
    if (!at->jpeg) {
        mr_look look = mr_gallery_next(at->server->gallery, &at->looker, suspend, &at->jpeg);
        if (look == MR_LOOK_WAIT)
            return 0;
        if (look != MR_LOOK_PICTURE)
            return MHD_CONTENT_READER_END_OF_STREAM;
        begin_part(at);
    }
    return (ssize_t)copy_part(at, to, room);
}

static enum MHD_Result begin_stream(request *at) {
    char type[96];
    const int bytes = SOCKET_BYTES;
    connection *its = connection_of(at->connection);
    if (its) {
        its->stream = true;
        setsockopt(its->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    snprintf(type, sizeof type, "multipart/x-mixed-replace; boundary=%s", BOUNDARY);
    return answer(at->connection, MHD_HTTP_OK, type,
                  MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, at, NULL));
}

/* ---- stills ----------------------------------------------------------------------------------------------------- */

typedef struct borrowed {
    mr_gallery *gallery;
    mr_jpeg *jpeg;
} borrowed;

static void release(void *context) {
    borrowed *at = context;
    mr_gallery_drop(at->gallery, &at->jpeg);
    mr_free(at);
}

/* Takes the reference. */
static enum MHD_Result send_still(request *at, mr_jpeg *jpeg) {
    borrowed *kept = mr_alloc(sizeof *kept);
    if (!kept) {
        mr_gallery_drop(at->server->gallery, &jpeg);
        return MHD_NO;
    }
    *kept = (borrowed){at->server->gallery, jpeg};
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback_cls(jpeg->bytes, jpeg->data, release, kept);
    if (!response)
        release(kept);
    return answer(at->connection, MHD_HTTP_OK, "image/jpeg", response);
}

static enum MHD_Result go_on_still(request *at) {
    mr_jpeg *jpeg = NULL;
    switch (mr_gallery_next(at->server->gallery, &at->looker, suspend, &jpeg)) {
    case MR_LOOK_WAIT:
        return MHD_YES;
    case MR_LOOK_PICTURE:
        return send_still(at, jpeg);
    default:
        return say_look(at->connection, MR_LOOK_END);
    }
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

/* Looks at a source. The request is freed when it is complete. */
static enum MHD_Result look(mr_preview_server *server, struct MHD_Connection *handle, const char *id, bool stream,
                            void **context) {
    request *at = mr_calloc(1, sizeof *at);
    if (!at)
        return MHD_NO;
    *context = at;
    *at = (request){.looker = {.stream = stream, .resume = resume}, .server = server, .connection = handle};
    mr_look found = mr_gallery_look(server->gallery, id, &at->looker);
    at->looks = found == MR_LOOK_WAIT;
    if (!at->looks)
        return say_look(handle, found);
    return stream ? begin_stream(at) : go_on_still(at);
}

static void free_block(void *block) {
    mr_free(block);
}

static enum MHD_Result send_record(mr_preview_server *server, struct MHD_Connection *handle, const char *id) {
    mr_look found;
    char *record = mr_gallery_record(server->gallery, id, &found);
    if (!record)
        return say_look(handle, found);
    struct MHD_Response *response =
        MHD_create_response_from_buffer_with_free_callback(strlen(record), record, free_block);
    if (!response)
        mr_free(record);
    return answer(handle, MHD_HTTP_OK, "application/json", response);
}

static enum MHD_Result send_list(mr_preview_server *server, struct MHD_Connection *handle) {
    yajl_gen json = mr_json_create(false);
    const unsigned char *text = NULL;
    size_t bytes = 0;
    if (!json)
        return MHD_NO;
    mr_json_open_map(json, NULL);
    mr_json_open_array(json, "sources");
    mr_gallery_list(server->gallery, json);
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
    yajl_gen_get_buf(json, &text, &bytes);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    yajl_gen_free(json);
    return answer(handle, MHD_HTTP_OK, "application/json", response);
}

/* Splits /ID.KIND; the id may be empty. */
static bool split(const char *url, char id[MOST_ID + 1], const char **kind) {
    const char *dot = strrchr(url, '.');
    if (*url != '/' || !dot || dot - url - 1 > MOST_ID)
        return false;
    memcpy(id, url + 1, (size_t)(dot - url - 1));
    id[dot - url - 1] = '\0';
    *kind = dot + 1;
    return true;
}

static enum MHD_Result send_wanted(mr_preview_server *server, struct MHD_Connection *handle, const char *url,
                                   void **context) {
    char id[MOST_ID + 1];
    const char *kind;
    if (strcmp(url, "/") == 0)
        return answer(handle, MHD_HTTP_OK, "text/html; charset=utf-8",
                      MHD_create_response_from_buffer(server->page_bytes, server->page, MHD_RESPMEM_PERSISTENT));
    if (!split(url, id, &kind))
        return say_look(handle, MR_LOOK_UNKNOWN);
    if (strcmp(kind, "json") == 0)
        return *id ? send_record(server, handle, id) : send_list(server, handle);
    if (strcmp(kind, "jpg") == 0 || strcmp(kind, "mjpeg") == 0)
        return look(server, handle, id, *kind == 'm', context);
    return say_look(handle, MR_LOOK_UNKNOWN);
}

static enum MHD_Result take_request(void *context, struct MHD_Connection *handle, const char *url, const char *method,
                                    const char *version, const char *data, size_t *bytes, void **request_context) {
    mr_preview_server *server = context;
    const char *words;
    (void)version;
    (void)data;
    (void)bytes;
    /* Called again: a still for which it was suspended may be there. */
    if (*request_context)
        return go_on_still(*request_context);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return say(handle, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n");
    unsigned refused = judge(server, handle, &words);
    return refused ? say(handle, refused, words) : send_wanted(server, handle, url, request_context);
}

static void end_request(void *context, struct MHD_Connection *handle, void **request_context,
                        enum MHD_RequestTerminationCode code) {
    request *at = *request_context;
    (void)context;
    (void)handle;
    (void)code;
    if (!at)
        return;
    mr_gallery_drop(at->server->gallery, &at->jpeg);
    if (at->looks)
        mr_gallery_leave(at->server->gallery, &at->looker);
    mr_free(at);
    *request_context = NULL;
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

static int wait_ms(mr_preview_server *server) {
    MHD_UNSIGNED_LONG_LONG ms;
    return MHD_get_timeout(server->daemon, &ms) == MHD_YES && ms < SWEEP_MS ? (int)ms : SWEEP_MS;
}

static void *serve(void *context) {
    mr_preview_server *server = context;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd on[] = {{.fd = info->epoll_fd, .events = POLLIN}, {.fd = server->wake, .events = POLLIN}};
    uint64_t count;
    while (!atomic_load(&server->ending)) {
        poll(on, 2, wait_ms(server));
        while (read(server->wake, &count, sizeof count) > 0)
            continue;
        /* If there were as many connections as may be, the library accepts more when it is called again. */
        do {
            server->ended = false;
            MHD_run(server->daemon);
        } while (server->ended);
        sweep(server);
    }
    return NULL;
}

static struct MHD_Daemon *start_daemon(mr_preview_server *server, const mr_preview_server_params *params) {
    unsigned idle_s = (unsigned)((params->timeout_ns + 999999999) / 1000000000);
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, take_request, server,
                            MHD_OPTION_LISTEN_SOCKET, params->fd,
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)(params->most_viewers + MR_PREVIEW_OTHERS),
                            MHD_OPTION_CONNECTION_TIMEOUT, idle_s,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
                            MHD_OPTION_NOTIFY_CONNECTION, note_connection, server,
                            MHD_OPTION_NOTIFY_COMPLETED, end_request, server, MHD_OPTION_END);
}

int mr_preview_server_create(mr_preview_server **result, const mr_preview_server_params *params) {
    mr_preview_server *server = mr_calloc(1, sizeof *server);
    if (!server) {
        close(params->fd);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    *server = (mr_preview_server){.gallery = params->gallery, .timeout_ns = params->timeout_ns,
                                  .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                  .token = params->token ? mr_strdup(params->token) : NULL};
    server->page = mr_page_make(params->title, &server->page_bytes);
    bool made = server->wake >= 0 && server->page && (server->token || !params->token);
    if (made)
        server->daemon = start_daemon(server, params);
    else
        close(params->fd);
    server->threaded = server->daemon && mr_thread_create(&server->thread, serve, server) == 0;
    if (server->threaded) {
        *result = server;
        return MR_OK;
    }
    mr_preview_server_destroy(&server);
    return mr_fail(MR_ERROR_UNAVAILABLE, "cannot start the HTTP server: no memory, or no descriptors or threads left");
}

void mr_preview_server_destroy(mr_preview_server **result) {
    mr_preview_server *server = *result;
    if (!server)
        return;
    mr_gallery_close(server->gallery);
    if (server->threaded) {
        atomic_store(&server->ending, true);
        wake(server);
        pthread_join(server->thread, NULL);
    }
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    if (server->wake >= 0)
        close(server->wake);
    free(server->page);
    if (server->token)
        explicit_bzero(server->token, strlen(server->token));
    mr_free(server->token);
    mr_free(server);
    *result = NULL;
}
