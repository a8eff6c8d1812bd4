/* Maps a frame's pixels back to those of the source's picture.
 *
 * Coordinates are continuous: the pixel in column i and row j covers i to i + 1 and j to j + 1; the centre is half-way.
 * The source's picture is the whole stored one: in full size, before mirroring and rotation for display. Pixels need
 * not be square.
 *
 * decode begins a map, and preprocess continues it: region, fit, letterbox, rotation, aspect ratio, and the decoded
 * size of a JPEG. A frame without pixels, such as a network's output, keeps the map of the frame that it was made from:
 * the grid is the network's input. A joined frame has the first input's map, like the payload. Maps are plain values;
 * any thread may call the functions. */
#ifndef MILLRACE_GEOMETRY_H
#define MILLRACE_GEOMETRY_H

#include "millrace/export.h"
#include "millrace/format.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_geometry {
    double x[3], y[3];     /* A point in the source's picture: x[0] * column + x[1] * row + x[2]; y alike. */
    int32_t width, height; /* size of the frame's grid; 0: the map is not known */
    int32_t source_width, source_height;
    int16_t rotation;      /* for displaying the source's picture, as in mr_format */
    bool flip;
} mr_geometry;

/* Width and height of the displayed picture; 0, 0: not known. */
static inline void mr_geometry_display_size(const mr_geometry *geometry, double size[2]) {
    const int across = geometry->rotation % 180 != 0;
    size[across] = geometry->source_width;
    size[!across] = geometry->source_height;
}

/* The map of a source's picture, or of one that was decoded at a reduced size. */
MR_API mr_geometry mr_geometry_of(const mr_format *picture);
/* Joins two maps: `first` leads to the grid from which `next` continues. Not known if either is not known. */
MR_API mr_geometry mr_geometry_chain(const mr_geometry *first, const mr_geometry *next);
/* Finds the point in the source's picture. */
MR_API void mr_geometry_to_source(const mr_geometry *geometry, double column, double row, double point[2]);
/* Finds the point in the displayed picture: mirrored, then turned. */
MR_API void mr_geometry_to_display(const mr_geometry *geometry, double column, double row, double point[2]);
/* The inverse: finds the column and row of a point in the displayed picture. They may lie outside the grid. False: the
 * map is not known, or maps all to a line. */
MR_API bool mr_geometry_from_display(const mr_geometry *geometry, double x, double y, double place[2]);

#ifdef __cplusplus
}
#endif
#endif
