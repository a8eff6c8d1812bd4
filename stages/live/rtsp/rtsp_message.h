/* RTSP text (RFC 2326): messages, URLs, and answers to a request for user and password. Nothing here waits. Any
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- messages ---------------------------------------------------------------------------------------------------- */

enum { MR_RTSP_MOST_HEAD = 16384, MR_RTSP_MOST_BODY = 65536 };

/* Borrows the bytes it was parsed from. */
typedef struct mr_rtsp_message {
    int status;         /* 0: a request */
    char words[64];     /* the reason, or a request's method; truncated, without control characters */
    const char *head;   /* lines after the first */
    size_t head_bytes;
    const char *body;
    size_t body_bytes;
    size_t bytes;       /* message size */
} mr_rtsp_message;

/* Reads the message at the start of `data`. MR_ERROR_AGAIN: it needs more than `bytes`. MR_ERROR_DATA: the caller must
 * prefix the message with a name. */
int mr_rtsp_message_read(mr_rtsp_message *message, const char *data, size_t bytes);
/* The header's `index`th value, without surrounding blanks. False: there is none, or no room. */
bool mr_rtsp_header(const mr_rtsp_message *message, const char *name, int index, char *value, size_t room);
/* The number at the start of a header's value, limited to `most`; `otherwise` if there is none. */
long mr_rtsp_header_number(const mr_rtsp_message *message, const char *name, long most, long otherwise);
/* The value for `name` in a list such as "RTP/AVP;unicast;server_port=5000-5001"; false: not found, or no room. */
bool mr_rtsp_field(const char *list, const char *name, char *value, size_t room);

/* ---- URLs -------------------------------------------------------------------------------------------------------- */

enum { MR_RTSP_MOST_URL = 2048 };

typedef struct mr_rtsp_url {
    char text[MR_RTSP_MOST_URL]; /* without user and password */
    bool tls;
    char host[256];              /* without brackets */
    char port[8];
} mr_rtsp_url;

/* MR_ERROR_CONFIG. User and password are removed. */
int mr_rtsp_url_read(mr_rtsp_url *url, const char *text);
/* Whether user and password may be sent after a redirection. That needs the same host and port, or the same host over
 * TLS, where the certificate proves it. */
bool mr_rtsp_url_is_trusted(const mr_rtsp_url *first, const mr_rtsp_url *next);
/* Resolves a URL from a session description (RFC 2326, C.1.1): "*" or "" means `base`, a URL with a scheme stays, any
 * other is appended to `base`. False: too long, or characters that a URL cannot have. */
bool mr_rtsp_url_join(char *url, size_t room, const char *base, const char *control);

/* ---- user and password ------------------------------------------------------------------------------------------- */

typedef enum mr_rtsp_scheme { MR_RTSP_OPEN, MR_RTSP_BASIC, MR_RTSP_MD5, MR_RTSP_SHA256 } mr_rtsp_scheme;

/* How a client must authenticate (RFC 7616, 7617). All zero: not at all. */
typedef struct mr_rtsp_auth {
    mr_rtsp_scheme scheme;
    bool session;       /* the algorithms ending in -sess */
    bool quality;       /* qop=auth */
    bool stale;         /* the last answer was right, but the nonce has expired */
    char realm[256], nonce[512], opaque[256];
    uint32_t count;     /* requests with this nonce */
} mr_rtsp_auth;

/* Chooses the strongest supported scheme in a 401; with `digest_only` never Basic, which is clear text. False: there is
 * none. */
bool mr_rtsp_auth_read(mr_rtsp_auth *auth, const mr_rtsp_message *message, bool digest_only);
/* Writes "Authorization: ...\r\n" for a request, or nothing if not needed; false: no room. */
bool mr_rtsp_auth_write(mr_rtsp_auth *auth, char *to, size_t room, const char *user, const char *password,
                        const char *method, const char *url);
