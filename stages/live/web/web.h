/* One source's HTTP requests: allowed hosts and protocols, TLS, user and password, and when to give up. libavformat
 * performs them.
 *
 * An address begins with http:// or https://, and https must never lead to http. User and password are sent only to the
 * scheme, host and port in the source's address. libavformat follows redirections itself: the target is checked after
 * libavformat has sent it a request, but before any of the answer is used.
 *
 * One thread may use an mr_web. It must not move while something that it opened is open. */
#pragma once

#include <libavformat/avio.h>
#include <stdbool.h>
#include <stdint.h>

enum { MR_WEB_LOOK = 1024, MR_WEB_HOST = 256 };

typedef struct mr_web {
    const char *url;              /* the source's, without user and password; also for messages */
    const char *user, *password;  /* NULL: none */
    const char *ca_file;          /* trusted certificates; NULL: the system's */
    const char *allow_hosts;      /* mr_host_is_allowed */
    AVIOInterruptCB interrupt;    /* asked whether calls must stop */
    int *refusal;                 /* set to a status if a host or an answer is refused; mr_message has the reason */
    char cookie_host[MR_WEB_HOST]; /* host that sent the cookies below; other hosts get them only after it redirects
                                      there */
    char cookies[4096];
    int64_t asked_ns;             /* when that was asked last, */
    unsigned asked;               /* and how many came without a pause since an answer gave bytes */
} mr_web;

/* `bytes` starting at `first`; both 0: all. libavformat requests this range, but may give more. */
typedef struct mr_web_range {
    int64_t first, bytes;
} mr_web_range;

bool mr_web_is_address(const char *url);
/* Whether calls must stop. */
int mr_web_interrupted(void *web);
/* Adds how certificates are verified. */
void mr_web_set_tls(const char *ca_file, AVDictionary **options);
/* Opens an address. Returns 0, or an AVERROR, possibly with a refusal. `range` may be NULL. */
int mr_web_open(mr_web *web, AVIOContext **io, const char *url, const mr_web_range *range);
/* Call after reading and before using the data. If libavformat seeks, or a connection breaks, it requests the address
 * again and may be redirected. Returns 0, or an AVERROR with a refusal. */
int mr_web_check(mr_web *web, AVIOContext *io);
/* Whether a read error may be the end of an answer without a length. libavformat calls such an end premature unless the
 * server sent "Connection: close". It cannot distinguish this from an answer that broke off between chunks. */
bool mr_web_may_have_ended(AVIOContext *io, int error);
/* The address that answered after redirections, without user and password; false if it does not fit. */
bool mr_web_location(AVIOContext *io, const char *url, char *location, size_t bytes);

/* Copies the answer's beginning as text; reading still starts at the first byte. Returns the length. */
size_t mr_web_look(AVIOContext *io, char text[MR_WEB_LOOK]);
/* Whether the answer begins like a DASH manifest (MPD). */
bool mr_web_is_manifest(const char *text);
/* MR_ERROR_UNAVAILABLE: DASH is not supported; the message names alternatives. */
int mr_web_refuse_manifest(const char *url);
