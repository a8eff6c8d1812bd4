#include "stages/live/web/playlist.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "millrace/status.h"

#define MOST_NUMBER (INT64_MAX / 4)
static const int64_t second_ns = 1000000000, longest_ns = INT64_C(86400) * 1000000000;
static const char byte_order_mark[] = "\xEF\xBB\xBF";

/* Parser position, and what the last tags mean for the next segment. */
typedef struct parser {
    mr_playlist *list;
    const char *name;
    size_t line;
    size_t rooms[4];
    mr_segment next;
    mr_variant variant;
    int64_t end;    /* where the last byte range ended */
    bool is_media;  /* a media playlist tag has come */
    bool awaits;    /* the variant's address */
    const char *foreign; /* why the next segment cannot be decrypted, unless a usable key comes; NULL: not encrypted */
} parser;

static int refuse(const parser *at, const char *why) {
    return mr_fail(MR_ERROR_DATA, "%s: line %zu of its playlist: %s", at->name, at->line, why);
}

/* Makes room for one more array item; NULL: out of memory. */
static void *grow(void **items, size_t *room, size_t count, size_t bytes) {
    return mr_grow(items, count, room, bytes) ? memset((char *)*items + count * bytes, 0, bytes) : NULL;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Finds an attribute's value, without quotes; NULL: none. */
static char *attribute(char *list, const char *name, size_t *bytes) {
    const size_t length = strlen(name);
    for (char *at = list; *at;) {
        at += strspn(at, ", \t");
        char *value = at + strcspn(at, "=,\"");
        if (*value != '=')
            return NULL;
        const bool found = (size_t)(value - at) == length && strncmp(at, name, length) == 0, quoted = value[1] == '"';
        value += quoted ? 2 : 1;
        *bytes = strcspn(value, quoted ? "\"" : ",");
        if (found)
            return value;
        at = value + *bytes + (quoted && value[*bytes]);
    }
    return NULL;
}

static bool is_value(char *list, const char *name, const char *wanted) {
    size_t bytes;
    const char *value = attribute(list, name, &bytes);
    return value && bytes == strlen(wanted) && strncasecmp(value, wanted, bytes) == 0;
}

/* Parses an integer up to MOST_NUMBER; -1: invalid. */
static int64_t read_number(const char *text, char **end) {
    int64_t value = 0;
    const char *at = text;
    for (; isdigit((unsigned char)*at); at++) {
        const int digit = *at - '0';
        if (value > (MOST_NUMBER - digit) / 10)
            return -1;
        value = 10 * value + digit;
    }
    *end = (char *)at;
    return at > text ? value : -1;
}

/* Seconds as a decimal number, at most a day; any other text is 0. */
static int64_t read_seconds(const char *text) {
    char *end;
    const int64_t whole = read_number(text, &end);
    if (whole < 0)
        return 0;
    int64_t part = 0, unit = *end == '.' ? second_ns / 10 : 0;
    for (const char *at = end + 1; unit && isdigit((unsigned char)*at); at++, unit /= 10)
        part += unit * (*at - '0');
    return whole >= longest_ns / second_ns ? longest_ns : whole * second_ns + part;
}

/* Checks an address that ends after `bytes`: it must be relative or HTTP. */
static int check_address(const parser *at, const char *uri, size_t bytes) {
    size_t scheme = 0;
    if (!bytes || bytes > MR_PLAYLIST_MOST_ADDRESS)
        return refuse(at, bytes ? "an address is too long" : "an address is empty");
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)uri[i] < ' ' || uri[i] == 127)
            return refuse(at, "an address has signs that cannot be asked for");
    while (isalpha((unsigned char)*uri) && (isalnum((unsigned char)uri[scheme]) || memchr("+-.", uri[scheme], 3)))
        scheme++;
    const bool web = strncasecmp(uri, "http://", 7) == 0 || strncasecmp(uri, "https://", 8) == 0;
    return uri[scheme] == ':' && !web ? refuse(at, "it leads to an address that is not of http or https") : MR_OK;
}

/* Finds a tag's address and ends it. The caller must read everything else in the tag first. */
static int take_address(const parser *at, char *list, const char **uri) {
    size_t bytes;
    char *value = attribute(list, "URI", &bytes);
    if (!value)
        return refuse(at, "the address (URI) is missing");
    const int status = check_address(at, value, bytes);
    value[bytes] = '\0';
    *uri = value;
    return status;
}

/* Parses "bytes@first"; -1 if the first is missing. */
static int read_range(const parser *at, const char *text, int64_t *first, int64_t *bytes) {
    char *end;
    *bytes = read_number(text, &end);
    *first = *bytes > 0 && *end == '@' ? read_number(end + 1, &end) : -1;
    return *bytes > 0 && strchr("\", \t", *end) ? MR_OK : refuse(at, "a range of bytes is not understood");
}

/* ---- tags -------------------------------------------------------------------------------------------------------- */

static int read_sequence(parser *at, char *value) {
    char *end;
    at->list->sequence = at->list->stated = read_number(value, &end);
    at->is_media = true;
    if (at->list->count)
        return refuse(at, "the number of the first segment comes after it");
    return at->list->sequence < 0 ? refuse(at, "the number of the first segment is not understood") : MR_OK;
}

static int read_discontinuities(parser *at, char *value) {
    char *end;
    at->list->discontinuities = read_number(value, &end);
    return MR_OK;
}

static int read_target(parser *at, char *value) {
    at->list->target_ns = read_seconds(value);
    at->is_media = true;
    return MR_OK;
}

static int read_duration(parser *at, char *value) {
    at->next.duration_ns = read_seconds(value);
    return MR_OK;
}

static int read_byte_range(parser *at, char *value) {
    return read_range(at, value, &at->next.first, &at->next.bytes);
}

static int note_discontinuity(parser *at, char *value) {
    at->next.discontinuity = true;
    return MR_OK;
}

static int note_gap(parser *at, char *value) {
    at->next.gap = true;
    return MR_OK;
}

static int note_end(parser *at, char *value) {
    at->list->ended = true;
    return MR_OK;
}

static int read_type(parser *at, char *value) {
    at->list->ended |= strcasecmp(value, "VOD") == 0;
    return MR_OK;
}

static int read_iv(const parser *at, const char *text, size_t bytes, mr_segment_key *key) {
    static const char digits[] = "0123456789abcdef";
    if (bytes != 2 + 2 * MR_PLAYLIST_IV || *text != '0' || (text[1] | 32) != 'x')
        return refuse(at, "the IV of a key is not understood");
    for (size_t i = 2; i < bytes; i++) {
        const char *digit = strchr(digits, tolower((unsigned char)text[i]));
        if (!digit)
            return refuse(at, "the IV of a key is not understood");
        key->iv[i / 2 - 1] = (uint8_t)(key->iv[i / 2 - 1] << 4 | (digit - digits));
    }
    key->has_iv = true;
    return MR_OK;
}

/* A segment can have its key in several formats; one suffices. */
static int read_key(parser *at, char *value) {
    mr_playlist *list = at->list;
    size_t bytes;
    const bool none = is_value(value, "METHOD", "NONE");
    if (!none && attribute(value, "KEYFORMAT", &bytes) && !is_value(value, "KEYFORMAT", "identity")) {
        at->foreign = "its segments are protected by a system that is not supported";
        return MR_OK;
    }
    at->next.key = 0;
    at->foreign = NULL;
    if (none)
        return MR_OK;
    if (!is_value(value, "METHOD", "AES-128")) {
        at->foreign = "its segments are encrypted in a way that is not supported: only AES-128 is";
        return MR_OK;
    }
    mr_segment_key *key = grow((void **)&list->keys, &at->rooms[1], list->key_count, sizeof *key);
    if (!key)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    const char *iv = attribute(value, "IV", &bytes);
    int status = iv ? read_iv(at, iv, bytes, key) : MR_OK;
    if (!status)
        status = take_address(at, value, &key->uri);
    at->next.key = (uint32_t)++list->key_count;
    return status;
}

static int read_map(parser *at, char *value) {
    mr_playlist *list = at->list;
    size_t bytes;
    mr_segment_map *map = grow((void **)&list->maps, &at->rooms[2], list->map_count, sizeof *map);
    if (!map)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    const char *range = attribute(value, "BYTERANGE", &bytes);
    int status = range ? read_range(at, range, &map->first, &map->bytes) : MR_OK;
    map->first = map->first < 0 ? 0 : map->first;
    map->key = at->next.key;
    if (!status)
        status = take_address(at, value, &map->uri);
    at->next.map = (uint32_t)++list->map_count;
    return status;
}

/* Whether all named codecs are sound codecs; unknown names may be video. */
static bool is_sound_only(char *value) {
    static const char *const sounds[] = {"mp4a", "ac-3", "ec-3", "opus", "flac", "mp3", "alac"};
    size_t bytes, length;
    const char *codecs = attribute(value, "CODECS", &bytes);
    if (!codecs || !bytes)
        return false;
    for (const char *at = codecs; at < codecs + bytes; at += length + 1) {
        bool sound = false;
        at += strspn(at, " ");
        length = strcspn(at, ",\"");
        for (size_t i = 0; i < sizeof sounds / sizeof *sounds; i++)
            sound |= strncasecmp(at, sounds[i], strlen(sounds[i])) == 0;
        if (!sound)
            return false;
    }
    return true;
}

/* Parses "WIDTHxHEIGHT". Some servers write 640.0x360.0, or words: those are ignored. */
static void read_size(const char *text, mr_variant *variant) {
    char *end;
    const int64_t width = read_number(text, &end);
    if (width < 0)
        return;
    end += *end == '.' ? 1 + strspn(end + 1, "0") : 0;
    const int64_t height = (*end | 32) == 'x' ? read_number(end + 1, &end) : -1;
    if (width > 0 && height > 0 && width <= INT32_MAX && height <= INT32_MAX)
        *variant = (mr_variant){.bandwidth = variant->bandwidth, .width = width, .height = height};
}

/* Size and bandwidth only help to choose: a variant without them is valid. */
static int read_variant(parser *at, char *value) {
    size_t bytes;
    char *end;
    const char *bandwidth = attribute(value, "BANDWIDTH", &bytes), *size = attribute(value, "RESOLUTION", &bytes);
    const int64_t bits = bandwidth ? read_number(bandwidth, &end) : 0;
    at->variant = (mr_variant){.bandwidth = bits > 0 ? bits : 0};
    if (size)
        read_size(size, &at->variant);
    at->variant.sound_only = !size && is_sound_only(value);
    at->awaits = true;
    return MR_OK;
}

static int refuse_variables(parser *at, char *value) {
    return mr_fail(MR_ERROR_UNAVAILABLE, "%s: its playlist has variables (EXT-X-DEFINE), which are not supported",
                   at->name);
}

static int refuse_skip(parser *at, char *value) {
    return refuse(at, "segments are left out, which was not asked for (EXT-X-SKIP)");
}

static const struct tag {
    const char *name;
    int (*read)(parser *at, char *value);
} tags[] = {
    {"EXTINF", read_duration},
    {"EXT-X-BYTERANGE", read_byte_range},
    {"EXT-X-DISCONTINUITY", note_discontinuity},
    {"EXT-X-KEY", read_key},
    {"EXT-X-MAP", read_map},
    {"EXT-X-GAP", note_gap},
    {"EXT-X-TARGETDURATION", read_target},
    {"EXT-X-MEDIA-SEQUENCE", read_sequence},
    {"EXT-X-DISCONTINUITY-SEQUENCE", read_discontinuities},
    {"EXT-X-ENDLIST", note_end},
    {"EXT-X-PLAYLIST-TYPE", read_type},
    {"EXT-X-STREAM-INF", read_variant},
    {"EXT-X-DEFINE", refuse_variables},
    {"EXT-X-SKIP", refuse_skip},
};

static int read_tag(parser *at, char *line) {
    char *value = line + strcspn(line, ":");
    const size_t length = (size_t)(value - line);
    value += *value == ':';
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (strlen(tags[i].name) == length && strncmp(tags[i].name, line, length) == 0)
            return tags[i].read(at, value);
    return MR_OK;
}

/* ---- addresses, and the whole ------------------------------------------------------------------------------------ */

static int add_variant(parser *at, const char *uri) {
    mr_playlist *list = at->list;
    if (list->variant_count == MR_PLAYLIST_MOST_VARIANTS)
        return refuse(at, "it has too many variants");
    mr_variant *made = grow((void **)&list->variants, &at->rooms[3], list->variant_count, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *made = at->variant;
    made->uri = uri;
    list->variant_count++;
    at->awaits = false;
    return MR_OK;
}

/* A range without a first byte follows the previous range. */
static int place_range(parser *at, mr_segment *next) {
    const mr_playlist *list = at->list;
    const bool follows = list->count && list->segments[list->count - 1].bytes &&
                         strcmp(list->segments[list->count - 1].uri, next->uri) == 0;
    if (next->bytes && next->first < 0 && !follows)
        return refuse(at, "a range of bytes follows none");
    next->first = next->first < 0 ? at->end : next->first;
    at->end = next->first + next->bytes;
    return at->end > MOST_NUMBER ? refuse(at, "a range of bytes is too long") : MR_OK;
}

static int add_segment(parser *at, const char *uri) {
    mr_playlist *list = at->list;
    if (list->count == MR_PLAYLIST_MOST_SEGMENTS)
        return refuse(at, "it has too many segments");
    if (at->foreign && !at->next.key)
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s: %s", at->name, at->foreign);
    at->next.uri = uri;
    const int status = place_range(at, &at->next);
    mr_segment *made = status ? NULL : grow((void **)&list->segments, &at->rooms[0], list->count, sizeof *made);
    if (!made)
        return status ? status : mr_fail(MR_ERROR_MEMORY, "out of memory");
    *made = at->next;
    list->count++;
    at->next = (mr_segment){.key = made->key, .map = made->map};
    return MR_OK;
}

static int read_line(parser *at, char *line) {
    line += strspn(line, " \t");
    size_t bytes = strlen(line);
    while (bytes && strchr(" \t\r", line[bytes - 1]))
        line[--bytes] = '\0';
    if (!bytes)
        return MR_OK;
    if (*line == '#')
        return read_tag(at, line + 1);
    const int status = check_address(at, line, bytes);
    return status ? status : at->awaits ? add_variant(at, line) : add_segment(at, line);
}

static int read_lines(parser *at, char *text) {
    int status = MR_OK;
    for (char *line = text; line && !status; at->line++) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        status = read_line(at, line);
        line = end ? end + 1 : NULL;
    }
    return status;
}

static int check_whole(const parser *at) {
    const mr_playlist *list = at->list;
    if (list->variant_count && list->count)
        return mr_fail(MR_ERROR_DATA, "%s: its playlist has both variants and segments", at->name);
    if (!list->variant_count && !at->is_media)
        return mr_fail(MR_ERROR_DATA, "%s: is a list, but not a playlist of HLS: it has neither variants nor "
                       "EXT-X-TARGETDURATION", at->name);
    return MR_OK;
}

/* Skips what comes before the first nonempty line: some servers start with empty lines. */
static size_t skip_blanks(const char *text, size_t bytes) {
    const size_t mark = sizeof byte_order_mark - 1;
    size_t at = bytes >= mark && memcmp(text, byte_order_mark, mark) == 0 ? mark : 0;
    while (at < bytes && memchr(" \t\r\n", text[at], 4))
        at++;
    return at;
}

bool mr_playlist_may_be(const char *text, size_t bytes) {
    static const char first[] = "#EXTM3U";
    const size_t skipped = skip_blanks(text, bytes), length = sizeof first - 1;
    return bytes >= skipped + length && memcmp(text + skipped, first, length) == 0;
}

int mr_playlist_parse(mr_playlist *list, const char *name, char *text, size_t bytes) {
    parser at = {.list = list, .name = name, .line = 1};
    *list = (mr_playlist){.text = text, .discontinuities = -1};
    text[bytes] = '\0';
    int status = MR_OK;
    if (!mr_playlist_may_be(text, bytes))
        status = mr_fail(MR_ERROR_DATA, "%s: its playlist does not begin with #EXTM3U", name);
    else if (strlen(text) != bytes)
        status = mr_fail(MR_ERROR_DATA, "%s: its playlist has bytes that are no text", name);
    if (!status)
        status = read_lines(&at, text + (*text == *byte_order_mark ? sizeof byte_order_mark - 1 : 0));
    if (!status)
        status = check_whole(&at);
    for (size_t i = 0; i < list->count && !list->target_ns; i++)
        list->target_ns = list->segments[i].duration_ns;
    list->target_ns = list->target_ns ? list->target_ns : second_ns / 2;
    if (status)
        mr_playlist_fini(list);
    return status;
}

static bool is_better(const mr_variant *one, const mr_variant *best) {
    const int64_t pixels = one->width * one->height, before = best ? best->width * best->height : -1;
    return !best || pixels > before || (pixels == before && one->bandwidth > best->bandwidth);
}

const mr_variant *mr_playlist_choose(const mr_playlist *list, const char *name, int64_t max_pixels, int wanted) {
    const mr_variant *best = NULL;
    bool large = false;
    if (wanted >= 0 && (size_t)wanted >= list->variant_count)
        mr_fail(MR_ERROR_DATA, "%s: stream %d is not there; its playlist has %zu variants", name, wanted,
                list->variant_count);
    if (wanted >= 0)
        return (size_t)wanted < list->variant_count ? &list->variants[wanted] : NULL;
    for (size_t i = 0; i < list->variant_count; i++) {
        const mr_variant *one = &list->variants[i];
        const bool fits = one->width * one->height <= max_pixels;
        large |= !fits;
        if (fits && !one->sound_only && is_better(one, best))
            best = one;
    }
    if (!best && large)
        mr_fail(MR_ERROR_DATA, "%s: pictures of all variants are larger than max_pixels (%" PRId64 ") allows", name,
                max_pixels);
    else if (!best)
        mr_fail(MR_ERROR_DATA, "%s: holds no video: its playlist has variants of sound only", name);
    return best;
}

void mr_playlist_fini(mr_playlist *list) {
    mr_free(list->text);
    mr_free(list->variants);
    mr_free(list->segments);
    mr_free(list->keys);
    mr_free(list->maps);
    *list = (mr_playlist){0};
}
