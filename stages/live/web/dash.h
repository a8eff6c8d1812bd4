/* Manifests of DASH (ISO/IEC 23009-1, MPD) as playlists of HLS (RFC 8216), which libavformat reads: one video of one
 * period, its header (#EXT-X-MAP) and its segments, by templates with a timeline or a duration, by lists, or as one
 * file. libavformat's own reader of manifests is not used: it opens segments without asking for leave, asks for those
 * that are still to come without a pause, and takes down tables of libxml2 (xmlCleanupParser) that other threads use.
 *
 * Nothing in a manifest is trusted. A document of more than MR_DASH_MOST_BYTES, 250,000 elements, or 4,000 attributes
 * of one of them is not taken for a manifest. One thread uses an mr_dash. */
#ifndef MILLRACE_STAGES_LIVE_WEB_DASH_H
#define MILLRACE_STAGES_LIVE_WEB_DASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_DASH_MOST_BYTES = 4 << 20 }; /* of a manifest */

/* Facts of one manifest of a stream that the next one needs; a zeroed one has none. */
typedef struct mr_dash {
    bool begun;
    int64_t last_ns;  /* the last segment's time in the presentation */
    uint64_t number;  /* and its number in the playlist */
    char *header;     /* the line that was given; NULL: none was */
} mr_dash;

typedef struct mr_dash_params {
    const char *url;    /* of the manifest, maybe with user and password: most of those in it are relative to that */
    const char *name;   /* the same without them, for messages */
    int64_t date_ns;    /* now, since 1970 */
    int64_t max_pixels; /* of several videos the one of the highest rate is taken that has no more */
    int stream;         /* the video of that number; -1: as above */
} mr_dash_params;

/* Whether a document may be a manifest: it begins as XML does. */
bool mr_dash_may_be(const uint8_t *text, size_t bytes);
/* The playlist of a manifest, to be freed by mr_free; NULL without an error: the document is none. MR_ERROR_DATA,
 * MR_ERROR_UNAVAILABLE (encrypted), MR_ERROR_IO (a live stream that has no segment yet, or goes on with another header:
 * it is to be opened anew), MR_ERROR_MEMORY. */
int mr_dash_to_hls(mr_dash *dash, const mr_dash_params *params, const char *text, size_t bytes, char **playlist);
void mr_dash_fini(mr_dash *dash);

#endif
