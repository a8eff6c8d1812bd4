/* Candidate objects: boxes in a network's output whose scores pass a limit. Non-maximum suppression keeps the best of
 * those that overlap.
 *
 * Candidates have a total order: higher score, then lower row, then lower class. Results do not depend on the order in
 * which candidates are added.
 *
 * Units: boxes in pixels of the network's input. Ownership: the caller owns all memory. Errors: none. Any thread; one
 * list belongs to one thread at a time. */
#pragma once

#include <stddef.h>

#include "kernels/detect/box.h"

/* A bounded list. When it is full, it keeps the better half, so it always has the best capacity / 2 candidates. */
typedef struct mr_boxes {
    mr_box *item;
    size_t count, capacity; /* capacity: at least 2 */
    uint64_t passed, odd;   /* number of candidates ever added, and of those skipped */
    float least;            /* at least this score is worth adding; -INFINITY until the list was full */
} mr_boxes;

/* Begins a list in `item`, which has room for `capacity` candidates. */
void mr_boxes_init(mr_boxes *list, mr_box *item, size_t capacity);
/* Adds a candidate. Skips boxes with a coordinate that is not finite. */
void mr_boxes_add(mr_boxes *list, const mr_box *candidate);

/* Sorts the list, best first. */
void mr_boxes_sort(mr_boxes *list);
/* Sorts the list, best first, and drops candidates that overlap a better one of the same class (agnostic: of any),
 * until `most` are found of which something lies within 0, 0 to width, height; the others are dropped too. Two boxes
 * overlap if the area of their intersection exceeds `overlap` times the area of their union. With INFINITY none do.
 * Equal to ONNX's NonMaxSuppression (opset 11) for finite boxes without an angle: boxes without area overlap none, and
 * right may be less than left. */
void mr_boxes_suppress(mr_boxes *list, float overlap, bool agnostic, size_t most, int32_t width, int32_t height);
