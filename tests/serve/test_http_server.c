/* The HTTP server, seen from a socket: routes, permission, streams, limits, and clients that are slow or leave. */
#include <arpa/inet.h>
#include <dirent.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/serve/http_address.h"
#include "engine/serve/http_parts.h"
#include "engine/serve/http_server.h"
#include "millrace/status.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

enum { MOST_SEEN = 4096, LARGE = 1 << 20, OTHERS = 64 };
/* Timeouts. */
static const int64_t HOUR = 3600 * INT64_C(1000000000), LONG = 10 * INT64_C(1000000000), SHORT = 500000000;
static const char TOKEN[] = "0123456789abcdef";

/* The state that the tests' routes answer from. */
typedef struct board {
    pthread_mutex_t lock;
    int number;             /* the newest part; a request waits for the next one */
    bool ended;
    size_t part_bytes;      /* more than a number needs: padded with x */
    int seen;
    mr_http_request *requests[MOST_SEEN]; /* all that came, also those that are over */
    atomic_int calls, states, contents;
} board;

typedef struct reader {
    board *board;
    int number;
} reader;

static mr_http_server *server;
static int port;

/* ---- routes ----------------------------------------------------------------------------------------------------- */

static void release(void *owner) {
    void **block = owner;
    atomic_fetch_sub(&((board *)block[0])->contents, 1);
    mr_free(block);
}

static mr_http_content content_of(board *at, int number) {
    size_t bytes = at->part_bytes > 16 ? at->part_bytes : 16;
    void **block = mr_alloc(sizeof(void *) + bytes);
    assert_non_null(block);
    block[0] = at;
    char *text = (char *)(block + 1);
    memset(text, 'x', bytes);
    int digits = snprintf(text, 16, "%d", number);
    text[digits] = 'x';
    atomic_fetch_add(&at->contents, 1);
    return (mr_http_content){.type = "text/plain", .data = text, .release = release, .owner = block,
                             .bytes = at->part_bytes ? bytes : (size_t)digits};
}

static mr_http_reply next(void *state, mr_http_content *part) {
    reader *its = state;
    board *at = its->board;
    atomic_fetch_add(&at->calls, 1);
    MR_LOCKED(&at->lock);
    mr_http_reply reply = its->number < at->number ? MR_HTTP_DONE : at->ended ? MR_HTTP_END : MR_HTTP_WAIT;
    if (reply == MR_HTTP_DONE)
        *part = content_of(at, ++its->number);
    return reply;
}

static void end(void *state) {
    atomic_fetch_sub(&((reader *)state)->board->states, 1);
    mr_free(state);
}

static reader *enter(mr_http_request *request, board *at) {
    reader *made = mr_alloc(sizeof *made);
    assert_non_null(made);
    pthread_mutex_lock(&at->lock);
    *made = (reader){at, at->number};
    if (at->seen < MOST_SEEN)
        at->requests[at->seen++] = request;
    pthread_mutex_unlock(&at->lock);
    atomic_fetch_add(&at->states, 1);
    mr_http_keep(request, made, end);
    return made;
}

static mr_http_reply answer_later(mr_http_request *request, void *context) {
    mr_http_content content;
    void *state = mr_http_state(request);
    mr_http_reply reply = next(state ? state : enter(request, context), &content);
    return reply == MR_HTTP_DONE ? mr_http_send(request, &content) : reply;
}

static mr_http_reply answer_events(mr_http_request *request, void *context) {
    enter(request, context);
    return mr_http_stream(request, MR_HTTP_EVENTS, next);
}

static mr_http_reply answer_parts(mr_http_request *request, void *context) {
    enter(request, context);
    return mr_http_stream(request, MR_HTTP_MULTIPART, next);
}

static mr_http_reply answer_rest(mr_http_request *request, void *context) {
    const char *rest = mr_http_rest(request);
    char *copy = mr_strdup(rest);
    assert_non_null(copy);
    return mr_http_send(request, &(mr_http_content){.type = "text/plain", .data = copy, .bytes = strlen(copy),
                                                     .release = mr_free, .owner = copy});
}

static mr_http_reply answer_page(mr_http_request *request, void *context) {
    return mr_http_send(request, &(mr_http_content){.type = "text/html", .data = "<p>", .bytes = 3});
}

/* A POST's body; with ?later, once the board has a number. */
static mr_http_reply answer_body(mr_http_request *request, void *context) {
    mr_http_content content;
    void *state = mr_http_state(request);
    if (mr_http_argument(request, "later")) {
        if (next(state ? state : enter(request, context), &content) == MR_HTTP_WAIT)
            return MR_HTTP_WAIT;
        content.release(content.owner);
    }
    char *copy = mr_strdup(mr_http_body(request));
    assert_non_null(copy);
    return mr_http_send(request, &(mr_http_content){.type = "text/plain", .data = copy, .bytes = strlen(copy),
                                                     .release = mr_free, .owner = copy, .code = 202});
}

static mr_http_reply answer_nothing(mr_http_request *request, void *context) {
    return MR_HTTP_END;
}

static void start(board *at, const char *token, int most_streams, int64_t timeout_ns) {
    const mr_http_route routes[] = {
        {.path = "/", .answer = answer_page, .context = at},
        {.path = "/later", .answer = answer_later, .context = at},
        {.path = "/events", .answer = answer_events, .context = at},
        {.path = "/parts", .answer = answer_parts, .context = at},
        {.path = "/nothing", .answer = answer_nothing, .context = at},
        {.path = "/name/*.txt", .answer = answer_rest, .context = at},
        {.path = "/name/*", .answer = answer_page, .context = at},
        {.path = "/do", .answer = answer_body, .context = at, .post = true},
        {.path = "/open", .answer = answer_page, .context = at, .open = true},
        {.path = NULL}};
    mr_http_params params = {.routes = routes, .token = token, .not_found = "not here\n",
                             .most_streams = most_streams, .timeout_ns = timeout_ns};
    mr_http_address address;
    pthread_mutex_init(&at->lock, NULL);
    assert_int_equal(mr_http_address_parse("127.0.0.1:0", &address), MR_OK);
    assert_int_equal(mr_http_address_listen(&address, "127.0.0.1:0", &params.fd, &port), MR_OK);
    assert_int_equal(mr_http_server_create(&server, &params), MR_OK);
}

/* Every request has ended, and every content was released. */
static void stop(board *at) {
    mr_http_server_destroy(&server);
    assert_null(server);
    assert_int_equal(atomic_load(&at->states), 0);
    assert_int_equal(atomic_load(&at->contents), 0);
    pthread_mutex_destroy(&at->lock);
}

static void wake_all(board *at) {
    MR_LOCKED(&at->lock);
    for (int i = 0; i < at->seen; i++)
        mr_http_wake(at->requests[i]);
}

static void publish(board *at) {
    pthread_mutex_lock(&at->lock);
    at->number++;
    pthread_mutex_unlock(&at->lock);
    wake_all(at);
}

static void await_states(board *at, int count) {
    while (atomic_load(&at->states) != count)
        usleep(1000);
}

/* ---- clients ---------------------------------------------------------------------------------------------------- */

static int connected(const char *text) {
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), few = 4096;
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &few, sizeof few);
    assert_int_equal(connect(fd, (const struct sockaddr *)(const void *)&to, sizeof to), 0);
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    return fd;
}

static int asking(const char *path) {
    char text[1024];
    snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    return connected(text);
}

/* Reads until the text has come, or the connection is closed: whether it has. */
static bool reads(int fd, const char *text) {
    static _Thread_local char got[65536];
    size_t done = 0;
    ssize_t count;
    *got = '\0';
    while (!strstr(got, text) && done < sizeof got - 1 && (count = recv(fd, got + done, 1, 0)) > 0)
        got[done += (size_t)count] = '\0';
    return strstr(got, text) != NULL;
}

/* The whole answer to a text; to be freed. */
static char *answer_to(const char *text) {
    char *got = calloc(1, LARGE);
    int fd = connected(text);
    size_t done = 0;
    ssize_t count;
    assert_non_null(got);
    while (done < LARGE - 1 && (count = recv(fd, got + done, LARGE - 1 - done, 0)) > 0)
        done += (size_t)count;
    close(fd);
    return got;
}

/* Whether the answer to a request, with further headers, begins with the code and contains the text. */
static void expect(const char *method, const char *path, const char *headers, int code, const char *text) {
    char request[2048], status[32];
    snprintf(request, sizeof request, "%s %s HTTP/1.1\r\n%s\r\n", method, path, headers);
    snprintf(status, sizeof status, "HTTP/1.1 %d ", code);
    FREED char *got = answer_to(request);
    if (strncmp(got, status, strlen(status)) != 0 || !strstr(got, text))
        fail_msg("%s %s %s: %s, where %d and %s was expected", method, path, headers, got, code, text);
}

static const char LOCAL[] = "Host: localhost\r\n";

/* A test with a server, whose routes use `at`. */
#define SERVER_TEST(name, token, most_streams, timeout_ns)                                                            \
    TEST_GIVEN(name, board, at, (made = (board){0}, start(&made, token, most_streams, timeout_ns)), stop(&made))

/* ---- routes and permission -------------------------------------------------------------------------------------- */

SERVER_TEST(routes_are_found, NULL, 1, LONG) {
    char long_path[600] = "/name/";
    expect("GET", "/", LOCAL, 200, "\r\n\r\n<p>");
    expect("GET", "/?a=b", LOCAL, 200, "Content-Security-Policy: default-src 'none'");
    expect("GET", "/name/a.b.txt", LOCAL, 200, "\r\n\r\na.b");
    expect("GET", "/name/a%20%2f%00b.txt", LOCAL, 200, "\r\n\r\n<p>"); /* the path ends at the zero */
    expect("GET", "/name/a%20%2f.txt", LOCAL, 200, "\r\n\r\na /");
    expect("GET", "/name/.txt", LOCAL, 200, "\r\n\r\n<p>"); /* a star is one character at least: the next route */
    expect("GET", "/name/", LOCAL, 404, "\r\n\r\nnot here\n");
    expect("GET", "/other", LOCAL, 404, "\r\n\r\nnot here\n");
    expect("GET", "//", LOCAL, 404, "not here\n");
    memset(long_path + 6, 'y', 300);
    expect("GET", long_path, LOCAL, 404, "not here\n");
    FREED char *none = answer_to("GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_string_equal(none, "");
}

SERVER_TEST(other_methods_are_refused, NULL, 1, LONG) {
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        expect(methods[i], "/", LOCAL, 405, "Allow: GET, HEAD");
    char *head = answer_to("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_non_null(strstr(head, "Content-Length: 3\r\n"));
    assert_string_equal(strstr(head, "\r\n\r\n"), "\r\n\r\n");
    free(head);
    head = answer_to("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_non_null(strstr(head, "Content-Type: text/event-stream\r\n"));
    assert_string_equal(strstr(head, "\r\n\r\n"), "\r\n\r\n");
    free(head);
}

static void expect_post(const char *headers, const char *body, int code, const char *text) {
    char all[8192];
    char status[32];
    snprintf(all, sizeof all, "POST /do HTTP/1.1\r\n%sContent-Length: %zu\r\n\r\n%s", headers, strlen(body), body);
    snprintf(status, sizeof status, "HTTP/1.1 %d ", code);
    FREED char *got = answer_to(all);
    if (strncmp(got, status, strlen(status)) != 0 || !strstr(got, text))
        fail_msg("%s: %s, where %d and %s was expected", all, got, code, text);
}

#define OURS "Host: localhost:80\r\nX-Millrace: 1\r\n"

SERVER_TEST(posts_are_answered_with_the_header_alone, NULL, 1, LONG) {
    char most[4098];
    memset(most, 'b', sizeof most);
    most[4096] = '\0';
    expect_post(OURS, "{\"a\": 1}", 202, "\r\n\r\n{\"a\": 1}");
    expect_post(OURS, "", 202, "Content-Length: 0");
    expect_post(OURS, most, 202, most);
    most[4096] = 'b';
    most[4097] = '\0';
    expect_post(OURS, most, 413, "4096");
    expect_post("Host: localhost\r\n", "x", 403, "X-Millrace");
    expect_post("Host: evil.example\r\nX-Millrace: 1\r\n", "x", 403, "localhost");
    expect_post(OURS "Origin: http://localhost:80\r\n", "x", 202, "x");
    expect_post(OURS "Origin: http://localhost\r\n", "x", 403, "another site");
    expect_post(OURS "Origin: http://evil.example\r\n", "x", 403, "another site");
    expect_post(OURS "Origin: null\r\n", "x", 403, "another site");
    expect("GET", "/do", LOCAL, 405, "Allow: POST");
    expect("PUT", "/do", LOCAL, 405, "Allow: POST");
}

SERVER_TEST(a_post_comes_in_pieces_and_waits, NULL, 1, LONG) {
    int fd = connected("POST /do?later=1 HTTP/1.1\r\n" OURS "Content-Length: 10\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        usleep(1000);
        assert_int_equal(send(fd, &"0123456789"[i], 1, MSG_NOSIGNAL), 1);
    }
    await_states(at, 1);
    publish(at);
    assert_true(reads(fd, "\r\n\r\n0123456789"));
    close(fd);
    /* A client that leaves in its body. */
    fd = connected("POST /do HTTP/1.1\r\n" OURS "Content-Length: 10\r\n\r\n012");
    close(fd);
    expect_post(OURS, "last", 202, "last");
}

SERVER_TEST(every_host_header_counts, NULL, 1, LONG) {
    expect("GET", "/", "Host: localhost\r\nHost: evil.example\r\n", 403, "localhost");
    expect("GET", "/", "Host: evil.example\r\nHost: localhost\r\n", 403, "localhost");
    expect("GET", "/", "Host:\r\n", 403, "localhost");
    expect("GET", "http://evil.example/", LOCAL, 404, "not here");
}

SERVER_TEST(open_routes_need_no_token, TOKEN, 1, LONG) {
    expect("GET", "/open", "Host: any.example\r\n", 200, "<p>");
    expect("GET", "/", LOCAL, 401, "Bearer");
    expect_post(OURS, "x", 401, "Bearer");
    expect_post(OURS "Authorization: Bearer 0123456789abcdef\r\n", "x", 202, "x");
}

TEST(named_hosts_are_let_in) {
    static const char *const hosts[] = {"box.example", NULL};
    const mr_http_route routes[] = {{.path = "/", .answer = answer_page}, {.path = NULL}};
    mr_http_params params = {.routes = routes, .token = TOKEN, .not_found = "", .most_streams = 1, .hosts = hosts,
                             .timeout_ns = LONG};
    mr_http_address address;
    assert_int_equal(mr_http_address_parse("127.0.0.1:0", &address), MR_OK);
    assert_int_equal(mr_http_address_listen(&address, "127.0.0.1:0", &params.fd, &port), MR_OK);
    assert_int_equal(mr_http_server_create(&server, &params), MR_OK);
    expect("GET", "/?token=0123456789abcdef", "Host: Box.Example:90\r\n", 200, "<p>");
    expect("GET", "/?token=0123456789abcdef", "Host: localhost\r\n", 200, "<p>");
    expect("GET", "/?token=0123456789abcdef", "Host: box.example.org\r\n", 403, "hosts");
    expect("GET", "/?token=0123456789abcdef", "Host: ox.example\r\n", 403, "hosts");
    mr_http_server_destroy(&server);
}

TEST(a_certificate_that_is_none_is_refused) {
    const mr_http_route routes[] = {{.path = NULL}};
    mr_http_params params = {.routes = routes, .not_found = "", .most_streams = 1, .certificate = "no", .key = "no",
                             .timeout_ns = LONG};
    mr_http_address address;
    assert_int_equal(mr_http_address_parse("127.0.0.1:0", &address), MR_OK);
    assert_int_equal(mr_http_address_listen(&address, "127.0.0.1:0", &params.fd, &port), MR_OK);
    assert_int_equal(mr_http_server_create(&server, &params), MR_ERROR_UNAVAILABLE);
    assert_non_null(strstr(mr_message(), "certificate"));
}

SERVER_TEST(hosts_are_checked_without_a_token, NULL, 1, LONG) {
    expect("GET", "/", "Host: [::1]:80\r\n", 200, "<p>");
    expect("GET", "/", "Host: evil.example\r\n", 403, "localhost");
    expect("GET", "/other", "Host: evil.example\r\n", 403, "localhost");
    FREED char *old = answer_to("GET / HTTP/1.0\r\n\r\n");
    assert_non_null(strstr(old, " 200 "));
}

SERVER_TEST(tokens_are_asked_for, TOKEN, 1, LONG) {
    char longer[64];
    snprintf(longer, sizeof longer, "/?token=%sx", TOKEN);
    expect("GET", "/", LOCAL, 401, "WWW-Authenticate: Bearer");
    expect("GET", longer, LOCAL, 401, "a token is needed");
    expect("GET", "/other", LOCAL, 401, "a token is needed");
    longer[strlen(longer) - 1] = '\0';
    expect("GET", longer, "Host: camera.example\r\n", 200, "<p>");
    expect("GET", "/", "Host: camera.example\r\nAuthorization: bearer 0123456789abcdef\r\n", 200, "<p>");
    expect("GET", "/", "Host: localhost\r\nAuthorization: Basic 0123456789abcdef\r\n", 401, "a token is needed");
}

#define PAGE "Host: localhost\r\nAccept: text/html,*/*\r\n"

/* The cookie is SHA-256 of "millrace cookie 0123456789abcdef", as Python's hashlib has it; the name likewise. */
static const char COOKIE[] = "millrace-bc445691="
                             "61c80eb3a3507ceacd7706ae3734e43ac7646bfa78bec7052404100804557ffe";

SERVER_TEST(a_browser_logs_in, TOKEN, 1, LONG) {
    char headers[256];
    expect("GET", "/", PAGE, 401, "type=\"password\"");
    expect("GET", "/other", PAGE, 401, "type=\"password\"");
    expect("POST", "/login", OURS, 401, "a token is needed");
    expect("POST", "/login", OURS "Authorization: Bearer 0123456789abcdee\r\n", 401, "a token is needed");
    expect("POST", "/login", "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n", 403, "X-Millrace");
    expect("GET", "/login", "Host: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n", 405, "Allow: POST");
    snprintf(headers, sizeof headers, "Set-Cookie: %s; Path=/; HttpOnly; SameSite=Lax\r\n", COOKIE);
    expect("POST", "/login", OURS "Authorization: Bearer 0123456789abcdef\r\n", 200, headers);
    /* The token leaves the address; other clients get the answer. */
    expect("GET", "/?token=0123456789abcdef", PAGE, 303, headers);
    expect("GET", "/?token=0123456789abcdef", PAGE, 303, "Location: ./\r\n");
    expect("GET", "/?token=0123456789abcdef", LOCAL, 200, "<p>");
    expect("GET", "/open?token=0123456789abcdef", PAGE, 200, "<p>");
    snprintf(headers, sizeof headers, "%sCookie: other=1; %s\r\n", LOCAL, COOKIE);
    expect("GET", "/", headers, 200, "<p>");
    snprintf(headers, sizeof headers, "%sCookie: %.*s\r\n", LOCAL, (int)sizeof COOKIE - 2, COOKIE);
    expect("GET", "/", headers, 401, "a token is needed");
    /* A page from elsewhere makes the browser send the cookie, but not the header. */
    snprintf(headers, sizeof headers, "%sCookie: %s\r\n", LOCAL, COOKIE);
    expect_post(headers, "x", 403, "X-Millrace");
    snprintf(headers, sizeof headers, "%sCookie: %s\r\n", OURS, COOKIE);
    expect_post(headers, "x", 202, "x");
}

SERVER_TEST(without_a_token_nobody_logs_in, NULL, 1, LONG) {
    expect("POST", "/login", OURS, 404, "not here");
    expect("GET", "/?token=any", PAGE, 200, "<p>");
}

/* ---- streams ---------------------------------------------------------------------------------------------------- */

TEST(parts_are_framed) {
    mr_http_parts parts = {.kind = MR_HTTP_MULTIPART}, events = {.kind = MR_HTTP_EVENTS};
    char all[512];
    /* In pieces of any size. */
    for (size_t room = 1; room < 100; room++) {
        size_t done = 0;
        parts.begun = false;
        for (int i = 0; i < 2; i++) {
            mr_http_parts_begin(&parts, &(mr_http_content){.type = "text/x", .data = "data", .bytes = 4});
            while (parts.busy)
                done += mr_http_parts_copy(&parts, all + done, room);
        }
        all[done] = '\0';
        assert_string_equal(all, "--millrace-part\r\nContent-Type: text/x\r\nContent-Length: 4\r\n\r\ndata"
                                 "\r\n--millrace-part\r\nContent-Type: text/x\r\nContent-Length: 4\r\n\r\ndata"
                                 "\r\n--millrace-part\r\n");
        done = 0;
        mr_http_parts_begin(&events, &(mr_http_content){.type = "status", .data = "{}", .bytes = 2});
        mr_http_parts_comment(&events); /* not within a part */
        while (events.busy)
            done += mr_http_parts_copy(&events, all + done, room);
        mr_http_parts_comment(&events);
        while (events.busy)
            done += mr_http_parts_copy(&events, all + done, room);
        all[done] = '\0';
        assert_string_equal(all, "event: status\ndata: {}\n\n:\n\n");
    }
}

SERVER_TEST(streams_give_each_part, NULL, 2, LONG) {
    int events = asking("/events"), parts = asking("/parts");
    await_states(at, 2);
    publish(at);
    wake_all(at); /* for nothing */
    publish(at);
    assert_true(reads(events, "\r\n\r\nevent: text/plain\ndata: 1\n\nevent: text/plain\ndata: 2\n\n"));
    assert_true(reads(parts, "\r\n\r\n1\r\n--millrace-part\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\n2"));
    /* A stream's end closes the connection. */
    pthread_mutex_lock(&at->lock);
    at->ended = true;
    pthread_mutex_unlock(&at->lock);
    wake_all(at);
    assert_false(reads(events, "never"));
    assert_false(reads(parts, "never"));
    await_states(at, 0);
    close(events);
    close(parts);
}

SERVER_TEST(answers_may_come_later, NULL, 1, LONG) {
    int fd = asking("/later");
    await_states(at, 1);
    int calls = atomic_load(&at->calls);
    while (atomic_load(&at->calls) < calls + 3)
        wake_all(at);
    publish(at);
    assert_true(reads(fd, "\r\n\r\n1"));
    assert_false(reads(fd, "never"));
    close(fd);
    await_states(at, 0);
}

/* A stream that has nothing to send for `timeout` sends a comment. */
SERVER_TEST(silent_events_send_comments, NULL, 1, SHORT) {
    int fd = asking("/events");
    assert_true(reads(fd, "\r\n\r\n:\n\n:\n\n"));
    publish(at);
    assert_true(reads(fd, "data: 1\n\n"));
    close(fd);
}

/* ---- clients that leave, are slow, or too many ------------------------------------------------------------------ */

/* A waiting stream's client has left. The library does not notice, and fails if such a connection is resumed after
 * it was closed. Here every wake-up must be harmless, however late it comes. */
SERVER_TEST(clients_that_left_are_noticed, NULL, 2, LONG / 5) {
    for (int turn = 0; turn < 2; turn++) {
        int events = asking("/events"), parts = asking("/parts");
        await_states(at, 2);
        close(events);
        close(parts);
        await_states(at, 0); /* nothing wakes them */
        publish(at);
    }
    int fd = asking("/events");
    await_states(at, 1);
    publish(at); /* also those that are over, whose slot it has */
    assert_true(reads(fd, "data: 3\n\n"));
    close(fd);
    publish(at);
    await_states(at, 0);
}

/* A stream that never waits also ends when the client closes the sending side. */
SERVER_TEST(busy_streams_end_with_their_clients, NULL, 1, LONG / 5) {
    char got[4096];
    int fd = asking("/parts");
    await_states(at, 1);
    pthread_mutex_lock(&at->lock);
    at->number = INT_MAX;
    pthread_mutex_unlock(&at->lock);
    wake_all(at);
    assert_true(reads(fd, "\r\n\r\n1\r\n"));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    while (recv(fd, got, sizeof got, 0) > 0)
        continue;
    await_states(at, 0);
    close(fd);
}

TEST(slow_readers_are_closed) {
    ENDED_BY(stop) board at = {.part_bytes = LARGE};
    start(&at, NULL, 2, SHORT);
    int slow = asking("/parts"), other = asking("/events");
    await_states(&at, 2);
    publish(&at);
    for (int i = 0; i < 3; i++)
        expect("GET", "/", LOCAL, 200, "<p>"); /* nobody waits for them */
    await_states(&at, 0);
    assert_int_equal(atomic_load(&at.contents), 0);
    close(slow);
    close(other);
}

SERVER_TEST(half_requests_are_closed, NULL, 1, SHORT) {
    static const char *const halves[] = {"", "G", "GET / HTTP/1.1\r\nHost: loc", "GET /later HTTP/1.1\r\n\r",
                                         "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n", /* is never answered */
                                         "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf"};
    int fd[sizeof halves / sizeof *halves];
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        fd[i] = connected(halves[i]);
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        assert_false(reads(fd[i], "never"));
        close(fd[i]);
    }
    await_states(at, 0);
}

SERVER_TEST(bad_requests_are_refused, NULL, 1, SHORT) {
    static const char *const bad[] = {
        "\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", "\x16\x03\x01\x02",
        "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"};
    char *large = malloc(65536);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FREED char *got = answer_to(bad[i]);
        if (strstr(got, " 200 "))
            fail_msg("case %zu: %s", i, got);
    }
    /* Headers of more than 16 KiB. */
    assert_non_null(large);
    size_t done = (size_t)sprintf(large, "GET / HTTP/1.1\r\nHost: localhost\r\n");
    while (done < 20000)
        done += (size_t)sprintf(large + done, "X-Long: 0123456789\r\n");
    strcpy(large + done, "\r\n");
    char *got = answer_to(large);
    assert_null(strstr(got, " 200 "));
    free(got);
    free(large);
    expect("GET", "/", LOCAL, 200, "<p>");
}

/* Bytes that mean nothing, and requests with wrong bytes in them, in any number of pieces. */
SERVER_TEST(random_bytes_are_survived, NULL, 1, SHORT) {
    enum { CLIENTS = 32, ROUNDS = 30, BYTES = 600 };
    static const char request[] = "GET /events?a=b%20c HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-\r\n\r\n";
    for (int round = 0; round < ROUNDS; round++) {
        int fd[CLIENTS];
        for (int i = 0; i < CLIENTS; i++) {
            char bytes[BYTES];
            const int count = i % 2 ? (int)sizeof request - 1 : between(1, BYTES);
            for (int k = 0; k < count; k++)
                bytes[k] = i % 2 && between(0, 19) ? request[k] : (char)draw();
            fd[i] = connected("");
            for (int sent = 0, piece; sent < count; sent += piece) {
                piece = between(1, count - sent);
                if (send(fd[i], bytes + sent, (size_t)piece, MSG_NOSIGNAL) < 0)
                    break; /* the server has refused it already */
            }
        }
        expect("GET", "/", LOCAL, 200, "<p>");
        for (int i = 0; i < CLIENTS; i++)
            close(fd[i]);
    }
    await_states(at, 0);
}

SERVER_TEST(limits_hold, NULL, 3, SHORT) {
    enum { STREAMS = 3, SILENT = OTHERS + STREAMS };
    int streams[STREAMS], silent[SILENT];
    for (int i = 0; i < STREAMS; i++)
        streams[i] = asking(i % 2 ? "/events" : "/parts");
    await_states(at, STREAMS);
    expect("GET", "/events", LOCAL, 503, "Retry-After: 1");
    expect("GET", "/", LOCAL, 200, "<p>");
    /* One that ends makes room. */
    close(streams[0]);
    await_states(at, STREAMS - 1);
    streams[0] = asking("/events");
    await_states(at, STREAMS);
    /* Connections above the limit wait until others end, here by timeout. */
    for (int i = 0; i < SILENT; i++)
        silent[i] = connected("");
    expect("GET", "/", LOCAL, 200, "<p>");
    publish(at);
    assert_true(reads(streams[0], "data: 1\n\n"));
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    for (int i = 0; i < STREAMS; i++)
        close(streams[i]);
}

static bool is_answered(void) {
    FREED char *got = answer_to("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return strstr(got, "<p>") != NULL;
}

/* Not even for an hour, and however many there are. */
SERVER_TEST(clients_that_send_no_request_keep_nobody_away, NULL, 3, HOUR) {
    enum { SILENT = 3 * (OTHERS + 3) };
    static const char *const begun[] = {"", "GET / HTTP/1.1\r\nHost: loc", "POST /do HTTP/1.1\r\n" OURS
                                        "Content-Length: 9\r\n\r\n{"};
    int silent[SILENT], stream = asking("/events"), later = asking("/later");
    await_states(at, 2);
    for (int i = 0; i < SILENT; i++)
        silent[i] = connected(begun[i % 3]);
    /* On a busy machine a client may be too slow, too: it would ask again. */
    while (!is_answered())
        continue;
    /* Those who wait for their answer, or read a stream, stay. */
    assert_int_equal(atomic_load(&at->states), 2);
    publish(at);
    assert_true(reads(stream, "data: 1\n\n"));
    assert_true(reads(later, " 200 "));
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    close(stream);
    close(later);
}

static size_t entries_of(const char *folder) {
    size_t count = 0;
    DIR *list = opendir(folder);
    while (list && readdir(list))
        count++;
    assert_non_null(list);
    closedir(list);
    return count;
}

/* All are answered, however few connections the server has at once, without a thread more. */
SERVER_TEST(a_thousand_clients_at_once, NULL, 3, LONG) {
    enum { MANY = 1000 };
    static int clients[MANY];
    struct rlimit before, raised;
    const size_t threads = entries_of("/proc/self/task"), files = entries_of("/proc/self/fd");
    getrlimit(RLIMIT_NOFILE, &before);
    raised = before;
    raised.rlim_cur = before.rlim_max < 4096 ? before.rlim_max : 4096;
    setrlimit(RLIMIT_NOFILE, &raised);
    const int many = raised.rlim_cur < 2 * MANY + 200 ? ((int)raised.rlim_cur - 200) / 2 : MANY;
    for (int i = 0; i < many; i++)
        clients[i] = connected("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_int_equal(entries_of("/proc/self/task"), threads);
    for (int i = 0; i < many; i++) {
        assert_true(reads(clients[i], "<p>"));
        close(clients[i]);
    }
    for (int i = 0; i < 12000 && entries_of("/proc/self/fd") > files; i++)
        sleep_ms(5);
    assert_int_equal(entries_of("/proc/self/fd"), files);
    setrlimit(RLIMIT_NOFILE, &before);
}

/* Clients that leave before their requests are whole are noticed long before the timeout, also if hundreds of them come
 * while the server is busy. */
SERVER_TEST(clients_that_leave_early_are_noticed, NULL, 300, HOUR) {
    static const char *const begun[] = {"GET / HTTP/1.1\r\nHost: localhost\r\n", "", "\1\2\3",
                                        "POST /do HTTP/1.1\r\n" OURS "Content-Length: 9\r\n\r\n{"};
    static int clients[300];
    const size_t files = entries_of("/proc/self/fd");
    for (int i = 0; i < 300; i++)
        clients[i] = connected(begun[i % 4]);
    for (int i = 0; i < 300; i++)
        close(clients[i]);
    while (entries_of("/proc/self/fd") > files)
        sleep_ms(5);
}

/* ---- the end, and all at once ----------------------------------------------------------------------------------- */

TEST(stops_with_open_streams) {
    for (int turn = 0; turn < 4; turn++) {
        board at = {.part_bytes = LARGE};
        start(&at, NULL, 8, LONG);
        int fds[] = {asking("/events"), asking("/parts"), asking("/later"), connected("GET "), connected("")};
        await_states(&at, 3);
        if (turn % 2)
            publish(&at); /* the streams are within a part that nobody reads */
        while (turn == 1 && atomic_load(&at.contents) < 2)
            usleep(1000);
        stop(&at);
        for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
            assert_false(reads(fds[i], "never"));
            close(fds[i]);
        }
    }
}

static void *publish_many(void *context) {
    for (int i = 0; i < 300; i++) {
        publish(context);
        usleep(500);
    }
    return NULL;
}

static void *come_and_go(void *context) {
    static const char *const paths[] = {"/events", "/parts", "/later", "/", "/none"};
    unsigned *failed = context;
    for (unsigned i = 0; i < 60; i++) {
        char byte[256];
        int fd = asking(paths[(i + *failed) % 5]);
        if (i % 3 && recv(fd, byte, sizeof byte, 0) <= 0)
            ++*failed;
        close(fd);
    }
    return NULL;
}

SERVER_TEST(many_come_and_go, NULL, 4, LONG) {
    enum { CLIENTS = 6 };
    pthread_t publishers[2], clients[CLIENTS];
    unsigned failed[CLIENTS] = {0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&publishers[i], NULL, publish_many, at), 0);
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&clients[i], NULL, come_and_go, &failed[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(publishers[i], NULL);
    /* Clients may still wait for a part. */
    pthread_mutex_lock(&at->lock);
    at->ended = true;
    pthread_mutex_unlock(&at->lock);
    for (int i = 0; i < CLIENTS; i++) {
        pthread_t thread = clients[i];
        while (pthread_tryjoin_np(thread, NULL)) {
            wake_all(at);
            usleep(1000);
        }
    }
    expect("GET", "/", LOCAL, 200, "<p>");
}

RUN_TESTS(NULL, NULL)
