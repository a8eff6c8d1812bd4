/* The way from the pixels of a frame back to those of the source's picture.
 *
 * Coordinates are continuous: the pixel in column i and row j covers i to i + 1 and j to j + 1, and its centre is at
 * i + 0.5, j + 0.5. The source's picture is the whole one as it is stored: full size, before it is mirrored and turned
 * for display, with its pixels as they are, even if they are not square.
 *
 * decode begins a map, and preprocess continues it: region, fit, letterbox, rotation, aspect ratio, and the size at
 * which a JPEG was decoded. A frame without pixels, such as the output of a network, keeps the map of the frame that it
 * was made from: its grid is the network's input. A joined frame has the map of its first input, as its payload. Plain
 * values; any thread may call the functions. */
#ifndef MILLRACE_GEOMETRY_H
#define MILLRACE_GEOMETRY_H

#include "millrace/export.h"
#include "millrace/format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_geometry {
    double x[3], y[3];     /* A point in the source's picture: x[0] * column + x[1] * row + x[2]; y alike. */
    int32_t width, height; /* the pixels from which the map leads; 0: the map is not known */
    int32_t source_width, source_height;
    int16_t rotation;      /* how the source's picture is displayed, as in mr_format */
    bool flip;
} mr_geometry;

/* The map of a source's picture, or of one that was decoded at a reduced size. */
MR_API mr_geometry mr_geometry_of(const mr_format *picture);
/* The map through two steps: `first` leads to the pixels from which `next` leads on. Not known if either is not. */
MR_API mr_geometry mr_geometry_chain(const mr_geometry *first, const mr_geometry *next);
/* The point in the source's picture. */
MR_API void mr_geometry_to_source(const mr_geometry *geometry, double column, double row, double point[2]);
/* The point in the source's picture as it is displayed: mirrored, then turned. */
MR_API void mr_geometry_to_display(const mr_geometry *geometry, double column, double row, double point[2]);

#ifdef __cplusplus
}
#endif
#endif
