#include "stages/live/web/web.h"

#include <libavutil/opt.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "engine/base/authorities.h"
#include "engine/base/clock.h"
#include "engine/base/url.h"
#include "millrace/status.h"
#include "stages/media/media_input.h"

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static bool find_place(const char *url, mr_url *to) {
    if (!mr_web_is_address(url) || !mr_url_split_strictly(url, to))
        return false;
    const char *port = mr_url_has_scheme(url, "https") ? "443" : "80";
    to->port = to->port.text ? to->port : (mr_url_part){port, strlen(port)};
    return to->host.bytes > 0;
}

static bool same(mr_url_part a, mr_url_part b) {
    return a.bytes == b.bytes && strncasecmp(a.text, b.text, a.bytes) == 0;
}

/* Whether the source's user and password may be sent to this address. */
static bool is_home(const mr_web *web, const char *url) {
    mr_url home, there;
    return find_place(web->url, &home) && find_place(url, &there) && !there.user.text &&
           same(home.scheme, there.scheme) && same(home.host, there.host) && same(home.port, there.port);
}

bool mr_web_is_address(const char *url) {
    return mr_url_has_scheme(url, "http") || mr_url_has_scheme(url, "https");
}

/* Whether an address may be asked, or has answered. */
static int check_address(mr_web *web, const char *url) {
    mr_url there;
    char host[MR_URL_HOST] = "";
    if (!find_place(url, &there))
        *web->refusal = mr_fail(MR_ERROR_DATA, "%s: it leads to an address that is not of http or https", web->url);
    else if (mr_url_has_scheme(url, "http") && mr_url_has_scheme(web->url, "https"))
        *web->refusal = mr_fail(MR_ERROR_DATA, "%s: it leads to http, which is not encrypted", web->url);
    else if (web->allow_hosts && !(mr_url_decode(there.host, host, sizeof host) &&
                                   mr_host_is_allowed(web->allow_hosts, host)))
        *web->refusal = mr_fail(MR_ERROR_CONFIG, "%s: it leads to %.*s, which allow_hosts does not have", web->url,
                               (int)(there.host.bytes < MR_URL_HOST ? there.host.bytes : MR_URL_HOST), there.host.text);
    return *web->refusal ? AVERROR(EACCES) : 0;
}

static uint8_t *location_of(AVIOContext *io) {
    uint8_t *location = NULL;
    if (av_opt_get(io, "location", AV_OPT_SEARCH_CHILDREN, &location) < 0)
        location = NULL;
    return location;
}

bool mr_web_location(AVIOContext *io, const char *url, char *location, size_t bytes) {
    uint8_t *led = location_of(io);
    const char *from = led ? (const char *)led : url;
    mr_url there;
    const bool known = find_place(from, &there);
    const int length = known ? snprintf(location, bytes, "%s://%s", mr_url_has_scheme(from, "https") ? "https" : "http",
                                        there.host.text - (there.host.text[-1] == '[')) : -1;
    av_free(led);
    return length > 0 && (size_t)length < bytes;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

/* Limits headers. Before an answer gives bytes, libavformat asks before each read of at most 4 KiB, and every 100 ms
 * while it waits. Joining headers costs the square of their length, so the limit must be small. It cannot be below
 * about a thousand: some devices send each header byte in a separate packet. */
enum { MOST_ASKED = 1024 };
static const int64_t pause_ns = 90000000;

int mr_web_interrupted(void *context) {
    mr_web *web = context;
    if (!*web->refusal) {
        const int64_t now_ns = mr_now_ns();
        web->asked += now_ns - web->asked_ns < pause_ns;
        web->asked_ns = now_ns;
        if (web->asked > MOST_ASKED)
            *web->refusal = mr_fail(MR_ERROR_DATA, "%s: its headers have no end", web->url);
    }
    return web->interrupt.callback(web->interrupt.opaque) || *web->refusal;
}

void mr_web_set_tls(const char *ca_file, AVDictionary **options) {
    av_dict_set(options, "tls_verify", "1", 0);
    ca_file = ca_file ? ca_file : mr_authorities();
    if (ca_file)
        av_dict_set(options, "ca_file", ca_file, 0);
}

static int open_with(mr_web *web, AVIOContext **io, const char *url, AVDictionary **options) {
    const AVIOInterruptCB interrupt = {mr_web_interrupted, web};
    *io = NULL;
    web->asked = 0;
    const int error = avio_open2(io, url, AVIO_FLAG_READ, &interrupt, options);
    return error < 0 ? error : 0;
}

static void set_options(const mr_web *web, const mr_web_range *range, AVDictionary **options) {
    const bool secure = mr_url_has_scheme(web->url, "https");
    mr_web_set_tls(web->ca_file, options);
    av_dict_set(options, "protocol_whitelist", secure ? "https,tls,tcp" : "http,https,tls,tcp", 0);
    av_dict_set(options, "reconnect", "1", 0);
    av_dict_set(options, "reconnect_delay_max", "10", 0);
    if (range && range->bytes) {
        av_dict_set_int(options, "offset", range->first, 0);
        av_dict_set_int(options, "end_offset", range->first + range->bytes, 0);
    }
}

/* Some hosts want their playlist's cookie for the segments. */
static void keep_cookies(mr_web *web, AVIOContext *io, const char *url) {
    uint8_t *cookies = NULL, *location = location_of(io);
    mr_url from;
    if (av_opt_get(io, "cookies", AV_OPT_SEARCH_CHILDREN, &cookies) < 0)
        cookies = NULL;
    const size_t bytes = cookies ? strlen((const char *)cookies) : 0;
    if (bytes && bytes < sizeof web->cookies && find_place(location ? (const char *)location : url, &from) &&
        from.host.bytes < sizeof web->cookie_host) {
        memcpy(web->cookies, cookies, bytes + 1);
        snprintf(web->cookie_host, sizeof web->cookie_host, "%.*s", (int)from.host.bytes, from.host.text);
    }
    av_free(location);
    av_free(cookies);
}

static void set_cookies(const mr_web *web, const char *url, AVDictionary **options) {
    const mr_url_part owner = {web->cookie_host, strlen(web->cookie_host)};
    mr_url to;
    if (owner.bytes && find_place(url, &to) && same(to.host, owner))
        av_dict_set(options, "cookies", web->cookies, 0);
}

static int request(mr_web *web, AVIOContext **io, const char *url, const mr_web_range *range) {
    const bool home = is_home(web, url);
    char whole[MR_URL_BYTES];
    AVDictionary *options = NULL;
    if (!mr_url_with_user(url, home ? web->user : NULL, home ? web->password : NULL, whole, sizeof whole)) {
        *web->refusal = mr_fail(MR_ERROR_CONFIG, "%s: URL, user and password are too long together", web->url);
        return AVERROR(ENAMETOOLONG);
    }
    set_options(web, range, &options);
    set_cookies(web, url, &options);
    const int error = open_with(web, io, whole, &options);
    av_dict_free(&options);
    return error;
}

int mr_web_check(mr_web *web, AVIOContext *io) {
    uint8_t *location = location_of(io);
    const int error = location ? check_address(web, (const char *)location) : 0;
    av_free(location);
    web->asked = 0;
    return error;
}

int mr_web_open(mr_web *web, AVIOContext **io, const char *url, const mr_web_range *range) {
    AVIOContext *opened = NULL; /* closing also calls the interrupt function: the caller must have none then */
    *io = NULL;
    int error = check_address(web, url);
    if (!error)
        error = request(web, &opened, url, range);
    /* libavformat's error for an answer that starts at another byte */
    if (error == AVERROR(EPERM) && range && range->first)
        *web->refusal = mr_fail(MR_ERROR_UNAVAILABLE, "%s: the server does not give ranges of bytes, of which its "
                                "playlist is made", web->url);
    if (!error)
        error = mr_web_check(web, opened);
    if (!error)
        keep_cookies(web, opened, url);
    if (error)
        avio_closep(&opened);
    *io = opened;
    return error;
}

bool mr_web_may_have_ended(AVIOContext *io, int error) {
    return error == AVERROR(EIO) && avio_size(io) < 0;
}

size_t mr_web_look(AVIOContext *io, char text[MR_WEB_LOOK]) {
    const int bytes = avio_read_partial(io, (unsigned char *)text, MR_WEB_LOOK - 1);
    const size_t length = bytes > 0 ? (size_t)bytes : 0;
    text[length] = '\0';
    avio_seek(io, 0, SEEK_SET);
    return length;
}

bool mr_web_is_manifest(const char *text) {
    return text[strspn(text, "\xEF\xBB\xBF \t\r\n")] == '<' && strstr(text, "<MPD");
}

int mr_web_refuse_manifest(const char *url) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "%s: is a manifest of DASH, which is not read: give the address of the "
                   "stream's HLS playlist (.m3u8), or of RTSP", url);
}
