#include "engine/base/url.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_scheme_char(char c) {
    return isalnum((unsigned char)c) || c == '+' || c == '-' || c == '.';
}

static size_t scheme_length(const char *text) {
    size_t length = 0;
    while (isalpha((unsigned char)*text) && is_scheme_char(text[length]))
        length++;
    return strncmp(text + length, "://", 3) == 0 ? length : 0;
}

static const char *last_at(const char *text, const char *end) {
    while (end > text && end[-1] != '@')
        end--;
    return end > text ? end - 1 : NULL;
}

static const char blanks[] = " \t\r\n";

/* Whether what looks like a port is none: the part of a password before a sign that was not encoded. */
static bool is_cut_password(const char *authority, const char *end) {
    const char *colon = memchr(authority, ':', (size_t)(end - authority));
    if (!colon || *authority == '[')
        return false;
    size_t digits = strspn(colon + 1, "0123456789");
    return colon + 1 + digits != end;
}

/* The "@" after user and password; NULL: there are none. `end`: where the authority seems to end; `stop`: where the
 * URL does. */
static const char *find_credentials(const char *authority, const char *end, const char *stop) {
    const char *at = last_at(authority, end);
    return at || !is_cut_password(authority, end) ? at : last_at(authority, stop);
}

static mr_url_part part(const char *from, const char *to) {
    return (mr_url_part){from, (size_t)(to - from)};
}

static void split_host(const char *from, const char *end, mr_url *url) {
    bool bracket = *from == '[';
    const char *close = bracket ? memchr(from, ']', (size_t)(end - from)) : NULL;
    const char *colon = memchr(close ? close : from, ':', (size_t)(end - (close ? close : from)));
    const char *host_end = close ? close : colon ? colon : end;
    url->host = part(from + (close != NULL), host_end);
    if (colon)
        url->port = part(colon + 1, end);
}

static bool split(const char *text, bool strictly, mr_url *url) {
    size_t scheme = scheme_length(text);
    *url = (mr_url){0};
    if (!scheme)
        return false;
    const char *authority = text + scheme + 3, *end = authority + strcspn(authority, "/?#");
    const char *at = strictly ? last_at(authority, end)
                              : find_credentials(authority, end, authority + strcspn(authority, blanks));
    url->scheme = part(text, text + scheme);
    if (at) {
        const char *colon = memchr(authority, ':', (size_t)(at - authority));
        url->user = part(authority, colon ? colon : at);
        if (colon)
            url->password = part(colon + 1, at);
        authority = at + 1;
        end = authority + strcspn(authority, "/?#");
    }
    split_host(authority, end, url);
    if (*end)
        url->rest = part(end, end + strlen(end));
    return true;
}

bool mr_url_split(const char *text, mr_url *url) {
    return split(text, false, url);
}

bool mr_url_split_strictly(const char *text, mr_url *url) {
    return split(text, true, url);
}

bool mr_url_has_scheme(const char *text, const char *scheme) {
    size_t length = scheme_length(text);
    return length && strlen(scheme) == length && strncasecmp(text, scheme, length) == 0;
}

static int hex(char c) {
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? (c | 32) - 'a' + 10 : -1;
}

bool mr_url_decode(mr_url_part from, char *text, size_t bytes) {
    size_t length = 0;
    for (size_t i = 0; i < from.bytes; i++) {
        bool coded = from.text[i] == '%' && i + 2 < from.bytes && hex(from.text[i + 1]) >= 0 &&
                     hex(from.text[i + 2]) >= 0;
        char c = coded ? (char)(hex(from.text[i + 1]) * 16 + hex(from.text[i + 2])) : from.text[i];
        if (!c || length + 1 >= bytes)
            return false;
        text[length++] = c;
        i += coded ? 2 : 0;
    }
    text[length] = '\0';
    return true;
}

bool mr_url_encode(const char *from, char *text, size_t bytes) {
    size_t length = 0;
    for (; *from; from++) {
        bool plain = isalnum((unsigned char)*from) || strchr("-._~", *from);
        if (length + (plain ? 1 : 3) >= bytes)
            return false;
        if (plain)
            text[length++] = *from;
        else
            length += (size_t)snprintf(text + length, bytes - length, "%%%02X", (unsigned char)*from);
    }
    text[length] = '\0';
    return true;
}

mr_url_part mr_url_query(const mr_url *url, const char *name) {
    const char *end = url->rest.text ? url->rest.text + url->rest.bytes : NULL;
    const char *at = end ? memchr(url->rest.text, '?', url->rest.bytes) : NULL;
    size_t length = strlen(name);
    for (; at; at = memchr(at, '&', (size_t)(end - at))) {
        at++;
        if ((size_t)(end - at) > length && strncmp(at, name, length) == 0 && at[length] == '=')
            return (mr_url_part){at + length + 1, strcspn(at + length + 1, "&#")};
    }
    return (mr_url_part){0};
}

/* ---- hiding ------------------------------------------------------------------------------------------------------ */

/* Where a URL ends in a text, and what may stand between words. A "'" may stand in a password as it is. */
static const char ends[] = " \t\r\n\"<>", between[] = " \t\r\n\"<>'";

/* Where the next URL's scheme begins before `stop`, which ends the present one; else `stop`. After a ":" it is the
 * start of a password. */
static const char *next_url(const char *from, const char *stop) {
    for (const char *mark = from; (mark = strstr(mark, "://")) && mark < stop; mark += 3) {
        const char *scheme = mark;
        while (scheme > from && is_scheme_char(scheme[-1]))
            scheme--;
        if (scheme == from || scheme[-1] != ':')
            return scheme;
    }
    return stop;
}

/* Where user and password end in a URL whose authority begins there: the last "@" if there are several, since a
 * password can have one that was not encoded. NULL: there are none. `after`: signs after which an "@" no longer counts.
 * `sure`: it can be read only this way. */
static const char *end_of_credentials(const char *authority, const char *after, bool *sure) {
    const char *quote = authority + strcspn(authority, after), *end = authority + strcspn(authority, "/?#");
    const bool quoted = quote < end && *quote && !strchr(blanks, *quote) && !last_at(authority, quote) &&
                        (quote[-1] == ':' || is_cut_password(authority, quote));
    const char *stop = next_url(authority, quoted ? authority + strcspn(authority, blanks) : quote);
    const char *at = find_credentials(authority, end < stop ? end : stop, stop), *last = at ? last_at(at, stop) : NULL;
    *sure = !last || last == at;
    return last;
}

/* Where user and password would begin in a word that is no URL but was meant as one: after "name=", a scheme with other
 * signs than "://", and folders. NULL: nothing in it looks like a password. `has_scheme`: it has such a scheme, and no
 * folders. */
static const char *find_mistyped(const char *word, const char *at, bool *has_scheme) {
    const char *colon = memchr(word, ':', (size_t)(at - word)), *key = memchr(word, '=', (size_t)(at - word));
    const char *begin = key && (!colon || key < colon) ? key + 1 : word;
    size_t scheme = 0;
    while (is_scheme_char(begin[scheme]))
        scheme++;
    size_t marks = strspn(begin + scheme, ":;,/\\");
    *has_scheme = scheme && marks > 1 && strcspn(begin + scheme, "/\\") < marks;
    begin += *has_scheme ? scheme + marks : 0;
    colon = begin < at ? memchr(begin, ':', (size_t)(at - begin)) : NULL;
    if (!colon || colon + 1 >= at)
        return NULL;
    for (const char *slash; (slash = memchr(begin, '/', (size_t)(colon - begin))); *has_scheme = false)
        begin = slash + 1;
    return begin;
}

static void remove_part(char *from, const char *to) {
    memmove(from, to, strlen(to) + 1);
}

/* Hides them in one word, up to the next URL in it. Returns the rest of the text. */
static char *hide_in_word(char *word) {
    char *stop = word + strcspn(word, ends), *mark = strstr(word, "://");
    if (mark && mark < stop) {
        char *authority = mark + 3;
        bool sure;
        const char *at = end_of_credentials(authority, ends, &sure);
        if (at && at > authority)
            remove_part(authority, at + 1);
        return authority + (next_url(authority, authority + strcspn(authority, ends)) - authority);
    }
    bool has_scheme;
    const char *at = last_at(word, stop), *begin = at ? find_mistyped(word, at, &has_scheme) : NULL;
    if (begin)
        remove_part(word + (begin - word), at + 1);
    return word + strcspn(word, ends);
}

/* Passphrases must come first: what remains after them can read as user and password. */
void mr_url_hide(char *text) {
    for (char *secret = text; (secret = strstr(secret, "passphrase="));) {
        secret += strlen("passphrase=");
        remove_part(secret, secret + strcspn(secret, "&# \t\r\n\"'<>"));
    }
    if (strchr(text, '@'))
        for (char *word = text + strspn(text, between); *word; word += strspn(word, between))
            word = hide_in_word(word);
}

mr_url_doubt mr_url_doubt_of(const char *text) {
    const char *mark = strstr(text, "://"), *end = text + strlen(text);
    if (scheme_length(text)) {
        bool sure;
        end_of_credentials(mark + 3, blanks, &sure);
        return sure ? MR_URL_CLEAR : MR_URL_SIGNS;
    }
    bool has_scheme;
    const char *at = last_at(text, end), *begin = at ? find_mistyped(text, at, &has_scheme) : NULL;
    return begin && has_scheme && !memchr(text, ' ', (size_t)(at - text)) ? MR_URL_SCHEME : MR_URL_CLEAR;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

bool mr_url_with_user(const char *text, const char *user, const char *password, char *whole, size_t bytes) {
    char coded_user[3 * MR_URL_HOST] = "", coded_password[3 * MR_URL_HOST] = "";
    mr_url url;
    if ((!user && !password) || !mr_url_split(text, &url))
        return (size_t)snprintf(whole, bytes, "%s", text) < bytes;
    if ((user && !mr_url_encode(user, coded_user, sizeof coded_user)) ||
        (password && !mr_url_encode(password, coded_password, sizeof coded_password)))
        return false;
    return (size_t)snprintf(whole, bytes, "%.*s://%s:%s@%s", (int)url.scheme.bytes, url.scheme.text, coded_user,
                            coded_password, text + url.scheme.bytes + 3) < bytes;
}

/* Removes "." and ".." from a path, up to the query (RFC 3986, 5.2.4). */
static void remove_dots(char *path) {
    char *to = path;
    for (char *from = path; *from == '/';) {
        const size_t length = 1 + strcspn(from + 1, "/?");
        const bool up = length == 3 && from[1] == '.' && from[2] == '.', here = length == 2 && from[1] == '.';
        while (up && to > path && *--to != '/')
            ;
        if (!up && !here) {
            memmove(to, from, length);
            to += length;
        }
        from += length;
        if ((up || here) && *from != '/')
            *to++ = '/';
        if (*from != '/') {
            memmove(to, from, strlen(from) + 1);
            return;
        }
    }
}

bool mr_url_resolve(const char *base, const char *reference, char *url, size_t bytes) {
    size_t scheme = 0, taken = strcspn(reference, "#");
    while (isalpha((unsigned char)*reference) && is_scheme_char(reference[scheme]))
        scheme++;
    if (reference[scheme] == ':')
        return (size_t)snprintf(url, bytes, "%.*s", (int)taken, reference) < bytes;
    const char *authority = base + scheme_length(base) + 3, *path = authority + strcspn(authority, "/?#");
    size_t kept = (size_t)(path - base); /* bytes in `base` that come before the reference */
    if (strncmp(reference, "//", 2) == 0)
        kept = scheme_length(base) + 1;
    else if (!taken)
        kept += strcspn(path, "#");
    else if (*reference == '?')
        kept += strcspn(path, "?#");
    else
        for (size_t i = 0; *reference != '/' && !strchr("?#", path[i]); i++)
            kept = path[i] == '/' ? (size_t)(path - base) + i + 1 : kept;
    const bool bare = kept == (size_t)(path - base) && taken && !strchr("/?", *reference);
    if ((size_t)snprintf(url, bytes, "%.*s%s%.*s", (int)kept, base, bare ? "/" : "", (int)taken, reference) >= bytes)
        return false;
    char *begin = strstr(url, "://") + 3;
    remove_dots(begin + strcspn(begin, "/?#"));
    return true;
}

bool mr_host_is_allowed(const char *patterns, const char *host) {
    if (!patterns)
        return true;
    for (const char *at = patterns; *at; at += strspn(at, ",")) {
        char pattern[256];
        size_t bytes = strcspn(at, ",");
        snprintf(pattern, sizeof pattern, "%.*s", (int)bytes, at);
        if (bytes && bytes < sizeof pattern && fnmatch(pattern, host, FNM_CASEFOLD | FNM_NOESCAPE) == 0)
            return true;
        at += bytes;
    }
    return false;
}
