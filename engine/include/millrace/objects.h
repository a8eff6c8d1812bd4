/* The result kind `objects` (result.h): the objects that a detector found in a picture, with boxes.
 *
 * Boxes are in upright stored pixels of the source's picture: turned for display, in full size. Pixels need not be
 * square. They are continuous (geometry.h): a box around the pixel in column i reaches from i to i + 1. Boxes must lie
 * within the picture and have an area.
 *
 * Quadrilaterals and key points have the same coordinates.
 *
 * Objects are sorted by score, best first. A stage that changes objects gives the frame a new result
 * (mr_io_renew_objects); the newest one counts. Ownership, threads and errors: as for all results.
 *
 * Results may come from another node. Readers must not trust counts of items, or run lengths in masks, and texts may be
 * NULL. */
#ifndef MILLRACE_OBJECTS_H
#define MILLRACE_OBJECTS_H

#include "millrace/result.h"
#include "millrace/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An area in which an object is. */
typedef struct mr_object_zone {
    const char *zone;  /* the area's name; lives as long as the pipeline */
    double dwell;      /* seconds since it entered */
    const char *stage; /* id of the stage that watches the area; lives as long as the pipeline */
} mr_object_zone;

/* What another stage found about an object. */
typedef struct mr_object_attribute {
    const char *stage; /* id of the stage; lives as long as the pipeline */
    int32_t index;     /* number of the class */
    float score;
    const char *label; /* Optional. Lives as long as the pipeline. */
    mr_items text;     /* char: text that was read; none: the attribute is a class */
} mr_object_attribute;

typedef struct mr_object {
    float left, top, right, bottom;
    float score;
    int32_t index;     /* number of the class */
    const char *label; /* Optional. The stage's label for the class. Lives as long as the pipeline. */
    int64_t track;     /* number of the object's track in this source and epoch; 0: none, or not confirmed yet */
    int64_t number;    /* of the object in its frame, from 1; 0: none. Stages that filter or sort keep it. */
    int64_t parent;    /* the number of the object in which it was found; 0: none */
    mr_items quad;     /* 8 floats: corners x, y, clockwise from the upper left of what it shows; none: it is upright */
    mr_items points;   /* floats: x, y and score of each key point */
    mr_items mask;     /* int32_t: lengths of runs in the mask, row by row, first outside, then inside, in turn */
    int32_t mask_width, mask_height; /* the mask's size in cells; it is stretched over the box */
    mr_items zones;      /* mr_object_zone */
    float speed, distance; /* metres a second, and metres since its track began; 0: not known */
    mr_items attributes; /* mr_object_attribute */
} mr_object;

/* `objects`: elements are mr_object. */
MR_API const mr_result_kind *mr_kind_objects(void);
/* Adds a result to a frame that is not yet emitted: a copy of `from` with all items, and room for `extra` more objects
 * after the first `count`. `from` must be complete: its frame is an input of this call, and the stage does not work
 * through mr_io_stream. MR_ERROR_MEMORY. */
MR_API int mr_io_renew_objects(mr_io *io, mr_frame *frame, const mr_result *from, size_t extra, mr_result **to);

#ifdef __cplusplus
}
#endif
#endif
