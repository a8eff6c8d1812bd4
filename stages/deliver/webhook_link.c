#include "stages/deliver/webhook_link.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/grow.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "engine/serve/http_client.h"
#include "stages/deliver/post.h"

enum { SECRET_BYTES = 4096, SUM_BYTES = 32, SUM_TEXT = 2 * SUM_BYTES + 8, ID_BYTES = 2048,
       URL_BYTES = 2 * SECRET_BYTES };

struct mr_webhook_link {
    const mr_webhook_params *params;
    mr_http_client *client;
    char url[URL_BYTES];           /* whole */
    char secret[SECRET_BYTES];     /* "": requests are not signed */
    const mr_delivery *delivery;
    int64_t pause_ns;              /* the last answer asks for it */
    char *body;                    /* the records of the current batch */
    size_t bytes, room;
};

/* ---- checks and secrets ------------------------------------------------------------------------------------------ */

/* The taken ones are set by millrace or libcurl. */
static int check_header(const char *name) {
    static const char *const taken[] = {"Content-Type",    "Content-Length",       "Host", "Transfer-Encoding",
                                        "Idempotency-Key", "X-Millrace-Signature", NULL};
    if (strcasecmp(name, "Authorization") == 0)
        return mr_fail(MR_ERROR_CONFIG, "plans would show the header Authorization: write it into an "
                       "authorization_file");
    if (!mr_http_is_header_name(name))
        return mr_fail(MR_ERROR_CONFIG, "\"%s\" cannot name a header", name);
    for (size_t i = 0; taken[i]; i++)
        if (strcasecmp(name, taken[i]) == 0)
            return mr_fail(MR_ERROR_CONFIG, "the header %s is set by millrace", name);
    return MR_OK;
}

static bool is_value(const char *text) {
    return !strpbrk(text, "\r\n");
}

int mr_webhook_link_check(const mr_webhook_params *params) {
    int status = mr_http_client_check(params->url);
    for (size_t i = 0; i < params->headers.count && !status; i++) {
        status = check_header(params->headers.key[i]);
        if (!status && !is_value(params->headers.value[i]))
            status = mr_fail(MR_ERROR_CONFIG, "the header %s must be one line", params->headers.key[i]);
    }
    return status;
}

static int add_headers(mr_webhook_link *at) {
    const mr_webhook_params *given = at->params;
    char value[SECRET_BYTES];
    int status = MR_OK;
    for (size_t i = 0; i < given->headers.count && !status; i++)
        status = mr_http_client_add_header(at->client, given->headers.key[i], given->headers.value[i]);
    if (!status && given->authorization_file) {
        status = mr_secret_file_read(given->authorization_file, "a header's value", value, sizeof value);
        if (!status)
            status = mr_http_client_add_header(at->client, "Authorization", value);
    }
    explicit_bzero(value, sizeof value);
    return status;
}

/* What is added cannot name another server. */
static int make_url(mr_webhook_link *at) {
    const mr_webhook_params *given = at->params;
    char path[SECRET_BYTES] = "";
    int status = given->path_file ? mr_secret_file_read(given->path_file, "a URL's path", path, sizeof path) : MR_OK;
    const size_t length = strlen(given->url), end = *path && given->url[length - 1] == '/';
    if (!status && given->path_file && *path != '/')
        status = mr_fail(MR_ERROR_DATA, "%s: the URL's path must begin with /", given->path_file);
    else if (!status && snprintf(at->url, sizeof at->url, "%.*s%s", (int)(length - end), given->url, path) >= URL_BYTES)
        status = mr_fail(MR_ERROR_CONFIG, "the URL has more than %d characters", URL_BYTES - 1);
    explicit_bzero(path, sizeof path);
    return status;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static bool is_stopped(void *context) {
    return mr_delivery_stops(((const mr_webhook_link *)context)->delivery);
}

static void disconnect(void *service) {
    mr_http_client_disconnect(((mr_webhook_link *)service)->client);
}

/* Nothing is connected before the first record. */
static int connect_to(void *service, const mr_delivery *delivery) {
    ((mr_webhook_link *)service)->delivery = delivery;
    return MR_OK;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static bool add(mr_webhook_link *at, const char *text, size_t bytes) {
    return mr_append_bytes((void **)&at->body, &at->room, &at->bytes, text, bytes);
}

static int make_body(mr_webhook_link *at, const mr_batch *batch) {
    const bool array = at->params->body == MR_WEBHOOK_ARRAY, lines = at->params->body == MR_WEBHOOK_LINES;
    at->bytes = 0;
    bool made = !array || add(at, "[", 1);
    for (size_t i = 0; i < batch->count && made; i++) {
        const mr_post one = mr_post_at(batch, i);
        made = (i == 0 || !array || add(at, ",", 1)) && add(at, one.text, one.head.text_bytes) &&
               (!lines || add(at, "\n", 1));
    }
    made = made && (!array || add(at, "]", 1));
    return made ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a request");
}

/* *text: a header's value, "" without a secret. */
static int sign(const mr_webhook_link *at, char text[SUM_TEXT]) {
    uint8_t sum[SUM_BYTES];
    *text = '\0';
    if (!*at->secret)
        return MR_OK;
    if (gnutls_hmac_fast(GNUTLS_MAC_SHA256, at->secret, strlen(at->secret), at->body, at->bytes, sum))
        return mr_fail(MR_ERROR_INTERNAL, "GnuTLS cannot sign a request");
    snprintf(text, SUM_TEXT, "sha256=");
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(text + 7 + 2 * i, 3, "%02x", sum[i]);
    return MR_OK;
}

/* The picture is a second part, after the record. */
static int post(mr_webhook_link *at, const mr_batch *batch) {
    const mr_post first = mr_post_at(batch, 0);
    const bool parts = at->params->picture && first.head.picture_bytes;
    const mr_http_part part[] = {
        {.name = "record", .type = "application/json", .data = at->body, .bytes = at->bytes},
        {.name = "picture", .type = "image/jpeg", .file = "picture.jpg", .data = first.picture,
         .bytes = first.head.picture_bytes}};
    mr_http_header headers[3];
    mr_http_post request = {.body = at->body, .bytes = at->bytes, .parts = part, .part_count = parts ? 2 : 0,
                            .headers = headers};
    mr_http_answer answer;
    char id[ID_BYTES], sum[SUM_TEXT];
    snprintf(id, sizeof id, "%.*s", (int)first.head.id_bytes, first.id);
    int status = sign(at, sum);
    if (status)
        return status;
    if (batch->count == 1)
        headers[request.header_count++] = (mr_http_header){"Idempotency-Key", id};
    if (*sum)
        headers[request.header_count++] = (mr_http_header){"X-Millrace-Signature", sum};
    if (!parts)
        headers[request.header_count++] = (mr_http_header){
            "Content-Type", at->params->body == MR_WEBHOOK_LINES ? "application/x-ndjson" : "application/json"};
    status = mr_http_client_post(at->client, &request, &answer);
    at->pause_ns = status == MR_ERROR_AGAIN ? answer.pause_ns : 0;
    return status;
}

static int send_batch(void *service, const mr_delivery *delivery, const mr_batch *batch) {
    mr_webhook_link *at = service;
    at->pause_ns = 0;
    int status = make_body(at, batch);
    return status ? status : post(at, batch);
}

static int64_t pause_of(void *service) {
    return ((const mr_webhook_link *)service)->pause_ns;
}

static void destroy(void *service) {
    mr_webhook_link *gone = service;
    mr_http_client_destroy(&gone->client);
    explicit_bzero(gone->secret, sizeof gone->secret);
    explicit_bzero(gone->url, sizeof gone->url);
    mr_free(gone->body);
    mr_free(gone);
}

const mr_service_type mr_webhook_service = {
    .connect = connect_to, .send = send_batch, .disconnect = disconnect, .destroy = destroy,
    .connects_late = true, .pause = pause_of};

/* ---- making ------------------------------------------------------------------------------------------------------ */

int mr_webhook_link_create(mr_webhook_link **link, const mr_webhook_params *params) {
    mr_webhook_link *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a connection");
    made->params = params;
    const mr_http_client_params client = {.url = made->url, .shown = params->url, .ca_file = params->ca_file,
                                          .login = params->login, .timeout_ns = params->timeout_ns,
                                          .stops = is_stopped, .context = made};
    int status = make_url(made);
    if (!status)
        status = mr_http_client_create(&made->client, &client);
    if (!status)
        status = add_headers(made);
    if (!status && params->secret_file)
        status = mr_secret_file_read(params->secret_file, "a secret", made->secret, sizeof made->secret);
    if (status)
        destroy(made);
    else
        *link = made;
    return status;
}
