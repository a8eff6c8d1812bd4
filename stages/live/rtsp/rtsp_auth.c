/* User and password: Basic (RFC 7617) and Digest (RFC 2069, 2617 and 7616). */
#include <ctype.h>
#include <gnutls/crypto.h>
#include <libavutil/base64.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "stages/live/rtsp/rtsp_message.h"

/* ---- a server's offers ------------------------------------------------------------------------------------------- */

/* Finds the value for `name` in `a="b", c=d` and removes backslashes from a quoted one. False: not found, or no
 * room. */
static bool find(const char *list, const char *name, char *value, size_t room) {
    const size_t name_bytes = strlen(name);
    while (*list) {
        list += strspn(list, ", \t");
        const size_t key = strcspn(list, "=, \t");
        const bool found = key == name_bytes && strncasecmp(list, name, key) == 0;
        list += key;
        if (*list != '=')
            continue;
        list++;
        const bool quoted = *list == '"';
        list += quoted;
        size_t bytes = 0;
        for (; *list && (quoted ? *list != '"' : *list != ',' && !isspace((unsigned char)*list)); list++) {
            if (quoted && *list == '\\' && list[1])
                list++;
            if (found && bytes + 1 < room)
                value[bytes] = *list;
            bytes++;
        }
        list += quoted && *list;
        if (found) {
            value[bytes < room ? bytes : 0] = '\0';
            return bytes < room;
        }
    }
    return false;
}

static mr_rtsp_scheme scheme_of(const char *algorithm, bool *session) {
    const size_t length = strlen(algorithm);
    *session = length > 5 && strcasecmp(algorithm + length - 5, "-sess") == 0;
    const size_t base = length - (*session ? 5 : 0);
    if (base == 7 && strncasecmp(algorithm, "SHA-256", base) == 0)
        return MR_RTSP_SHA256;
    return base == 3 && strncasecmp(algorithm, "MD5", base) == 0 ? MR_RTSP_MD5 : MR_RTSP_OPEN;
}

/* Text that is sent back in quotes must not end them. */
static bool is_quotable(const char *text) {
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || (unsigned char)*text < ' ')
            return false;
    return true;
}

static bool read_digest(mr_rtsp_auth *auth, const char *list) {
    char algorithm[32] = "MD5", quality[64] = "", stale[8] = "";
    *auth = (mr_rtsp_auth){0};
    if (!find(list, "realm", auth->realm, sizeof auth->realm) || !find(list, "nonce", auth->nonce, sizeof auth->nonce))
        return false;
    find(list, "opaque", auth->opaque, sizeof auth->opaque);
    find(list, "algorithm", algorithm, sizeof algorithm);
    find(list, "stale", stale, sizeof stale);
    auth->scheme = scheme_of(algorithm, &auth->session);
    auth->stale = strcasecmp(stale, "true") == 0;
    if (find(list, "qop", quality, sizeof quality)) {
        const char *at = quality;
        for (size_t bytes; *at && !auth->quality; at += bytes) {
            at += strspn(at, ", \t");
            bytes = strcspn(at, ", \t");
            auth->quality = bytes == 4 && strncasecmp(at, "auth", 4) == 0;
        }
        if (!auth->quality) /* only auth-int */
            return false;
    }
    return auth->scheme != MR_RTSP_OPEN && is_quotable(auth->realm) && is_quotable(auth->nonce) &&
           is_quotable(auth->opaque);
}

bool mr_rtsp_auth_read(mr_rtsp_auth *auth, const mr_rtsp_message *message, bool digest_only) {
    enum { MOST_OFFERS = 8 };
    char value[2048];
    mr_rtsp_auth best = {0};
    for (int i = 0; i < MOST_OFFERS && mr_rtsp_header(message, "WWW-Authenticate", i, value, sizeof value); i++) {
        mr_rtsp_auth offer = {.scheme = MR_RTSP_BASIC};
        const bool digest = strncasecmp(value, "Digest ", 7) == 0;
        const bool basic = strncasecmp(value, "Basic", 5) == 0 && !digest_only;
        if ((basic || (digest && read_digest(&offer, value + 7))) && offer.scheme > best.scheme)
            best = offer;
    }
    if (best.scheme == MR_RTSP_OPEN)
        return false;
    *auth = best;
    return true;
}

/* ---- our answer -------------------------------------------------------------------------------------------------- */

enum { HEX = 2 * 32 + 1 };

/* Hashes the parts, joined by colons, to hexadecimal; NULL must follow the last part. `hex` may be one of the parts. */
__attribute__((sentinel)) static void hash(mr_rtsp_scheme scheme, char hex[HEX], ...) {
    const gnutls_digest_algorithm_t algorithm = scheme == MR_RTSP_SHA256 ? GNUTLS_DIG_SHA256 : GNUTLS_DIG_MD5;
    gnutls_hash_hd_t of;
    uint8_t sum[32] = {0};
    va_list parts;
    if (gnutls_hash_init(&of, algorithm) < 0) {
        *hex = '\0';
        return;
    }
    va_start(parts, hex);
    const char *part = va_arg(parts, const char *);
    for (bool first = true; part; part = va_arg(parts, const char *), first = false) {
        if (!first)
            gnutls_hash(of, ":", 1);
        gnutls_hash(of, part, strlen(part));
    }
    va_end(parts);
    gnutls_hash_deinit(of, sum);
    for (unsigned i = 0; i < gnutls_hash_get_len(algorithm); i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

static bool write_basic(char *to, size_t room, const char *user, const char *password) {
    char pair[512], coded[AV_BASE64_SIZE(sizeof pair)];
    const int bytes = snprintf(pair, sizeof pair, "%s:%s", user, password);
    if (bytes < 0 || (size_t)bytes >= sizeof pair || !av_base64_encode(coded, sizeof coded, (uint8_t *)pair, bytes))
        return false;
    const int written = snprintf(to, room, "Authorization: Basic %s\r\n", coded);
    return written >= 0 && (size_t)written < room;
}

static bool write_digest(mr_rtsp_auth *auth, char *to, size_t room, const char *user, const char *password,
                         const char *method, const char *url) {
    char first[HEX], second[HEX], answer[HEX], count[9], own[33], more[128] = "", opaque[300] = "";
    uint8_t random[16] = {0};
    gnutls_rnd(GNUTLS_RND_NONCE, random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(own + 2 * i, 3, "%02x", random[i]);
    snprintf(count, sizeof count, "%08x", ++auth->count);
    hash(auth->scheme, first, user, auth->realm, password, NULL);
    if (auth->session)
        hash(auth->scheme, first, first, auth->nonce, own, NULL);
    hash(auth->scheme, second, method, url, NULL);
    if (auth->quality) {
        hash(auth->scheme, answer, first, auth->nonce, count, own, "auth", second, NULL);
        snprintf(more, sizeof more, ", qop=auth, nc=%s, cnonce=\"%s\"", count, own);
    } else {
        hash(auth->scheme, answer, first, auth->nonce, second, NULL);
        if (auth->session)
            snprintf(more, sizeof more, ", cnonce=\"%s\"", own);
    }
    if (*auth->opaque)
        snprintf(opaque, sizeof opaque, ", opaque=\"%s\"", auth->opaque);
    const char *algorithm = auth->scheme == MR_RTSP_SHA256 ? auth->session ? "SHA-256-sess" : "SHA-256"
                            : auth->session                ? "MD5-sess"
                                                           : "MD5";
    const int written = snprintf(to, room, "Authorization: Digest username=\"%s\", realm=\"%s\", nonce=\"%s\", "
                                           "uri=\"%s\", response=\"%s\", algorithm=%s%s%s\r\n",
                                 user, auth->realm, auth->nonce, url, answer, algorithm, more, opaque);
    return written >= 0 && (size_t)written < room;
}

bool mr_rtsp_auth_write(mr_rtsp_auth *auth, char *to, size_t room, const char *user, const char *password,
                        const char *method, const char *url) {
    *to = '\0';
    user = user ? user : "";
    password = password ? password : "";
    if (auth->scheme == MR_RTSP_OPEN)
        return true;
    if (auth->scheme == MR_RTSP_BASIC)
        return write_basic(to, room, user, password);
    return is_quotable(user) && write_digest(auth, to, room, user, password, method, url);
}
