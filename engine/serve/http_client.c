#include "engine/serve/http_client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/authorities.h"
#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "engine/base/utf8.h"
#include "engine/serve/http_address.h"
#include "millrace/status.h"

enum { MOST_PAUSE_S = 86400, MOST_ANSWER = 1 << 20, MOST_WORDS = 200 };

struct mr_http_client {
    mr_http_client_params params;
    CURL *curl;                 /* NULL: not connected */
    struct curl_slist *headers; /* of all requests */
    char error[CURL_ERROR_SIZE];
};

int mr_http_client_check(const char *url) {
    CURLU *parts = curl_url();
    char *scheme = NULL;
    int status = parts ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a URL");
    CURLUcode wrong = parts ? curl_url_set(parts, CURLUPART_URL, url, 0) : CURLUE_OK;
    const bool scheme_missing = !strstr(url, "://");
    if (!status && wrong && !scheme_missing)
        status = mr_fail(MR_ERROR_CONFIG, "\"%s\" is no URL: %s", url, curl_url_strerror(wrong));
    if (!status && (scheme_missing || curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) ||
                    (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0)))
        status = mr_fail(MR_ERROR_CONFIG, "\"%s\" must begin with https:// or http://", url);
    curl_free(scheme);
    curl_url_cleanup(parts);
    return status;
}

bool mr_http_client_shows(const char *url) {
    CURLU *parts = curl_url();
    char *scheme = NULL, *host = NULL;
    const bool read = parts && !curl_url_set(parts, CURLUPART_URL, url, 0) &&
                      !curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) &&
                      !curl_url_get(parts, CURLUPART_HOST, &host, 0);
    const bool shows = read && strcmp(scheme, "http") == 0 && !mr_http_host_is_local(host);
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parts);
    return shows;
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

static int add_line(struct curl_slist **list, const char *line) {
    struct curl_slist *longer = curl_slist_append(*list, line);
    *list = longer ? longer : *list;
    return longer ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for headers");
}

static int add_header(struct curl_slist **list, const char *name, const char *value) {
    const size_t room = strlen(name) + strlen(value) + sizeof ": ";
    char *line = mr_alloc(room);
    if (!line)
        return mr_fail(MR_ERROR_MEMORY, "no memory for headers");
    snprintf(line, room, "%s: %s", name, value);
    const int status = add_line(list, line);
    explicit_bzero(line, room);
    mr_free(line);
    return status;
}

int mr_http_client_add_header(mr_http_client *client, const char *name, const char *value) {
    return add_header(&client->headers, name, value);
}

/* Values may be secrets. */
static void free_headers(struct curl_slist *headers) {
    for (struct curl_slist *one = headers; one; one = one->next)
        explicit_bzero(one->data, strlen(one->data));
    curl_slist_free_all(headers);
}

/* Those of all requests are copied, since libcurl keeps one list. */
static int make_headers(const mr_http_client *client, const mr_http_post *post, struct curl_slist **headers) {
    int status = MR_OK;
    for (const struct curl_slist *one = client->headers; one && !status; one = one->next)
        status = add_line(headers, one->data);
    for (size_t i = 0; i < post->header_count && !status; i++)
        status = add_header(headers, post->headers[i].name, post->headers[i].value);
    return status;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

/* An answer, and the bytes that have come. */
typedef struct taking {
    mr_http_answer *answer;
    size_t bytes;
} taking;

/* An answer without an end is broken off: CURLE_WRITE_ERROR. */
static size_t take(char *data, size_t size, size_t count, void *context) {
    taking *of = context;
    mr_http_answer *answer = of->answer;
    const size_t bytes = size * count, left = sizeof answer->body - answer->bytes, kept = bytes < left ? bytes : left;
    memcpy(answer->body + answer->bytes, data, kept);
    answer->bytes += kept;
    of->bytes += bytes;
    return of->bytes > MOST_ANSWER ? 0 : bytes;
}

static int is_stopped(void *context, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    const mr_http_client_params *params = context;
    return params->stops && params->stops(params->context);
}

static CURLcode set_options(mr_http_client *client) {
    mr_http_client_params *given = &client->params;
    CURL *curl = client->curl;
    CURLcode code = curl_easy_setopt(curl, CURLOPT_URL, given->url);
    code = code ? code : curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    code = code ? code : curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->error);
    code = code ? code : curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    code = code ? code : curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(given->timeout_ns / 1000000));
    code = code ? code : curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    code = code ? code : curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_stopped);
    code = code ? code : curl_easy_setopt(curl, CURLOPT_XFERINFODATA, given);
    code = code ? code : curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    code = code ? code : curl_easy_setopt(curl, CURLOPT_USERAGENT, "millrace");
    if (given->login.user)
        code = code ? code : curl_easy_setopt(curl, CURLOPT_USERNAME, given->login.user);
    if (given->login.password)
        code = code ? code : curl_easy_setopt(curl, CURLOPT_PASSWORD, given->login.password);
    const char *ca_file = given->ca_file ? given->ca_file : mr_authorities();
    if (ca_file) { /* and no others: libcurl may have a folder of the system's, too */
        code = code ? code : curl_easy_setopt(curl, CURLOPT_CAINFO, ca_file);
        code = code ? code : curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
    }
    return code;
}

/* Redirects are not followed unless libcurl is told to. */
static int prepare(mr_http_client *client) {
    if (client->curl)
        return MR_OK;
    client->curl = curl_easy_init();
    if (!client->curl)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a connection");
    const CURLcode code = set_options(client);
    return code ? mr_fail(MR_ERROR_INTERNAL, "libcurl refuses an option: %s", curl_easy_strerror(code)) : MR_OK;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static CURLcode add_part(curl_mime *form, const mr_http_part *part) {
    curl_mimepart *made = curl_mime_addpart(form);
    CURLcode code = made ? curl_mime_data(made, part->data, part->bytes) : CURLE_OUT_OF_MEMORY;
    code = code ? code : curl_mime_name(made, part->name);
    code = code ? code : curl_mime_type(made, part->type);
    return code || !part->file ? code : curl_mime_filename(made, part->file);
}

static int set_parts(const mr_http_client *client, const mr_http_post *post, curl_mime **form) {
    *form = curl_mime_init(client->curl);
    CURLcode code = *form ? CURLE_OK : CURLE_OUT_OF_MEMORY;
    for (size_t i = 0; i < post->part_count && !code; i++)
        code = add_part(*form, &post->parts[i]);
    code = code ? code : curl_easy_setopt(client->curl, CURLOPT_MIMEPOST, *form);
    return code ? mr_fail(MR_ERROR_MEMORY, "no memory for a request") : MR_OK;
}

static int set_body(const mr_http_client *client, const mr_http_post *post, curl_mime **form) {
    if (post->part_count)
        return set_parts(client, post, form);
    CURLcode code = curl_easy_setopt(client->curl, CURLOPT_POST, 1L);
    code = code ? code : curl_easy_setopt(client->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)post->bytes);
    code = code ? code : curl_easy_setopt(client->curl, CURLOPT_POSTFIELDS, post->body);
    return code ? mr_fail(MR_ERROR_INTERNAL, "libcurl refuses an option: %s", curl_easy_strerror(code)) : MR_OK;
}

/* The beginning of a server's own words, after ": "; "" for pages of HTML and other bytes. A server may repeat a URL
 * that is not shown. */
static void read_words(const mr_http_client *client, const mr_http_answer *answer, char words[MOST_WORDS]) {
    const char *hidden = client->params.shown, *url = client->params.url;
    const char *from = (const char *)answer->body;
    char text[MOST_WORDS - 2];
    const size_t bytes = answer->bytes < sizeof text ? answer->bytes : sizeof text - 1;
    snprintf(text, sizeof text, "%.*s", (int)mr_utf8_fit(from, bytes), from);
    text[strcspn(text, "\r\n")] = '\0';
    const bool shows = *text && *text != '<' && mr_printable(text) && (!hidden || strcmp(hidden, url) == 0);
    snprintf(words, MOST_WORDS, "%s%s", shows ? ": " : "", shows ? text : "");
}

static int judge(mr_http_client *client, CURLcode code, mr_http_answer *answer) {
    const char *url = client->params.shown ? client->params.shown : client->params.url;
    curl_off_t pause_s = 0;
    char words[MOST_WORDS];
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return mr_fail(MR_ERROR_CANCELLED, "stopped while %s did not answer", url);
    if (code == CURLE_UNSUPPORTED_PROTOCOL) /* of the answer: the URL was checked */
        return mr_fail(MR_ERROR_AGAIN, "%s: the answer is not HTTP/1: is it a port for gRPC, or for something else?",
                       url);
    if (code && code != CURLE_WRITE_ERROR) /* the status came before the bytes that are not read */
        return mr_fail(MR_ERROR_AGAIN, "%s: %s", url, *client->error ? client->error : curl_easy_strerror(code));
    curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &answer->code);
    curl_easy_getinfo(client->curl, CURLINFO_RETRY_AFTER, &pause_s);
    pause_s = pause_s > MOST_PAUSE_S ? MOST_PAUSE_S : pause_s;
    answer->pause_ns = pause_s > 0 ? (int64_t)pause_s * 1000000000 : 0;
    const long number = answer->code;
    if (number >= 200 && number < 300)
        return MR_OK;
    const bool passing = number == 408 || number == 425 || number == 429 || (number >= 500 && number < 600);
    read_words(client, answer, words);
    return mr_fail(passing ? MR_ERROR_AGAIN : MR_ERROR_PROTOCOL, "%s answers %ld%s%s", url, number,
                   number >= 300 && number < 400 ? ", a redirect, which is not followed" : "", words);
}

int mr_http_client_post(mr_http_client *client, const mr_http_post *post, mr_http_answer *answer) {
    struct curl_slist *headers = NULL;
    curl_mime *form = NULL;
    *answer = (mr_http_answer){0};
    taking of = {.answer = answer};
    int status = prepare(client);
    if (!status)
        status = make_headers(client, post, &headers);
    if (!status)
        status = set_body(client, post, &form);
    if (!status) {
        client->error[0] = 0;
        curl_easy_setopt(client->curl, CURLOPT_WRITEDATA, &of);
        curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, headers);
        status = judge(client, curl_easy_perform(client->curl), answer);
    }
    if (client->curl) {
        curl_easy_setopt(client->curl, CURLOPT_HTTPHEADER, NULL);
        curl_easy_setopt(client->curl, CURLOPT_MIMEPOST, NULL);
    }
    curl_mime_free(form);
    free_headers(headers);
    return status;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

int mr_http_client_create(mr_http_client **client, const mr_http_client_params *params) {
    mr_http_client *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a connection");
    made->params = *params;
    int status = curl_global_init(CURL_GLOBAL_DEFAULT) ? mr_fail(MR_ERROR_MEMORY, "libcurl cannot begin") : MR_OK;
    if (!status) /* libcurl would ask before large bodies, and wait */
        status = mr_http_client_add_header(made, "Expect", "");
    *client = made;
    if (status)
        mr_http_client_destroy(client);
    return status;
}

void mr_http_client_disconnect(mr_http_client *client) {
    curl_easy_cleanup(client->curl);
    client->curl = NULL;
}

void mr_http_client_destroy(mr_http_client **client) {
    mr_http_client *gone = *client;
    if (!gone)
        return;
    mr_http_client_disconnect(gone);
    free_headers(gone->headers);
    mr_free(gone);
    *client = NULL;
}
