/* Finds the picture in a HEIF file (ISO/IEC 23008-12; HEIC and AVIF are such files): its codec, bytes, size and
 * orientation. It reads only boxes and decodes nothing. Pure functions. The data is untrusted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stages/media/still/orientation.h"

typedef struct mr_heif {
    bool animated;          /* the first brand means a picture sequence */
    bool avif;              /* it is coded as AV1 */
    char type[5];           /* primary item's type: "av01", "hvc1", "grid", ... */
    bool parts;             /* it must be assembled or cropped: only libheif can do that */
    const uint8_t *data;    /* AV1 data for a picture that is not such; NULL: incomplete */
    size_t bytes;
    int32_t width, height;  /* as displayed; 0: not known */
    int depth, chroma_w, chroma_h; /* bits per sample, chroma halvings; depth 0: not known */
    bool gray;
    bool alpha;             /* another item has its alpha */
    mr_upright upright;     /* from the properties irot and imir */
} mr_heif;

/* Whether the file holds a still picture, and which. A complete file yields more fields. */
bool mr_heif_read(const uint8_t *data, size_t bytes, mr_heif *heif);
