/* An object's numbers besides its box: corners, key points or a mask. A head says which (mr_box_head.kind). */
#pragma once

#include "kernels/detect/box_head.h"

/* The numbers of MR_BOX_MASK: cells over the box, one bit each, row by row from the lowest bit of the first word. The
 * box is that of the candidate, cut at the input's edges. */
typedef struct mr_box_mask {
    int32_t width, height;
    uint32_t bits[];
} mr_box_mask;

/* Writes head->numbers numbers for a candidate; not for DB, which finds corners together with boxes. Uses the thread's
 * scratch memory. MR_ERROR_MEMORY. */
int mr_box_numbers(const mr_box_head *head, const void *const *data, const mr_box *candidate, float *numbers);
/* How many numbers a mask takes: at most the prototypes' cells. */
int32_t mr_box_mask_numbers(const mr_box_head *head);
