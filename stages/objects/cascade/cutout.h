/* Which pixels of a picture belong to an object, and frames that show only these.
 *
 * The box is grown, mapped to the picture's pixels, and enlarged to whole pixels: left and top are rounded down, right
 * and bottom up. Then it is clipped to the picture. Where chroma samples belong to two columns or rows, it is enlarged
 * to whole chroma samples, so that the region is a picture of its own in the same memory. */
#pragma once

#include "millrace/frame.h"
#include "millrace/objects.h"
#include "millrace/stage.h"

typedef struct mr_cutout {
    int32_t left, top, right, bottom; /* pixels; right and bottom are outside */
} mr_cutout;

/* `expand`: the share of the box's width, or height, by which each side moves out. False: the region has no pixel. */
bool mr_cutout_of(const mr_frame *picture, const mr_object *object, double expand, mr_cutout *region);
/* Makes a frame that shares the picture's memory show the region only. Its geometry leads to the same source. */
void mr_cutout_show(const mr_frame *picture, const mr_cutout *region, mr_frame *frame);
/* Makes a frame that shows the region, number `number` of those of the picture's frame. `own` has room for the object
 * to which it belongs. The caller fills that in, and emits the frame. MR_ERROR_MEMORY. */
int mr_cutout_make(mr_io *io, const mr_frame *picture, const mr_cutout *region, uint32_t number, mr_frame **frame,
                   mr_result **own);
/* For planning: the output's pictures are parts of the input's. */
void mr_cutout_plan(mr_negotiation *n);
