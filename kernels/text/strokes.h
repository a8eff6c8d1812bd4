/* Whether a narrow picture shows one upright character, such as I, l, 1, i or !, or several, one above the other.
 * Letters of a word that was turned stand apart: there is paper between them.
 *
 * Light is compared with that of the picture's edge, which is taken for paper. Pixels that differ from it by more than
 * half of the largest difference are ink. One piece of ink from top to bottom is a character; so are two if one is as
 * small as the dot of an i. If the edge has ink too (a pattern, or a letter that was cut), or the picture is empty, it
 * is not known: false.
 *
 * Any pixel layout. Pure functions: any thread, no errors. */
#pragma once

#include <stdbool.h>

#include "kernels/plane/plane.h"
#include "millrace/format.h"
#include "millrace/frame.h"

/* `map` leads from a picture with this size to the pixels of `format`; both are continuous (millrace/geometry.h). */
bool mr_strokes_are_one(const mr_plane_map *map, double width, double height, const mr_format *format,
                        const mr_plane *plane);
