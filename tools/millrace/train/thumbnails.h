/* Small pictures for a page: from a video, the picture shown at a time; from a picture file, the picture. A separate
 * pipeline decodes them. Main thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MR_THUMBNAIL_SIDE = 128, MR_THUMBNAIL_BYTES = MR_THUMBNAIL_SIDE * MR_THUMBNAIL_SIDE * 3 };

typedef struct mr_thumbnail {
    /* set by the caller */
    const char *path; /* NULL: none is wanted */
    bool video;
    int64_t at_ns; /* from the video's start; 0 if the file is a picture */
    /* set by mr_thumbnails_make: rows from the top, pixels as blue, green and red, upright; unused area is white. The
     * caller must free it; NULL: the picture cannot be decoded */
    uint8_t *pixels;
} mr_thumbnail;

/* `stream`: video stream index as in a source; -1: the best. Returns MR_OK even if pictures are damaged;
 * MR_ERROR_CANCELLED if mr_stop_asked; MR_ERROR_IO, MR_ERROR_MEMORY. The caller must free the pictures in any case. */
int mr_thumbnails_make(mr_thumbnail *thumbnail, size_t count, int64_t stream);
