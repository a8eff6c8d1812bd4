/* Rectangles at any angle.
 *
 * Coordinates are continuous, with the y axis down. Ownership: plain values. Errors: none. Any thread. */
#pragma once

#include "kernels/text/regions.h"

typedef struct mr_rectangle {
    mr_point middle, along; /* along: unit vector of the sides with length `length` */
    double length, breadth; /* sides */
} mr_rectangle;

/* The rectangle with the least area around a convex polygon; one of its sides lies on one of the polygon's (Freeman and
 * Shapira, 1975). Of equal ones, the first. */
mr_rectangle mr_rectangle_around(const mr_point *hull, size_t count);
/* Moves all sides outwards. */
void mr_rectangle_grow(mr_rectangle *rectangle, double distance);
/* A rectangle, and how far it grows. */
typedef struct mr_growth {
    mr_rectangle from;
    double by;
} mr_growth;

/* Grows a rectangle, but not past the middle between it and one that lies beside it on its line, both before they grow.
 * Beside: it begins where this one ends, along the longer side of one of them; grown, they share half of the lesser
 * one's extent across that. `others` may include `one` itself. */
mr_rectangle mr_rectangle_grow_apart(const mr_growth *one, const mr_growth *others, size_t count);
/* The corners, clockwise as seen. */
void mr_rectangle_corners(const mr_rectangle *rectangle, float corner[8]);
/* The mean of a map, limited to 0..1, over a rectangle whose corners are rounded down to pixels. What is no number
 * counts as 0. */
double mr_rectangle_mean(const mr_rectangle *rectangle, const float *map, int32_t width, int32_t height);
