/* URLs: parts (RFC 3986), and how to hide user and password, which must not appear in messages, plans or logs. Pure
 * functions; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Part of a text. NULL if the URL does not have it. */
typedef struct mr_url_part {
    const char *text;
    size_t bytes;
} mr_url_part;

/* The parts lie in the URL's own text, as they are written. An IPv6 host stands without brackets. */
typedef struct mr_url {
    mr_url_part scheme, user, password, host, port;
    mr_url_part rest; /* path, query and fragment, with the first character */
} mr_url;

enum { MR_URL_HOST = 256, MR_URL_BYTES = 4096 };

/* False if the text does not begin with a scheme and "://". Signs that should be written as "%2F" are taken as part of
 * a password if an "@" follows them. */
bool mr_url_split(const char *text, mr_url *url);
/* The same as a program that connects reads it: the authority ends at the first "/", "?" or "#", and user and password
 * at the last "@" in it. */
bool mr_url_split_strictly(const char *text, mr_url *url);
bool mr_url_has_scheme(const char *text, const char *scheme);
/* Copies a part with "%2F" as "/"; false if it does not fit or is not a C string. */
bool mr_url_decode(mr_url_part part, char *text, size_t bytes);
/* Copies a text with all but letters, digits, "-", ".", "_" and "~" as "%2F"; false if it does not fit. */
bool mr_url_encode(const char *part, char *text, size_t bytes);
/* A URL with user and password in it, encoded; both NULL: as it is. False if there is not enough room. */
bool mr_url_with_user(const char *text, const char *user, const char *password, char *whole, size_t bytes);
/* The URL that a reference means in a document at `base` (RFC 3986, 5.2), without a fragment. `base` has a scheme and
 * an authority; a reference with a scheme is taken as it is. False if there is not enough room. */
bool mr_url_resolve(const char *base, const char *reference, char *url, size_t bytes);
/* The value for `name` in a URL's query; text NULL if it has none. */
mr_url_part mr_url_query(const mr_url *url, const char *name);
/* Removes user and password from all URLs in a text, which becomes shorter. Also handles mistyped schemes
 * ("htp://u:p@h", "rtsp:/u:p@h", "u:p@h"); if a password has an "@", it removes up to the URL's last "@". All messages
 * and log lines must pass through it. */
void mr_url_hide(char *text);

/* Whether a host may be connected to (allow_hosts). `patterns`, separated by commas, are names or addresses as URLs
 * have them, IPv6 without brackets; "*" stands for any signs: "*.example.org", "10.0.*". Names are compared as they are
 * written, and not resolved. NULL: all are allowed. */
bool mr_host_is_allowed(const char *patterns, const char *host);

/* Whether a text that was meant as a URL can be read differently from what the author thinks. SIGNS: it has a user, and
 * an "@" after the path has begun, so the password may have a "/", "?" or "#" that is not encoded. SCHEME: it looks
 * like a URL with a password, but does not have "://". */
typedef enum mr_url_doubt { MR_URL_CLEAR, MR_URL_SIGNS, MR_URL_SCHEME } mr_url_doubt;
mr_url_doubt mr_url_doubt_of(const char *text);
