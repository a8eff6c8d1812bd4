/* DB: a map says of each pixel how surely it belongs to the shrunk middle of a line of text (Liao et al., "Real-time
 * Scene Text Detection with Differentiable Binarization", 2020).
 *
 * As in PaddleOCR's program: regions where the map exceeds a limit; the least rectangle around each, at any angle; the
 * map's mean in it is the score; the rectangle grows by area * unclip / perimeter, since lines were shrunk for
 * training. Unlike there, it may not grow into the next one on its line (mr_rectangle_grow_apart): a word's picture
 * would show the next word's first letter. Regions inside the holes of others are regions too, holes are none.
 * Coordinates are not rounded. */
#pragma once

#include "kernels/detect/box_head.h"

/* The best lines. The caller sets sizes and arrays, with room for `most`. */
typedef struct mr_db_lines {
    int32_t width, height; /* the map's */
    int32_t most, count;
    bool cut;      /* there were more */
    mr_box *item;
    float *corner; /* MR_BOX_CORNER_NUMBERS for each line: x and y, clockwise */
} mr_db_lines;

/* Finds the lines with a higher score in a map. MR_ERROR_MEMORY. */
int mr_box_db_find(const mr_box_head *head, const float *map, float score, mr_db_lines *lines);
