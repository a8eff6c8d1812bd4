/* Where an object that was found in a network's input is in the source's picture. Any thread. */
#pragma once

#include "kernels/detect/box_numbers.h"
#include "millrace/geometry.h"
#include "millrace/objects.h"

/* Sets the object's box, and its corners, key points or mask, from a candidate and its numbers (mr_found_numbers).
 * `way` leads from the network's input to the picture. Boxes are cut at the picture's edges. Without memory for items,
 * the object has none. Returns false if no part of it lies in the picture. */
bool mr_object_place(const mr_geometry *way, const mr_box_head *head, const mr_box *box, const float *numbers,
                     mr_result *result, mr_object *to);
