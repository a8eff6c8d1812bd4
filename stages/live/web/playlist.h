/* Playlists of HLS (RFC 8216): text in, variants or segments out. Pure functions; any thread.
 *
 * Nothing in a playlist is trusted. One with a line that is not understood where it matters is refused as a whole: an
 * address that is not of HTTP (file:, data:, concat:, ...), signs that a request cannot have, numbers out of range,
 * more segments or variants than below. Tags that are not known are passed over, as the RFC demands; those of
 * low-latency HLS are among them, so that its parts come as whole segments. */
#ifndef MILLRACE_STAGES_LIVE_WEB_PLAYLIST_H
#define MILLRACE_STAGES_LIVE_WEB_PLAYLIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MR_PLAYLIST_MOST_BYTES = 8 << 20,
    MR_PLAYLIST_MOST_SEGMENTS = 100000,
    MR_PLAYLIST_MOST_VARIANTS = 1000,
    MR_PLAYLIST_MOST_ADDRESS = 3000, /* bytes of an address */
    MR_PLAYLIST_IV = 16
};

/* One rendition of a master playlist. */
typedef struct mr_variant {
    const char *uri;
    int64_t bandwidth;     /* bits a second; 0: not known */
    int64_t width, height; /* 0: not known */
    bool sound_only;
} mr_variant;

/* AES-128 in CBC mode. Without an IV it is the segment's number. */
typedef struct mr_segment_key {
    const char *uri;
    bool has_iv;
    uint8_t iv[MR_PLAYLIST_IV];
} mr_segment_key;

/* `bytes` from `first` on; bytes 0: all of them. */
typedef struct mr_segment_map {
    const char *uri;
    int64_t first, bytes;
    uint32_t key; /* as of a segment */
} mr_segment_map;

typedef struct mr_segment {
    const char *uri;
    int64_t first, bytes;
    int64_t duration_ns;
    uint32_t key, map;  /* number in keys and maps, from 1; 0: none */
    bool discontinuity; /* before it */
    bool gap;           /* the server does not have it */
} mr_segment;

typedef struct mr_playlist {
    char *text; /* in which the strings lie */
    mr_variant *variants;
    size_t variant_count; /* 0: it has segments */
    mr_segment *segments;
    mr_segment_key *keys;
    mr_segment_map *maps;
    size_t count, key_count, map_count;
    int64_t sequence; /* number of the first segment; hls_position.h may give it another one than the server, */
    int64_t stated;   /* whose number IVs of keys are made of */
    bool unnumbered;  /* the server gave none, or 0 (hls_position.h) */
    int64_t target_ns; /* about the longest duration of a segment; above 0 */
    int64_t discontinuities; /* before the first segment; -1: the server does not count them */
    bool ended; /* no more segments will follow */
} mr_playlist;

/* Whether an answer that begins so is a playlist. */
bool mr_playlist_may_be(const char *text, size_t bytes);
/* Reads a playlist, and takes over `text`, `bytes` long, with room for one more byte; also on failure. `name` is for
 * messages. MR_ERROR_DATA, MR_ERROR_UNAVAILABLE (encrypted in another way, or with variables), MR_ERROR_MEMORY: then
 * there is nothing to free. */
int mr_playlist_parse(mr_playlist *list, const char *name, char *text, size_t bytes);
/* The variant to read: of those with a picture of at most max_pixels the one with the most pixels, of these the one
 * of the highest bandwidth; or number `wanted` of all if that is not negative. NULL with a message: there is none. */
const mr_variant *mr_playlist_choose(const mr_playlist *list, const char *name, int64_t max_pixels, int wanted);
void mr_playlist_fini(mr_playlist *list);

#endif
