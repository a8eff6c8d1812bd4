/* Playlists of HLS (RFC 8216): text in, variants or segments out. Pure functions; any thread.
 *
 * A playlist is untrusted. It is refused as a whole if it has a non-HTTP address (file:, data:, concat:, ...),
 * characters that a request cannot have, numbers out of range, or more segments or variants than allowed below. Unknown
 * tags must be ignored, as the RFC requires. That includes low-latency HLS tags: its parts arrive as whole segments. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MR_PLAYLIST_MOST_BYTES = 8 << 20,
    MR_PLAYLIST_MOST_SEGMENTS = 100000,
    MR_PLAYLIST_MOST_VARIANTS = 1000,
    MR_PLAYLIST_MOST_ADDRESS = 3000, /* address length in bytes */
    MR_PLAYLIST_IV = 16
};

/* One rendition in a master playlist. */
typedef struct mr_variant {
    const char *uri;
    int64_t bandwidth;     /* bits a second; 0: not known */
    int64_t width, height; /* 0: not known */
    bool sound_only;
} mr_variant;

/* AES-128 in CBC mode. Without an IV, the segment's number serves. */
typedef struct mr_segment_key {
    const char *uri;
    bool has_iv;
    uint8_t iv[MR_PLAYLIST_IV];
} mr_segment_key;

/* `bytes` starting at `first`; bytes 0: all. */
typedef struct mr_segment_map {
    const char *uri;
    int64_t first, bytes;
    uint32_t key; /* as for a segment */
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
    char *text; /* holds the strings */
    mr_variant *variants;
    size_t variant_count; /* 0: it has segments */
    mr_segment *segments;
    mr_segment_key *keys;
    mr_segment_map *maps;
    size_t count, key_count, map_count;
    int64_t sequence; /* first segment's number; hls_position.h may change the server's */
    int64_t stated;   /* number from which IVs are made */
    bool unnumbered;  /* the server gave none, or 0 (hls_position.h) */
    int64_t target_ns; /* roughly the longest segment duration; above 0 */
    int64_t discontinuities; /* before the first segment; -1: not counted by the server */
    bool ended; /* no more segments will follow */
} mr_playlist;

/* Whether the answer begins like a playlist. */
bool mr_playlist_may_be(const char *text, size_t bytes);
/* Parses a playlist. Takes ownership of `text` (`bytes` long, with room for one more byte), also on failure. `name` is
 * for messages. MR_ERROR_DATA, MR_ERROR_UNAVAILABLE (other encryption, or variables), MR_ERROR_MEMORY: nothing must
 * then be freed. */
int mr_playlist_parse(mr_playlist *list, const char *name, char *text, size_t bytes);
/* Chooses a variant. The candidates have pictures within max_pixels; most pixels win, then the highest bandwidth. If
 * `wanted` is not negative, it is the number of the variant. NULL with a message: there is none. */
const mr_variant *mr_playlist_choose(const mr_playlist *list, const char *name, int64_t max_pixels, int wanted);
void mr_playlist_fini(mr_playlist *list);
