/* DB: a map says of each pixel how surely it belongs to the shrunk middle of a line of text (Liao et al., "Real-time
 * Scene Text Detection with Differentiable Binarization", 2020).
 *
 * As in PaddleOCR's program: regions where the map exceeds a limit; the least rectangle around each, at any angle; the
 * map's mean in it is the score; the rectangle grows by area * unclip / perimeter, since lines were shrunk for training.
 * Regions inside the holes of others are regions too, holes are none. Coordinates are not rounded. */
#pragma once

#include "kernels/detect/detect.h"

/* Numbers of an object: the corners, x and y, clockwise. */
enum { MR_DB_NUMBERS = 8 };

/* Finds the lines. MR_ERROR_MEMORY. */
int mr_box_db_find(const mr_detect_work *work);
