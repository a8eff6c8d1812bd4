/* The picture in a file of HEIF (ISO/IEC 23008-12), which HEIC and AVIF are: what codes it, its bytes, its size and its
 * orientation. Reads boxes alone, and decodes nothing. Pure functions; nothing in the bytes is trusted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stages/media/still/orientation.h"

typedef struct mr_heif {
    bool animated;          /* its first brand is that of a sequence of pictures */
    bool avif;              /* it is coded as AV1 */
    char type[5];           /* of its primary item: "av01", "hvc1", "grid", ... */
    bool parts;             /* it has to be put together or cropped: only libheif gives it */
    const uint8_t *data;    /* of AV1 that is no such picture; NULL: not all of it is there */
    size_t bytes;
    int32_t width, height;  /* as displayed; 0: not known */
    int depth, chroma_w, chroma_h; /* bits of a sample, and halvings of chroma; depth 0: not known */
    bool gray;
    mr_upright upright;     /* by its properties irot and imir */
} mr_heif;

/* Whether the file is one with a still picture, and what it is. More fields are known of a file of which all is there.
 */
bool mr_heif_read(const uint8_t *data, size_t bytes, mr_heif *heif);
