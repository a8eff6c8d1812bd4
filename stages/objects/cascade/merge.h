/* Objects from overlapping parts of a picture (tile): an object that was found in several stays once. Any thread. */
#pragma once

#include "millrace/objects.h"

/* Objects from two parts are one if their intersection exceeds `iou` times their union. A box that ends where its part
 * ends is cut; it goes if its share `inside` lies in a kept one, because the rest of the object is there. So whole
 * small objects in front of large ones stay. */
typedef struct mr_merge_limits {
    double iou, inside;
} mr_merge_limits;

/* Sets kept[i] for the objects that stay. Each object's parent is the number of its part. Only objects with the same
 * class are compared. MR_ERROR_MEMORY. */
int mr_merge_parts(const mr_object *parts, size_t part_count, const mr_object *found, size_t count,
                   const mr_merge_limits *limits, bool *kept);
