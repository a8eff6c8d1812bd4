#include "tools/millrace/http/listener.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "engine/serve/http_address.h"
#include "engine/serve/http_token.h"
#include "millrace/log.h"

enum { MOST_PEM = 1 << 20, MOST_STREAMS = 256, PAGE_BYTES = 512, NAME_BYTES = 256 };
/* A request may take this long, also one that adds a camera. */
static const int64_t TIMEOUT_NS = 60000000000;

struct mr_http_listener {
    mr_http_server *server;
    char *unlinked;     /* the Unix socket's path; NULL: none */
    const char **hosts; /* ends with NULL; NULL: none are given */
    char page[PAGE_BYTES];
};

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static int read_pem(const char *path, const char *what, bool secret, char **text) {
    mr_file_bytes content;
    FILE *file = secret ? fopen(path, "re") : NULL;
    int status = file ? mr_secret_file_check(fileno(file), path, what) : MR_OK;
    if (file)
        fclose(file);
    if (!status)
        status = mr_file_read(what, path, MOST_PEM, 0, &content);
    if (!status)
        *text = (char *)content.data;
    return status;
}

/* The port is only known from here if the system has chosen it. */
static void report(const char *listen, const char *page) {
    if (*page && strcmp(strrchr(listen, ':'), ":0") == 0)
        mr_print(stderr, "millrace: http listens at %s\n", page);
    else
        mr_log(MR_LOG_INFO, "http listens at %s", *page ? page : listen);
}

/* Without a port of its own, the address has the one that the system has chosen. */
static void name_page(mr_http_listener *listener, const mr_view_http *http, int port) {
    const char *scheme = http->certificate ? "https" : "http";
    char name[NAME_BYTES] = "";
    const int bytes = (int)(strrchr(http->listen, ':') - http->listen);
    const bool all = strncmp(http->listen, "0.0.0.0:", 8) == 0 || strncmp(http->listen, "[::]:", 5) == 0;
    if (all && !gethostname(name, sizeof name - 1))
        snprintf(listener->page, sizeof listener->page, "%s://%s:%d/", scheme, name, port);
    else
        snprintf(listener->page, sizeof listener->page, "%s://%.*s:%d/", scheme, bytes, http->listen, port);
}

static int listen_at(mr_http_listener *listener, const mr_view_http *http, mr_http_params *params) {
    mr_http_address address;
    int port, status = mr_http_address_parse(http->listen, &address);
    if (!status)
        status = mr_http_address_listen(&address, http->listen, &params->fd, &port);
    if (status)
        return status;
    if (address.file)
        listener->unlinked = mr_strdup(http->listen + strlen("unix:"));
    else
        name_page(listener, http, port);
    params->any_host = address.file;
    status = mr_http_server_create(&listener->server, params);
    if (!status)
        report(http->listen, listener->page);
    return status;
}

/* The names, ended by NULL; NULL if there are none. */
static int copy_hosts(mr_http_listener *listener, const mr_strings *hosts) {
    if (!hosts->count)
        return MR_OK;
    listener->hosts = calloc(hosts->count + 1, sizeof *listener->hosts);
    if (!listener->hosts)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the HTTP server");
    for (size_t i = 0; i < hosts->count; i++)
        listener->hosts[i] = hosts->item[i];
    return MR_OK;
}

/* The content of the files that `http` names. */
typedef struct secrets {
    char *token, *certificate, *key;
} secrets;

static int read_secrets(secrets *to, const mr_view_http *http) {
    int status = http->token_file ? mr_http_token_read(http->token_file, &to->token) : MR_OK;
    if (!status && http->certificate)
        status = read_pem(http->certificate, "the certificate", false, &to->certificate);
    if (!status && http->key)
        status = read_pem(http->key, "a key", true, &to->key);
    return status;
}

static void forget_secrets(secrets *gone) {
    mr_http_token_forget(&gone->token);
    mr_http_token_forget(&gone->key);
    mr_free(gone->certificate);
}

int mr_http_check_files(const mr_view_http *http) {
    secrets all = {0};
    int status = read_secrets(&all, http);
    forget_secrets(&all);
    return status;
}

int mr_http_listen(mr_http_listener **result, const mr_view_http *http, const mr_http_route *routes,
                   const char *not_found) {
    secrets all = {0};
    mr_http_listener *made = *result = calloc(1, sizeof *made);
    int status = made ? copy_hosts(made, &http->hosts) : mr_fail(MR_ERROR_MEMORY, "no memory for the HTTP server");
    if (!status)
        status = read_secrets(&all, http);
    if (!status)
        status = listen_at(made, http, &(mr_http_params){
            .routes = routes, .token = all.token, .certificate = all.certificate, .key = all.key,
            .hosts = made->hosts,
            .not_found = not_found, .thread = "mr-http", .most_streams = MOST_STREAMS, .timeout_ns = TIMEOUT_NS});
    forget_secrets(&all);
    if (status)
        mr_http_unlisten(result);
    return status;
}

const char *mr_http_listener_page(const mr_http_listener *listener) {
    return listener ? listener->page : "";
}

void mr_http_unlisten(mr_http_listener **listener) {
    mr_http_listener *gone = *listener;
    if (!gone)
        return;
    mr_http_server_destroy(&gone->server);
    if (gone->unlinked)
        unlink(gone->unlinked);
    mr_free(gone->unlinked);
    free(gone->hosts);
    free(gone);
    *listener = NULL;
}

/* ---- answers ---------------------------------------------------------------------------------------------------- */

mr_http_reply mr_http_answer_icon(mr_http_request *request, void *context) {
    static const char icon[] = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\" fill=\"none\" "
                               "stroke=\"#47c\" stroke-width=\"2\"><circle cx=\"8\" cy=\"8\" r=\"6\"/>"
                               "<path d=\"M8 2v12M2 8h12M4 4l8 8M12 4l-8 8\"/></svg>\n";
    return mr_http_send(request, &(mr_http_content){.type = "image/svg+xml", .data = icon, .bytes = sizeof icon - 1});
}

mr_http_reply mr_http_send_text(mr_http_request *request, const char *type, char *text, size_t bytes,
                                    unsigned code) {
    return mr_http_send(request, &(mr_http_content){.type = type, .data = text, .bytes = bytes, .release = free,
                                                    .owner = text, .code = code});
}

mr_http_reply mr_http_send_json(mr_http_request *request, yajl_gen json) {
    size_t bytes;
    char *text = mr_json_finish_text(json, &bytes);
    return text ? mr_http_send_text(request, "application/json", text, bytes, 200) : MR_HTTP_END;
}
