/* A client that posts to one URL over HTTP or HTTPS.
 *
 * Certificates are always verified, and redirects never followed. A connection is kept between requests. One thread at
 * a time. Without libcurl (http_client_none.c) check and create fail. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "millrace/option.h"

typedef struct mr_http_client mr_http_client;

typedef struct mr_http_client_params {
    const char *url, *ca_file;      /* ca_file: who may sign the server's certificate; NULL: the system's */
    const char *shown;              /* the URL in messages; NULL: as it is */
    mr_credentials login;
    int64_t timeout_ns;             /* for each request */
    bool (*stops)(void *context);   /* asked many times a second: true ends a request */
    void *context;
} mr_http_client_params;

/* A part of a multipart/form-data body. `file`: a file's name; NULL: it is no file. */
typedef struct mr_http_part {
    const char *name, *type, *file;
    const void *data;
    size_t bytes;
} mr_http_part;

typedef struct mr_http_header {
    const char *name, *value;
} mr_http_header;

/* Either a body, or parts. All is borrowed. */
typedef struct mr_http_post {
    const void *body;
    size_t bytes;
    const mr_http_part *parts;
    size_t part_count;              /* 0: the body is sent */
    const mr_http_header *headers;  /* of this request alone, such as Content-Type */
    size_t header_count;
} mr_http_post;

typedef struct mr_http_answer {
    long code;                      /* 0: there was no whole answer */
    int64_t pause_ns;               /* Retry-After; 0: not given */
    uint8_t body[4096];             /* its beginning */
    size_t bytes;
} mr_http_answer;

/* Whether a text can name a header: a field name of RFC 9110. */
static inline bool mr_http_is_header_name(const char *text) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
    return *text && !text[strspn(text, allowed)];
}

/* MR_ERROR_UNAVAILABLE: this build has no libcurl. MR_ERROR_CONFIG: it is no URL of http or https. */
int mr_http_client_check(const char *url);
/* Whether others than this machine could read what is sent there: it is http to another host. */
bool mr_http_client_shows(const char *url);
/* `params` is copied; its texts must live as long as the client. Connects to nothing. MR_ERROR_MEMORY. */
int mr_http_client_create(mr_http_client **client, const mr_http_client_params *params);
/* Adds a header to all requests; an empty value leaves out one that libcurl would send. MR_ERROR_MEMORY. */
int mr_http_client_add_header(mr_http_client *client, const char *name, const char *value);
/* Posts, and waits for the answer. MR_OK: a status from 200 to 299. MR_ERROR_AGAIN: another try may help (no answer,
 * 408, 425, 429, 500 to 599). MR_ERROR_PROTOCOL: any other answer, a redirect too. MR_ERROR_CANCELLED: `stops` is true.
 * MR_ERROR_MEMORY. */
int mr_http_client_post(mr_http_client *client, const mr_http_post *post, mr_http_answer *answer);
/* Closes the connection; the next request connects again. */
void mr_http_client_disconnect(mr_http_client *client);
/* NULL is allowed. */
void mr_http_client_destroy(mr_http_client **client);
