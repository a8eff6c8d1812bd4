/* One HTTP server, by libmicrohttpd: routes, streams, permission and limits.
 *
 * A route answers GET and HEAD for a path, or POST. Its function can answer at once (mr_http_say, mr_http_send), begin
 * a stream (mr_http_stream), or return MR_HTTP_WAIT and be called again after mr_http_wake. A stream asks for parts in
 * the same way. A connection serves one request and is then closed.
 *
 * Threads: one thread serves all connections and calls all functions of routes and streams. They must not block; they
 * may take a lock that is held briefly. mr_http_wake may be called from any thread, until the server is destroyed.
 *
 * Wake-ups: only the server's thread touches connections. mr_http_wake sets a flag of the request's slot, which lives
 * as long as the server. A wake-up that comes after the client has left is harmless; it may wake the slot's next user.
 * A function that is called must therefore check again whether it has what it waits for.
 *
 * Ownership: a content's `release` function is called once, on the server's thread: after the last byte, when the
 * client has left, or at once if the answer cannot be made. A request that needs data over several calls must keep it
 * as state (mr_http_keep), which ends with the request, for whatever reason.
 *
 * Permission: with a token, a request must give it ("Authorization: Bearer TOKEN", or "?token=TOKEN"), except for
 * routes that are open. A browser gets a page on which its user enters the token, and then a cookie
 * (http_permission.h); a POST to "/login" with the token gives that cookie too. Host headers must name this machine or
 * one of `hosts`: otherwise a page from elsewhere in a browser on this machine could read the answers (DNS rebinding).
 * Any name will do for a Unix socket, which no page can reach, and with a token unless there are `hosts`. A POST must
 * have the header "X-Millrace", which a page from elsewhere cannot set, and an Origin header must be the server's.
 * Headers on all answers keep foreign pages from showing them, and our pages from loading anything from elsewhere.
 * Requests are not logged.
 *
 * Limits: `most_streams` streams and 64 other connections; more wait in the system's queue until one ends. While all
 * are taken, those are closed whose clients have not sent their request within 50 ms: a few clients that send nothing
 * cannot keep others away. A request
 * that is not a stream can last for `timeout`, from its first byte to the answer's last. A stream is closed if its
 * client takes nothing for `timeout`, or has left (closed the connection, or the sending side). An event stream sends a
 * comment after `timeout` without events, so that proxies keep it. A request's line and headers must fit into 16 KiB,
 * the body of a POST into 4 KiB. Other bodies are not read.
 *
 * Errors: 401 without the token, 403 for another Host or Origin or without X-Millrace, 404 if no route fits, 405 for
 * other methods, 413 for a longer body, 503 for one stream too many, each with a line of text. Functions return a
 * negative mr_status. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_http_server mr_http_server;
typedef struct mr_http_request mr_http_request;

typedef enum mr_http_reply {
    MR_HTTP_DONE, /* answered; stream: *part is set */
    MR_HTTP_WAIT, /* call again after mr_http_wake */
    MR_HTTP_END   /* no answer: close the connection; stream: it has ended */
} mr_http_reply;

/* An answer's bytes, or those for a stream's part. */
typedef struct mr_http_content {
    const char *type;             /* the media type; event: the name. Must be a literal */
    const void *data;             /* valid until `release`; an event is one line */
    size_t bytes;
    void (*release)(void *owner); /* NULL: the data outlive the server */
    void *owner;
    unsigned code;                /* an answer's; 0: 200 */
} mr_http_content;

/* ---- the server ------------------------------------------------------------------------------------------------- */

typedef struct mr_http_route {
    const char *path; /* "/", or with one * for one or more characters: "/A*B" */
    mr_http_reply (*answer)(mr_http_request *request, void *context);
    void *context;
    bool post;        /* answers POST alone */
    bool open;        /* needs no token */
} mr_http_route;

typedef struct mr_http_params {
    int fd;                      /* a listening socket, which belongs to the server from then on, also on failure */
    const mr_http_route *routes; /* the first that fits answers; ends with a path of NULL; copied, but not the paths */
    const char *token;           /* NULL: none; copied */
    const char *certificate, *key; /* for TLS, as PEM texts; copied. NULL: none */
    bool any_host;               /* Host headers are not checked: the socket is a Unix socket */
    const char *const *hosts;    /* further names that Host headers may have; end with NULL, and must outlive the
                                    server. NULL: none */
    const char *not_found;       /* the 404 text; must be a literal */
    const char *thread;          /* what the system calls the thread; NULL: as it calls the caller's */
    int most_streams;
    int64_t timeout_ns;
} mr_http_params;

/* Starts the thread. MR_ERROR_MEMORY, MR_ERROR_UNAVAILABLE. */
int mr_http_server_create(mr_http_server **server, const mr_http_params *params);
/* Closes all connections: every request has ended when it returns. No thread may call mr_http_wake any more. Sets it to
 * NULL; NULL is allowed. */
void mr_http_server_destroy(mr_http_server **server);

/* ---- a request: the server's thread ------------------------------------------------------------------------------ */

/* What the * in the route's path stands for, decoded; "" without one. */
const char *mr_http_rest(const mr_http_request *request);
/* A header or an argument of the URL, decoded; NULL: it is not there. */
const char *mr_http_header(const mr_http_request *request, const char *name);
const char *mr_http_argument(const mr_http_request *request, const char *name);
/* A POST's whole body, ended by 0. */
const char *mr_http_body(const mr_http_request *request);
/* The state for further calls, and for the functions of a stream; `end` is called when the request is over. Once. */
void mr_http_keep(mr_http_request *request, void *state, void (*end)(void *state));
/* The state; NULL in the first call. */
void *mr_http_state(const mr_http_request *request);

/* Answers with a line of text; it is a literal. With 503, clients are asked to try again after a second. */
mr_http_reply mr_http_say(mr_http_request *request, unsigned code, const char *text);
/* Answers with a content. */
mr_http_reply mr_http_send(mr_http_request *request, const mr_http_content *content);

typedef enum mr_http_stream_kind {
    MR_HTTP_MULTIPART, /* multipart/x-mixed-replace: a client replaces each part by the next */
    MR_HTTP_EVENTS     /* text/event-stream */
} mr_http_stream_kind;
/* Begins a stream, or answers 503. `next` gives one part after the other, each after the last byte of the one before:
 * a client that is slow is asked for less often. */
mr_http_reply mr_http_stream(mr_http_request *request, mr_http_stream_kind kind,
                             mr_http_reply (*next)(void *state, mr_http_content *part));

/* Any thread: calls the request's function again if it waits. Nothing waits for it. */
void mr_http_wake(mr_http_request *request);
