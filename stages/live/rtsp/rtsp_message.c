#include "stages/live/rtsp/rtsp_message.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/url.h"
#include "millrace/status.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Finds the end of the headers, after the empty line; NULL: not there yet. Lines may lack a carriage return. */
static const char *end_of_head(const char *data, size_t bytes) {
    for (const char *at = data; (at = memchr(at, '\n', bytes - (size_t)(at - data))); at++) {
        const size_t left = bytes - (size_t)(at - data);
        if (left >= 2 && at[1] == '\n')
            return at + 2;
        if (left >= 3 && at[1] == '\r' && at[2] == '\n')
            return at + 3;
    }
    return NULL;
}

static void copy_words(char *to, size_t room, const char *from, size_t bytes) {
    size_t at = 0;
    for (size_t i = 0; i < bytes && at + 1 < room; i++)
        if (from[i] >= ' ' && from[i] < 127)
            to[at++] = from[i];
    to[at] = '\0';
}

/* "RTSP/1.0 200 OK", or "OPTIONS rtsp://... RTSP/1.0". */
static bool read_first_line(mr_rtsp_message *message, const char *line, size_t bytes) {
    const char *space = memchr(line, ' ', bytes);
    if (!space)
        return false;
    if (bytes < 12 || strncasecmp(line, "RTSP/", 5) != 0) {
        message->status = 0;
        copy_words(message->words, sizeof message->words, line, (size_t)(space - line));
        return isupper((unsigned char)*line) && memmem(line, bytes, " RTSP/", 6);
    }
    const size_t left = bytes - (size_t)(space + 1 - line);
    if (left < 3 || !isdigit((unsigned char)space[1]) || !isdigit((unsigned char)space[2]) ||
        !isdigit((unsigned char)space[3]) || space[1] == '0')
        return false;
    message->status = (space[1] - '0') * 100 + (space[2] - '0') * 10 + (space[3] - '0');
    const size_t gap = left > 3 && space[4] == ' ';
    copy_words(message->words, sizeof message->words, space + 4 + gap, left - 3 - gap);
    return true;
}

int mr_rtsp_message_read(mr_rtsp_message *message, const char *data, size_t bytes) {
    *message = (mr_rtsp_message){0};
    const size_t looked = bytes < MR_RTSP_MOST_HEAD ? bytes : MR_RTSP_MOST_HEAD;
    const char *line = memchr(data, '\n', looked);
    if (line && !read_first_line(message, data, (size_t)(line - data)))
        return mr_fail(MR_ERROR_DATA, "an answer that is not RTSP");
    const char *end = line ? end_of_head(line, looked - (size_t)(line - data)) : NULL;
    if (!end && looked < MR_RTSP_MOST_HEAD)
        return MR_ERROR_AGAIN;
    if (!end)
        return mr_fail(MR_ERROR_DATA, "an answer whose head has no end within %d bytes", MR_RTSP_MOST_HEAD);
    message->head = line + 1;
    message->head_bytes = (size_t)(end - message->head);
    const long body = mr_rtsp_header_number(message, "Content-Length", MR_RTSP_MOST_BODY + 1L, 0);
    if (body > MR_RTSP_MOST_BODY || body < 0)
        return mr_fail(MR_ERROR_DATA, "an answer of more than %d bytes", MR_RTSP_MOST_BODY);
    message->body = end;
    message->body_bytes = (size_t)body;
    message->bytes = (size_t)(end - data) + message->body_bytes;
    return message->bytes <= bytes ? MR_OK : MR_ERROR_AGAIN;
}

static bool copy_trimmed(char *to, size_t room, const char *from, size_t bytes) {
    while (bytes && isspace((unsigned char)*from)) {
        from++;
        bytes--;
    }
    while (bytes && isspace((unsigned char)from[bytes - 1]))
        bytes--;
    if (bytes >= room || memchr(from, '\0', bytes))
        return false;
    memcpy(to, from, bytes);
    to[bytes] = '\0';
    return true;
}

bool mr_rtsp_header(const mr_rtsp_message *message, const char *name, int index, char *value, size_t room) {
    const size_t name_bytes = strlen(name);
    const char *at = message->head, *end = message->head + message->head_bytes;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        line_end = line_end ? line_end : end;
        if ((size_t)(line_end - at) > name_bytes && at[name_bytes] == ':' && strncasecmp(at, name, name_bytes) == 0 &&
            index-- == 0)
            return copy_trimmed(value, room, at + name_bytes + 1, (size_t)(line_end - at) - name_bytes - 1);
        at = line_end + 1;
    }
    return false;
}

long mr_rtsp_header_number(const mr_rtsp_message *message, const char *name, long most, long otherwise) {
    char value[32];
    char *end;
    if (!mr_rtsp_header(message, name, 0, value, sizeof value) || !isdigit((unsigned char)*value))
        return otherwise;
    const long number = strtol(value, &end, 10);
    return number > most ? most : number;
}

bool mr_rtsp_field(const char *list, const char *name, char *value, size_t room) {
    const size_t name_bytes = strlen(name);
    for (const char *at = list; *at;) {
        at += strspn(at, "; \t");
        const size_t bytes = strcspn(at, ";");
        if (bytes > name_bytes && strncasecmp(at, name, name_bytes) == 0 && at[name_bytes] == '=')
            return copy_trimmed(value, room, at + name_bytes + 1, bytes - name_bytes - 1);
        at += bytes;
    }
    return false;
}

/* ---- URLs -------------------------------------------------------------------------------------------------------- */

static bool is_clean(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || *text == 127)
            return false;
    return true;
}

static bool read_host(mr_rtsp_url *url, const mr_url *parts) {
    const mr_url_part host = parts->host, port = parts->port;
    const char *after = host.text + host.bytes;
    after += *after == ']';
    if (!host.bytes || *host.text == '[' || !strchr(":/?#", *after) ||
        !copy_trimmed(url->host, sizeof url->host, host.text, host.bytes))
        return false;
    snprintf(url->port, sizeof url->port, "%s", url->tls ? "322" : "554");
    if (!port.bytes)
        return true;
    if (port.bytes > 5 || strspn(port.text, "0123456789") < port.bytes)
        return false;
    const long number = strtol(port.text, NULL, 10);
    snprintf(url->port, sizeof url->port, "%ld", number);
    return number >= 1 && number <= 65535;
}

static size_t scheme_bytes(const char *text) {
    return strncasecmp(text, "rtsp://", 7) == 0 ? 7 : strncasecmp(text, "rtsps://", 8) == 0 ? 8 : 0;
}

/* Some servers put the scheme in front of a whole URL: "rtsp://rtsp://host". */
static const char *skip_doubled(const char *text) {
    while (scheme_bytes(text) && scheme_bytes(text + scheme_bytes(text)))
        text += scheme_bytes(text);
    return text;
}

int mr_rtsp_url_read(mr_rtsp_url *url, const char *text) {
    mr_url parts;
    *url = (mr_rtsp_url){0};
    text = skip_doubled(text);
    url->tls = scheme_bytes(text) == 8;
    if (!scheme_bytes(text) || !mr_url_split_strictly(text, &parts))
        return mr_fail(MR_ERROR_CONFIG, "not a URL of RTSP: it begins with rtsp:// or rtsps://");
    const char *host = parts.host.text - (parts.host.text[-1] == '[');
    if (!is_clean(text) || strlen(host) + 9 > sizeof url->text)
        return mr_fail(MR_ERROR_CONFIG, "not a URL: it is longer than %d bytes, or has blanks in it", MR_RTSP_MOST_URL);
    if (!read_host(url, &parts))
        return mr_fail(MR_ERROR_CONFIG, "not a URL: rtsp://HOST:PORT/PATH is expected");
    snprintf(url->text, sizeof url->text, "%s%s", url->tls ? "rtsps://" : "rtsp://", host);
    return MR_OK;
}

bool mr_rtsp_url_is_trusted(const mr_rtsp_url *first, const mr_rtsp_url *next) {
    bool same = strcmp(first->port, next->port) == 0 && first->tls == next->tls;
    return strcasecmp(first->host, next->host) == 0 && (same || next->tls);
}

bool mr_rtsp_url_join(char *url, size_t room, const char *base, const char *control) {
    int written;
    if (!is_clean(control) || !is_clean(base))
        return false;
    if (*control == '\0' || strcmp(control, "*") == 0)
        written = snprintf(url, room, "%s", base);
    else if (strncasecmp(control, "rtsp://", 7) == 0 || strncasecmp(control, "rtsps://", 8) == 0)
        written = snprintf(url, room, "%s", skip_doubled(control));
    else
        written = snprintf(url, room, "%s%s%s", base, *base && base[strlen(base) - 1] == '/' ? "" : "/",
                           control + (*control == '/'));
    return written >= 0 && (size_t)written < room;
}
