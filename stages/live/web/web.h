/* Requests of one source over HTTP: to which hosts and protocols they may go, TLS, user and password, and when they
 * give up. libavformat makes them.
 *
 * An address begins with http:// or https://, and nothing leads from https to http. User and password are sent to
 * scheme, host and port of the source's own address only. libavformat follows redirections by itself: where one leads
 * to is compared after libavformat has sent it a request, before anything of its answer is used.
 *
 * One thread uses an mr_web; `cancelled` may be set by any. */
#ifndef MILLRACE_STAGES_LIVE_WEB_WEB_H
#define MILLRACE_STAGES_LIVE_WEB_WEB_H

#include <libavformat/avio.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MR_WEB_LOOK = 1024 };

typedef struct mr_web {
    const char *url;              /* of the source, without user and password; for messages, too */
    const char *user, *password;  /* NULL: none */
    const char *ca_file;          /* certificates that are trusted; NULL: the system's */
    const char *allow_hosts;      /* mr_host_is_allowed */
    const atomic_bool *cancelled;
    int64_t deadline_ns;          /* CLOCK_MONOTONIC; 0: none */
    bool ran_out;                 /* a call ended at the deadline */
    int refusal;                  /* not MR_OK: a host or an answer is refused, as mr_message says */
} mr_web;

/* A part of what an address names; both 0: all of it. */
typedef struct mr_web_range {
    int64_t first, bytes;
} mr_web_range;

bool mr_web_is_address(const char *url);
/* For AVIOInterruptCB with the mr_web as opaque: whether calls are to give up. */
int mr_web_interrupted(void *web);
/* Adds what certificates are verified with. */
void mr_web_set_tls(const mr_web *web, AVDictionary **options);
/* Opens an address. 0, or an AVERROR, maybe with web->refusal. `range` may be NULL. */
int mr_web_open(mr_web *web, AVIOContext **io, const char *url, const mr_web_range *range);
/* The address that answered, without user and password, after redirections; false if it does not fit. */
bool mr_web_location(AVIOContext *io, const char *url, char *location, size_t bytes);

/* Copies how an answer begins, as text; all of it can still be read. Returns its length. */
size_t mr_web_look(AVIOContext *io, char text[MR_WEB_LOOK]);
/* Whether an answer that begins so is a manifest of DASH (MPD). */
bool mr_web_is_manifest(const char *text);
/* MR_ERROR_UNAVAILABLE: that DASH is not read, and what to give instead. */
int mr_web_refuse_manifest(const char *url);

#endif
