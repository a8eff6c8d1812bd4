#include "stages/deliver/webhook_link.h"

#include <curl/curl.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/grow.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "stages/deliver/post.h"

enum { SECRET_BYTES = 4096, LINE_BYTES = SECRET_BYTES + 256, SUM_BYTES = 32, MOST_PAUSE_S = 86400 };

struct mr_webhook_link {
    const mr_webhook_params *params;
    CURL *curl;                    /* NULL: not connected */
    struct curl_slist *headers;    /* the same for all requests */
    char secret[SECRET_BYTES];     /* "": requests are not signed */
    const mr_delivery *delivery;
    int64_t pause_ns;              /* the last answer asks for it */
    char *body;                    /* the records of the current batch */
    size_t bytes, room;
    char error[CURL_ERROR_SIZE];
};

/* ---- checks and secrets ------------------------------------------------------------------------------------------ */

/* A field name of RFC 9110. These are set by millrace or libcurl. */
static int check_header(const char *name) {
    static const char *const taken[] = {"Content-Type",    "Content-Length",       "Host", "Transfer-Encoding",
                                        "Idempotency-Key", "X-Millrace-Signature", NULL};
    if (strcasecmp(name, "Authorization") == 0)
        return mr_fail(MR_ERROR_CONFIG, "plans would show the header Authorization: write it into an "
                       "authorization_file");
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
    if (!*name || name[strspn(name, allowed)])
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
    CURLU *parts = curl_url();
    char *scheme = NULL;
    int status = parts ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a URL");
    CURLUcode wrong = parts ? curl_url_set(parts, CURLUPART_URL, params->url, 0) : CURLUE_OK;
    if (!status && wrong)
        status = mr_fail(MR_ERROR_CONFIG, "\"%s\" is no URL: %s", params->url, curl_url_strerror(wrong));
    if (!status && (curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) ||
                    (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)))
        status = mr_fail(MR_ERROR_CONFIG, "\"%s\" must begin with https:// or http://", params->url);
    for (size_t i = 0; i < params->headers.count && !status; i++) {
        status = check_header(params->headers.key[i]);
        if (!status && !is_value(params->headers.value[i]))
            status = mr_fail(MR_ERROR_CONFIG, "the header %s must be one line", params->headers.key[i]);
    }
    curl_free(scheme);
    curl_url_cleanup(parts);
    return status;
}

static int add_header(struct curl_slist **list, const char *name, const char *value) {
    char line[LINE_BYTES];
    snprintf(line, sizeof line, "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(*list, line);
    explicit_bzero(line, sizeof line);
    *list = longer ? longer : *list;
    return longer ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for headers");
}

static int make_headers(mr_webhook_link *at) {
    const mr_webhook_params *given = at->params;
    char value[SECRET_BYTES];
    int status = add_header(&at->headers, "Expect", ""); /* libcurl would ask before large bodies, and wait */
    for (size_t i = 0; i < given->headers.count && !status; i++)
        status = add_header(&at->headers, given->headers.key[i], given->headers.value[i]);
    if (!status && given->authorization_file) {
        status = mr_secret_file_read(given->authorization_file, "a header's value", value, sizeof value);
        if (!status)
            status = add_header(&at->headers, "Authorization", value);
    }
    explicit_bzero(value, sizeof value);
    return status;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static size_t swallow(char *data, size_t size, size_t count, void *context) {
    (void)data;
    (void)context;
    return size * count;
}

static int is_stopped(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return mr_delivery_stops(((const mr_webhook_link *)context)->delivery);
}

static void disconnect(void *service) {
    mr_webhook_link *at = service;
    curl_easy_cleanup(at->curl);
    at->curl = NULL;
}

/* Nothing is connected before the first record. Redirects are not followed unless libcurl is told to. */
static int connect_to(void *service, const mr_delivery *delivery) {
    mr_webhook_link *at = service;
    const mr_webhook_params *given = at->params;
    at->delivery = delivery;
    at->curl = curl_easy_init();
    if (!at->curl)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a connection");
    CURLcode code = curl_easy_setopt(at->curl, CURLOPT_URL, given->url);
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_ERRORBUFFER, at->error);
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_NOSIGNAL, 1L);
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_TIMEOUT_MS, (long)(given->timeout_ns / 1000000));
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_WRITEFUNCTION, swallow);
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_XFERINFOFUNCTION, is_stopped);
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_XFERINFODATA, at);
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_NOPROGRESS, 0L);
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_USERAGENT, "millrace");
    if (given->login.user)
        code = code ? code : curl_easy_setopt(at->curl, CURLOPT_USERNAME, given->login.user);
    if (given->login.password)
        code = code ? code : curl_easy_setopt(at->curl, CURLOPT_PASSWORD, given->login.password);
    if (given->ca_file) { /* and no others: libcurl may have a folder of the system's, too */
        code = code ? code : curl_easy_setopt(at->curl, CURLOPT_CAINFO, given->ca_file);
        code = code ? code : curl_easy_setopt(at->curl, CURLOPT_CAPATH, NULL);
    }
    return code ? mr_fail(MR_ERROR_INTERNAL, "libcurl refuses an option: %s", curl_easy_strerror(code)) : MR_OK;
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

static int sign(const mr_webhook_link *at, struct curl_slist **headers) {
    uint8_t sum[SUM_BYTES];
    char text[2 * SUM_BYTES + 8] = "sha256=";
    if (!*at->secret)
        return MR_OK;
    if (gnutls_hmac_fast(GNUTLS_MAC_SHA256, at->secret, strlen(at->secret), at->body, at->bytes, sum))
        return mr_fail(MR_ERROR_INTERNAL, "GnuTLS cannot sign a request");
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(text + 7 + 2 * i, 3, "%02x", sum[i]);
    return add_header(headers, "X-Millrace-Signature", text);
}

/* The picture is a second part, after the record. */
static int add_parts(mr_webhook_link *at, const mr_post *one, curl_mime **form) {
    *form = curl_mime_init(at->curl);
    curl_mimepart *text = *form ? curl_mime_addpart(*form) : NULL, *picture = text ? curl_mime_addpart(*form) : NULL;
    CURLcode code = picture ? curl_mime_data(text, at->body, at->bytes) : CURLE_OUT_OF_MEMORY;
    code = code ? code : curl_mime_name(text, "record");
    code = code ? code : curl_mime_type(text, "application/json");
    code = code ? code : curl_mime_data(picture, one->picture, one->head.picture_bytes);
    code = code ? code : curl_mime_name(picture, "picture");
    code = code ? code : curl_mime_type(picture, "image/jpeg");
    code = code ? code : curl_mime_filename(picture, "picture.jpg");
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_MIMEPOST, *form);
    return code ? mr_fail(MR_ERROR_MEMORY, "no memory for a request") : MR_OK;
}

static int set_body(mr_webhook_link *at, const mr_post *one, curl_mime **form, struct curl_slist **headers) {
    if (at->params->picture && one->head.picture_bytes)
        return add_parts(at, one, form);
    CURLcode code = curl_easy_setopt(at->curl, CURLOPT_POST, 1L);
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)at->bytes);
    code = code ? code : curl_easy_setopt(at->curl, CURLOPT_POSTFIELDS, at->body);
    if (code)
        return mr_fail(MR_ERROR_INTERNAL, "libcurl refuses an option: %s", curl_easy_strerror(code));
    return add_header(headers, "Content-Type",
                      at->params->body == MR_WEBHOOK_LINES ? "application/x-ndjson" : "application/json");
}

static int judge(mr_webhook_link *at, CURLcode code) {
    long answer = 0;
    curl_off_t pause_s = 0;
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return mr_fail(MR_ERROR_CANCELLED, "stopped while %s did not answer", at->params->url);
    if (code)
        return mr_fail(MR_ERROR_AGAIN, "%s: %s", at->params->url, *at->error ? at->error : curl_easy_strerror(code));
    curl_easy_getinfo(at->curl, CURLINFO_RESPONSE_CODE, &answer);
    curl_easy_getinfo(at->curl, CURLINFO_RETRY_AFTER, &pause_s);
    if (answer >= 200 && answer < 300)
        return MR_OK;
    bool passing = answer == 408 || answer == 425 || answer == 429 || answer >= 500;
    pause_s = pause_s > MOST_PAUSE_S ? MOST_PAUSE_S : pause_s;
    at->pause_ns = passing && pause_s > 0 ? (int64_t)pause_s * 1000000000 : 0;
    return mr_fail(passing ? MR_ERROR_AGAIN : MR_ERROR_PROTOCOL, "%s answers %ld%s", at->params->url, answer,
                   answer >= 300 && answer < 400 ? ", a redirect, which is not followed" : "");
}

/* The headers that all requests have are copied, since libcurl keeps one list. */
static int copy_headers(const mr_webhook_link *at, struct curl_slist **headers) {
    for (const struct curl_slist *one = at->headers; one; one = one->next) {
        struct curl_slist *longer = curl_slist_append(*headers, one->data);
        if (!longer)
            return mr_fail(MR_ERROR_MEMORY, "no memory for headers");
        *headers = longer;
    }
    return MR_OK;
}

static int post(mr_webhook_link *at, const mr_batch *batch) {
    const mr_post first = mr_post_at(batch, 0);
    struct curl_slist *headers = NULL;
    curl_mime *form = NULL;
    char id[2048];
    snprintf(id, sizeof id, "%.*s", (int)first.head.id_bytes, first.id);
    int status = copy_headers(at, &headers);
    if (!status && batch->count == 1)
        status = add_header(&headers, "Idempotency-Key", id);
    if (!status)
        status = sign(at, &headers);
    if (!status)
        status = set_body(at, &first, &form, &headers);
    if (!status) {
        at->error[0] = 0;
        curl_easy_setopt(at->curl, CURLOPT_HTTPHEADER, headers);
        status = judge(at, curl_easy_perform(at->curl));
    }
    curl_easy_setopt(at->curl, CURLOPT_HTTPHEADER, NULL);
    curl_easy_setopt(at->curl, CURLOPT_MIMEPOST, NULL);
    curl_mime_free(form);
    curl_slist_free_all(headers);
    return status;
}

static int send_batch(void *service, const mr_delivery *delivery, const mr_batch *batch) {
    mr_webhook_link *at = service;
    (void)delivery;
    at->pause_ns = 0;
    int status = make_body(at, batch);
    return status ? status : post(at, batch);
}

static int64_t pause_of(void *service) {
    return ((const mr_webhook_link *)service)->pause_ns;
}

static void destroy(void *service) {
    mr_webhook_link *gone = service;
    curl_slist_free_all(gone->headers);
    explicit_bzero(gone->secret, sizeof gone->secret);
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
    int status = curl_global_init(CURL_GLOBAL_DEFAULT) ? mr_fail(MR_ERROR_MEMORY, "libcurl cannot begin") : MR_OK;
    if (!status)
        status = make_headers(made);
    if (!status && params->secret_file)
        status = mr_secret_file_read(params->secret_file, "a secret", made->secret, sizeof made->secret);
    if (status)
        destroy(made);
    else
        *link = made;
    return status;
}
