#include "stages/live/web/hls.h"

#include <inttypes.h>
#include <libavutil/mem.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "millrace/status.h"
#include "stages/live/web/sealed.h"
#include "stages/media/media_input.h"

enum {
    BUFFER = 65536,
    MOST_RELOADS = 3,  /* consecutive failures */
    MOST_LOST = 3,     /* consecutive segments that cannot be loaded */
    MOST_BARREN = 100, /* segments without a picture */
    MOST_IN_RUN = 256, /* segments with a header: libavformat keeps an index of all that a demuxer has read */
};
static const int64_t shortest_ns = 250000000, longest_ns = INT64_C(30000000000);

struct mr_hls {
    mr_web *web;
    char address[MR_URL_BYTES]; /* the media playlist's address */
    char base[MR_URL_BYTES];    /* and where it was found */
    mr_playlist list;
    int64_t due_ns;             /* when to load it again */
    mr_hls_position place;
    bool recorded, is_variant;
    unsigned failed_reloads, lost, barren;
    int64_t failed;             /* number of a segment that failed to load once */
    /* The next segment, and why it starts another run. */
    bool chosen;                /* it is segment `index` in the list */
    size_t index;
    bool hole, anew, over;      /* segments are missing before it; its times restart; nothing follows */
    /* The run. */
    bool begun;                 /* a segment was chosen in this connection */
    bool filled;                /* it has given bytes */
    int error;                  /* why it ended; AVERROR_EOF: everything was given */
    int64_t bytes;              /* from all runs */
    bool run_is_anew, continues, map_is_due;
    unsigned segments;          /* opened in this run */
    mr_segment_map map;         /* the address is a copy; uri NULL: none */
    char map_uri[MR_PLAYLIST_MOST_ADDRESS + 1];
    AVIOContext *io, *part;     /* the demuxer's; current segment or header */
    AVIOContext *opened;        /* what that is read from, */
    int64_t left;               /* unread bytes there */
    char key_url[MR_URL_BYTES]; /* where `key` came from; "": not loaded */
    uint8_t key[MR_PLAYLIST_IV];
};

/* ---- playlists --------------------------------------------------------------------------------------------------- */

/* Reads a whole answer, with room for one more byte. */
static int read_text(mr_web *web, AVIOContext *io, char **text, size_t *bytes) {
    size_t room = 0;
    *bytes = 0;
    *text = NULL;
    for (;;) {
        if (*bytes == room) {
            room = room ? 2 * room : 16384;
            char *longer = room > 2 * MR_PLAYLIST_MOST_BYTES ? NULL : mr_realloc(*text, room + 1);
            if (!longer)
                break;
            *text = longer;
        }
        const int more = avio_read_partial(io, (uint8_t *)*text + *bytes, (int)(room - *bytes));
        if (more > 0 && mr_web_check(web, io))
            break;
        *bytes += more > 0 ? (size_t)more : 0;
        if (*bytes > MR_PLAYLIST_MOST_BYTES)
            break;
        const bool whole = *bytes && (*text)[*bytes - 1] == '\n';
        if (more == AVERROR_EOF || more == 0 || (whole && mr_web_may_have_ended(io, more)))
            return 0;
        if (more < 0) {
            mr_free(*text);
            return more;
        }
    }
    mr_free(*text);
    if (!*web->refusal)
        *web->refusal = *bytes > MR_PLAYLIST_MOST_BYTES
                       ? mr_fail(MR_ERROR_DATA, "%s: its playlist has more than %d MiB", web->url,
                                 MR_PLAYLIST_MOST_BYTES >> 20)
                       : mr_fail(MR_ERROR_MEMORY, "out of memory");
    return AVERROR_INVALIDDATA;
}

static int read_list(mr_hls *hls, AVIOContext *io, const char *address, mr_playlist *list) {
    char *text;
    size_t bytes;
    const int error = read_text(hls->web, io, &text, &bytes);
    if (error)
        return error;
    *hls->web->refusal = mr_playlist_parse(list, hls->web->url, text, bytes);
    if (!*hls->web->refusal && !mr_web_location(io, address, hls->base, sizeof hls->base)) {
        mr_playlist_fini(list);
        *hls->web->refusal = mr_fail(MR_ERROR_DATA, "%s: the address of its playlist is too long", hls->web->url);
    }
    return *hls->web->refusal ? AVERROR_INVALIDDATA : 0;
}

/* Resolves `uri` against the playlist. Some servers write spaces or non-ASCII letters, which a request must not
 * have. */
static int resolve(mr_hls *hls, const char *uri, char *url, size_t bytes) {
    char coded[MR_URL_BYTES];
    size_t length = 0;
    for (; *uri && length + 4 < sizeof coded; uri++) {
        const unsigned char sign = (unsigned char)*uri;
        length += (size_t)snprintf(coded + length, 4, sign <= ' ' || sign > '~' ? "%%%02X" : "%c", sign);
    }
    coded[length] = '\0';
    if (!*uri && mr_url_resolve(hls->base, coded, url, bytes))
        return 0;
    *hls->web->refusal = mr_fail(MR_ERROR_DATA, "%s: an address of its playlist is too long", hls->web->url);
    return AVERROR_INVALIDDATA;
}

static int fetch_list(mr_hls *hls, mr_playlist *list) {
    AVIOContext *io;
    mr_av_forget();
    int error = mr_web_open(hls->web, &io, hls->address, NULL);
    if (!error)
        error = read_list(hls, io, hls->address, list);
    avio_closep(&io);
    if (!error && list->variant_count) {
        mr_playlist_fini(list);
        *hls->web->refusal = mr_fail(MR_ERROR_DATA, "%s: its variant is a list of variants", hls->web->url);
        error = AVERROR_INVALIDDATA;
    }
    return error;
}

/* Takes a playlist version, and sets when to load the next one. */
static void take_list(mr_hls *hls, mr_playlist *list) {
    const mr_playlist *before = &hls->list;
    mr_hls_position_number(&hls->place, list);
    const bool changed = !before->text || list->sequence != before->sequence || list->count != before->count;
    int64_t pause_ns = list->count ? list->segments[list->count - 1].duration_ns : 0;
    pause_ns = !changed || !pause_ns || pause_ns > list->target_ns ? list->target_ns : pause_ns;
    pause_ns = changed ? pause_ns : pause_ns / 2;
    hls->due_ns = mr_now_ns() + (pause_ns < shortest_ns ? shortest_ns : pause_ns > longest_ns ? longest_ns : pause_ns);
    mr_playlist_fini(&hls->list);
    hls->list = *list;
}

/* Waits until it is due, then loads the playlist again. */
static int reload(mr_hls *hls) {
    const struct timespec moment = {.tv_nsec = 20000000};
    mr_playlist list;
    while (mr_now_ns() < hls->due_ns) {
        hls->web->asked = 0;
        if (mr_web_interrupted(hls->web))
            return AVERROR_EXIT;
        nanosleep(&moment, NULL);
    }
    const int error = fetch_list(hls, &list);
    if (!error) {
        take_list(hls, &list);
        hls->failed_reloads = 0;
        return 0;
    }
    /* The playlist was valid before and may become valid again: some servers return an empty one while writing it. */
    const bool wrong = *hls->web->refusal == MR_ERROR_DATA, refused = *hls->web->refusal && !wrong;
    const bool fails = ++hls->failed_reloads >= MOST_RELOADS || refused;
    if (wrong)
        *hls->web->refusal = fails ? MR_ERROR_IO : MR_OK;
    hls->due_ns = mr_now_ns() + shortest_ns;
    return !fails ? 0 : error == AVERROR_EOF ? AVERROR(EIO) : error;
}

/* ---- segments ---------------------------------------------------------------------------------------------------- */

static int load_key(mr_hls *hls, const char *uri) {
    char url[MR_URL_BYTES];
    uint8_t key[MR_PLAYLIST_IV + 1];
    AVIOContext *io;
    int error = resolve(hls, uri, url, sizeof url);
    if (error || strcmp(url, hls->key_url) == 0)
        return error;
    error = mr_web_open(hls->web, &io, url, NULL);
    const int bytes = error ? 0 : avio_read(io, key, sizeof key);
    if (!error && bytes > 0)
        error = mr_web_check(hls->web, io);
    avio_closep(&io);
    if (!error && bytes < 0)
        error = bytes;
    if (!error && bytes != MR_PLAYLIST_IV) {
        *hls->web->refusal = mr_fail(MR_ERROR_DATA, "%s: the key of its segments does not have %d bytes", hls->web->url,
                                    MR_PLAYLIST_IV);
        error = AVERROR_INVALIDDATA;
    }
    if (!error) {
        memcpy(hls->key, key, sizeof hls->key);
        snprintf(hls->key_url, sizeof hls->key_url, "%s", url);
    }
    return error;
}

/* If the playlist has no IV, the next segment's number must serve, as a 128-bit number. */
static void set_iv(const mr_hls *hls, uint8_t iv[MR_PLAYLIST_IV], const mr_segment_key *key) {
    int64_t number = hls->list.stated + (int64_t)hls->index;
    memcpy(iv, key->iv, MR_PLAYLIST_IV);
    for (int i = MR_PLAYLIST_IV - 1; !key->has_iv && i >= MR_PLAYLIST_IV - 8; i--, number >>= 8)
        iv[i] = (uint8_t)number;
}

/* Opens a segment or a header. `key`: key number, 0: none. */
static int open_part(mr_hls *hls, const char *uri, const mr_web_range *range, uint32_t key) {
    char url[MR_URL_BYTES];
    uint8_t iv[MR_PLAYLIST_IV];
    AVIOContext *io = NULL;
    hls->left = range->bytes ? range->bytes : INT64_MAX;
    mr_av_forget();
    int error = key ? load_key(hls, hls->list.keys[key - 1].uri) : 0;
    if (!error)
        error = resolve(hls, uri, url, sizeof url);
    if (!error)
        error = mr_web_open(hls->web, &io, url, range);
    hls->opened = io;
    if (!error && key) {
        AVIOContext *plain = NULL;
        set_iv(hls, iv, &hls->list.keys[key - 1]);
        error = mr_sealed_open(&plain, io, hls->left, hls->key, iv);
        if (error)
            avio_close(io);
        io = plain;
    }
    hls->part = error ? NULL : io;
    return error;
}

static void close_part(mr_hls *hls) {
    if (hls->part && !mr_sealed_close(hls->part))
        avio_close(hls->part);
    hls->part = NULL;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static const mr_segment *next_segment(const mr_hls *hls) {
    return &hls->list.segments[hls->index];
}

static bool is_same_map(const mr_hls *hls) {
    const uint32_t number = next_segment(hls)->map;
    const mr_segment_map *map = number ? &hls->list.maps[number - 1] : NULL, *now = &hls->map;
    return map ? now->uri && strcmp(map->uri, now->uri) == 0 && map->first == now->first && map->bytes == now->bytes
               : !now->uri;
}

/* Starts a run at the chosen segment, with its header. */
static void begin_here(mr_hls *hls) {
    const uint32_t number = next_segment(hls)->map;
    hls->continues = hls->map.uri && is_same_map(hls) && !hls->hole && !hls->anew;
    hls->map = number ? hls->list.maps[number - 1] : (mr_segment_map){0};
    hls->map_is_due = number != 0;
    if (number) {
        snprintf(hls->map_uri, sizeof hls->map_uri, "%s", hls->map.uri);
        hls->map.uri = hls->map_uri;
    }
    hls->run_is_anew |= hls->anew;
    hls->segments = 0;
    hls->hole = hls->anew = false;
}

/* Chooses the next segment, possibly waiting for it. AVERROR_EOF: it belongs to another run. */
static int choose(mr_hls *hls) {
    mr_hls_step step;
    while ((step = mr_hls_position_next(&hls->place, &hls->list, !hls->begun, &hls->index)) == MR_HLS_WAIT) {
        const int error = reload(hls);
        if (error)
            return error;
    }
    hls->over = step == MR_HLS_OVER;
    if (hls->over)
        return AVERROR_EOF;
    hls->begun = hls->chosen = true;
    hls->hole |= step == MR_HLS_SKIP;
    hls->anew |= step == MR_HLS_ANEW;
    const bool full = hls->map.uri && hls->segments >= MOST_IN_RUN;
    if (hls->filled)
        return hls->hole || hls->anew || full || !is_same_map(hls) ? AVERROR_EOF : 0;
    begin_here(hls);
    return 0;
}

/* Handles a segment that cannot be loaded, because of `why` or a libavformat error. A live stream skips it if it is
 * still missing at the next playlist. A recording cannot skip one. */
static int lose(mr_hls *hls, int error, const char *why) {
    const int64_t number = hls->list.sequence + (int64_t)hls->index;
    if (*hls->web->refusal || mr_web_interrupted(hls->web))
        return error;
    if (hls->recorded && hls->bytes)
        *hls->web->refusal = mr_fail(MR_ERROR_IO, "%s: its segment %" PRId64 " cannot be read: %s", hls->web->url,
                                     number, why ? why : mr_av_words(error));
    if (hls->recorded)
        return error;
    hls->chosen = false;
    if (number != hls->failed) {
        hls->failed = number;
        return reload(hls);
    }
    mr_hls_position_take(&hls->place, &hls->list, hls->index);
    hls->hole = true;
    return ++hls->lost >= MOST_LOST ? error : 0;
}

/* Why the opened segment is invalid, or NULL. Servers may return an empty one, or an error page. */
static const char *look_into(mr_hls *hls) {
    uint8_t first;
    const int bytes = avio_read_partial(hls->part, &first, 1);
    if (bytes == 0 || bytes == AVERROR_EOF || mr_web_may_have_ended(hls->opened, bytes))
        return "it is empty";
    if (bytes > 0)
        avio_seek(hls->part, -1, SEEK_CUR);
    return bytes > 0 && first == '<' ? "it is a page of text" : NULL;
}

static int open_segment(mr_hls *hls) {
    const mr_segment *segment = next_segment(hls);
    const mr_web_range range = {segment->first, segment->bytes};
    if (++hls->barren > MOST_BARREN) {
        *hls->web->refusal = mr_fail(MR_ERROR_DATA, "%s: %d segments one after the other have no picture",
                                    hls->web->url, MOST_BARREN);
        return AVERROR_INVALIDDATA;
    }
    const int error = segment->gap ? 0 : open_part(hls, segment->uri, &range, segment->key);
    const char *why = error || segment->gap ? NULL : look_into(hls);
    if (why)
        close_part(hls);
    if (error || why)
        return lose(hls, why ? AVERROR_INVALIDDATA : error, why);
    mr_hls_position_take(&hls->place, &hls->list, hls->index);
    hls->chosen = false;
    hls->hole |= segment->gap;
    hls->segments++;
    hls->lost = segment->gap ? hls->lost : 0;
    return 0;
}

static int open_map(mr_hls *hls) {
    const mr_segment_map *map = &hls->map;
    const mr_web_range range = {map->first, map->bytes};
    const int error = open_part(hls, map->uri, &range, map->key);
    hls->map_is_due = error != 0;
    return error ? lose(hls, error, NULL) : 0;
}

/* Opens the next header or segment, or comes closer to it. */
static int advance(mr_hls *hls) {
    if (!hls->chosen)
        return choose(hls);
    const int error = hls->map_is_due ? open_map(hls) : open_segment(hls);
    return error == AVERROR_EOF ? AVERROR(EIO) : error;
}

/* Reads for the demuxer. Demuxers read again after the end, and treat errors as the end. */
static int read_run(void *context, uint8_t *to, int room) {
    mr_hls *hls = context;
    while (!hls->error) {
        hls->error = hls->part ? 0 : advance(hls);
        if (hls->error)
            break;
        const int most = hls->left < room ? (int)hls->left : room;
        int bytes = hls->part && most ? avio_read_partial(hls->part, to, most) : 0;
        if (bytes > 0 && mr_web_check(hls->web, hls->opened))
            bytes = AVERROR_EXIT;
        hls->filled |= bytes > 0;
        hls->bytes += bytes > 0 ? bytes : 0;
        hls->left -= bytes > 0 ? bytes : 0;
        if (bytes > 0)
            return bytes;
        close_part(hls);
        if (bytes < 0 && bytes != AVERROR_EOF && (hls->recorded || mr_web_interrupted(hls->web)))
            hls->error = bytes;
        hls->hole |= bytes < 0 && bytes != AVERROR_EOF; /* the segment's rest is missing */
    }
    return hls->error;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int open_lists(mr_hls *hls, const mr_hls_params *params, AVIOContext *io) {
    mr_playlist list = {0};
    int error = read_list(hls, io, hls->address, &list);
    hls->is_variant = !error && list.variant_count;
    if (hls->is_variant) {
        const mr_variant *best = mr_playlist_choose(&list, hls->web->url, params->max_pixels, params->stream);
        *hls->web->refusal = best ? MR_OK : MR_ERROR_DATA;
        error = best ? resolve(hls, best->uri, hls->address, sizeof hls->address) : AVERROR_INVALIDDATA;
        mr_playlist_fini(&list);
        if (!error)
            error = fetch_list(hls, &list);
    }
    if (!error)
        take_list(hls, &list);
    return error;
}

/* A stream that was live stays live, even if its playlist has ended in the meantime. */
static int find_start(mr_hls *hls) {
    hls->recorded = hls->list.ended && !hls->place.begun;
    const mr_hls_step step = mr_hls_position_next(&hls->place, &hls->list, true, &hls->index);
    if (step != MR_HLS_WAIT && step != MR_HLS_OVER)
        return 0;
    *hls->web->refusal = mr_fail(MR_ERROR_IO, "%s: its playlist has no %ssegment", hls->web->url,
                                hls->place.begun ? "new " : "");
    return AVERROR(EAGAIN);
}

int mr_hls_open(mr_hls **result, const mr_hls_params *params, AVIOContext *io) {
    mr_hls *hls = mr_calloc(1, sizeof *hls);
    *result = NULL;
    if (!hls)
        return AVERROR(ENOMEM);
    *hls = (mr_hls){.web = params->web, .place = params->place, .failed = -1};
    snprintf(hls->address, sizeof hls->address, "%s", params->web->url);
    int error = open_lists(hls, params, io);
    if (!error)
        error = find_start(hls);
    if (error)
        mr_hls_close(&hls);
    *result = hls;
    return error;
}

static void drop_io(mr_hls *hls) {
    if (hls->io)
        av_freep(&hls->io->buffer);
    avio_context_free(&hls->io);
}

static int make_io(mr_hls *hls) {
    uint8_t *buffer = av_malloc(BUFFER);
    drop_io(hls);
    hls->io = buffer ? avio_alloc_context(buffer, BUFFER, 0, hls, read_run, NULL, NULL) : NULL;
    if (!hls->io)
        av_free(buffer);
    return hls->io ? 0 : AVERROR(ENOMEM);
}

int mr_hls_begin(mr_hls *hls, AVIOContext **io) {
    if (hls->over || (hls->filled && !hls->error))
        return AVERROR_EOF;
    if (hls->error && hls->error != AVERROR_EOF)
        return hls->error;
    hls->filled = hls->run_is_anew = false;
    hls->error = 0;
    if (hls->chosen)
        begin_here(hls);
    const int error = make_io(hls);
    *io = hls->io;
    return error;
}

bool mr_hls_is_anew(const mr_hls *hls) {
    return hls->run_is_anew;
}

bool mr_hls_continues(const mr_hls *hls) {
    return hls->continues;
}

bool mr_hls_is_recorded(const mr_hls *hls) {
    return hls->recorded;
}

bool mr_hls_is_variant(const mr_hls *hls) {
    return hls->is_variant;
}

int64_t mr_hls_pause_ns(const mr_hls *hls) {
    return hls->list.target_ns < longest_ns ? hls->list.target_ns : longest_ns;
}

const mr_hls_position *mr_hls_where(const mr_hls *hls) {
    return &hls->place;
}

int64_t mr_hls_bytes(const mr_hls *hls) {
    return hls->bytes;
}

void mr_hls_note_picture(mr_hls *hls) {
    hls->barren = 0;
}

void mr_hls_close(mr_hls **closed) {
    mr_hls *hls = *closed;
    if (!hls)
        return;
    close_part(hls);
    drop_io(hls);
    mr_playlist_fini(&hls->list);
    mr_free(hls);
    *closed = NULL;
}
