/* Quadrilaterals of objects, such as lines of text. Any thread. Errors: none. */
#pragma once

#include "millrace/geometry.h"
#include "millrace/objects.h"

enum { MR_QUAD_NUMBERS = 8 };

/* Maps corners (x, y, in a frame's pixels) to the source's picture as it is shown, and the object's box around them,
 * cut at its edges. They are put in order: clockwise from the upper left one, which is the upper one of the two at the
 * left, as in PaddleOCR. Returns false if the box has no area.
 *
 * The corners of a line of text are also cut at the edges; where that leaves no convex quadrilateral, they are those of
 * the box. Lines with a side of at most 3 pixels are no lines: false. */
bool mr_quad_place(const mr_geometry *way, bool line, const float corner[MR_QUAD_NUMBERS], mr_object *object,
                   float quad[MR_QUAD_NUMBERS]);
