/* Quadrilaterals of objects, such as lines of text. Any thread. Errors: none. */
#pragma once

#include "millrace/geometry.h"
#include "millrace/objects.h"

enum { MR_QUAD_NUMBERS = 8 };

/* Maps corners (x, y, in a frame's pixels) to the source's picture as it is shown, cut at its edges, and the object's
 * box around them. They are put in order: clockwise from the upper left one, which is the upper one of the two at the
 * left, as in PaddleOCR. Where the cut leaves no convex quadrilateral, they are those of the box. Returns false if a
 * side has at most 3 pixels, or the box no area. */
bool mr_quad_place(const mr_geometry *way, const float corner[MR_QUAD_NUMBERS], mr_object *object,
                   float quad[MR_QUAD_NUMBERS]);
