/* Permission to ask an HTTP server: by token, Host and Origin, as http_server.h says. The server's thread.
 *
 * A browser that has given the token once gets a cookie, so that neither addresses nor the history contain the token.
 * The cookie's name and value follow from the token by SHA-256 and do not reveal it: the cookie is good for each server
 * with that token, also after a restart, until the browser is closed. Scripts cannot read it, and pages from elsewhere
 * cannot use it for a POST. Browsers send it to all ports of the host: a server of somebody else there could use it. */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>

typedef struct mr_http_permission {
    char *token;              /* NULL: none is needed */
    bool any_host;            /* Host headers are not checked */
    const char *const *hosts; /* further names of this server; end with NULL. NULL: none */
    char name[32], value[80]; /* the cookie's */
    char cookie[192];         /* the header Set-Cookie */
} mr_http_permission;

/* The page on which a browser's user enters the token. It posts to "login" beside it, with the token as a header. */
extern const char mr_http_login_page[];

/* Copies the token, but not the names. `secure`: the cookie must not be sent without TLS. MR_ERROR_MEMORY. */
int mr_http_permission_init(mr_http_permission *permission, const char *token, const char *const *hosts, bool any_host,
                            bool secure);
void mr_http_permission_fini(mr_http_permission *permission);
/* Whether the request gives the token, in a header, in its URL or by the cookie; `in_url`: in its URL. True if none is
 * needed. */
bool mr_http_has_token(const mr_http_permission *permission, struct MHD_Connection *request);
bool mr_http_has_token_in_url(const mr_http_permission *permission, struct MHD_Connection *request);
/* Whether a Host header names another server. */
bool mr_http_has_other_host(const mr_http_permission *permission, struct MHD_Connection *request);
/* Whether a page from elsewhere may have made the POST. */
bool mr_http_is_forged(struct MHD_Connection *request);
/* Whether a browser wants to show the answer. */
bool mr_http_wants_page(struct MHD_Connection *request);
