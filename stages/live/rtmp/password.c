#include "stages/live/rtmp/password.h"

#include <libavutil/base64.h>
#include <libavutil/md5.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/url.h"

enum { MD5 = 16, DIGEST = AV_BASE64_SIZE(MD5) };

/* A text's MD5 sum in base64; false if the text is too long. */
__attribute__((format(printf, 2, 3))) static bool digest(char made[DIGEST], const char *format, ...) {
    char text[1024];
    uint8_t sum[MD5];
    va_list values;
    va_start(values, format);
    const int bytes = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (bytes < 0 || (size_t)bytes >= sizeof text)
        return false;
    av_md5_sum(sum, (const uint8_t *)text, (size_t)bytes);
    return av_base64_encode(made, DIGEST, sum, MD5);
}

static int width(mr_url_part part) {
    return (int)(part.bytes < MR_URL_HOST ? part.bytes : MR_URL_HOST);
}

bool mr_rtmp_answer(const char *description, const char *user, const char *password, uint32_t nonce, char *query,
                    size_t room) {
    const char *asked = strstr(description, "?reason=needauth");
    const mr_url reply = {.rest = {asked, asked ? strcspn(asked, " ") : 0}};
    char secret[DIGEST], response[DIGEST];
    if (!strstr(description, "authmod=adobe"))
        return false;
    if (!asked)
        return strstr(description, "need auth") &&
               (size_t)snprintf(query, room, "?authmod=adobe&user=%s", user) < room;
    const mr_url_part salt = mr_url_query(&reply, "salt"), opaque = mr_url_query(&reply, "opaque");
    const mr_url_part challenge = mr_url_query(&reply, "challenge"), key = opaque.text ? opaque : challenge;
    if (!digest(secret, "%s%.*s%s", user, width(salt), salt.text ? salt.text : "", password) ||
        !digest(response, "%s%.*s%08x", secret, width(key), key.text ? key.text : "", nonce))
        return false;
    return (size_t)snprintf(query, room, "?authmod=adobe&user=%s&challenge=%08x&response=%s%s%.*s", user, nonce,
                            response, opaque.text ? "&opaque=" : "", width(opaque), opaque.text ? opaque.text : "") <
           room;
}
