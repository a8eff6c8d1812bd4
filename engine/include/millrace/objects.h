/* The result kind `objects` (result.h): the objects that a detector found in a picture, with boxes.
 *
 * Boxes are in upright stored pixels of the source's picture: turned for display, in full size. Pixels need not be
 * square. They are continuous (geometry.h): a box around the pixel in column i reaches from i to i + 1. Boxes must lie
 * within the picture and have an area.
 *
 * Objects are sorted by score, best first. Ownership, threads and errors: as for all results. */
#ifndef MILLRACE_OBJECTS_H
#define MILLRACE_OBJECTS_H

#include "millrace/result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_object {
    float left, top, right, bottom;
    float score;
    int32_t index;     /* number of the class */
    const char *label; /* Optional. The stage's label for the class. Lives as long as the pipeline. */
    int64_t track;     /* number of the object's track in this source and epoch; 0: none, or not confirmed yet */
} mr_object;

/* `objects`: elements are mr_object. */
MR_API const mr_result_kind *mr_kind_objects(void);

#ifdef __cplusplus
}
#endif
#endif
