/* CenterFace: a heat map, and for each cell the size of the face, the offset of its centre, and five landmarks (Xu et
 * al., "CenterFace: Joint Face Detection and Alignment Using Face as Point", 2019). A cell has 4 x 4 pixels.
 *
 * As in the authors' program, left and top are clipped to the input before the size is added, and landmarks are
 * relative to that corner. */
#pragma once

#include "kernels/detect/box_head.h"

enum { MR_CENTERFACE_CELL = 4, MR_CENTERFACE_POINTS = 5 };

void mr_box_centerface_decode(const mr_box_head *head, const void *const *data, float score, mr_boxes *candidates);
/* The landmarks of a candidate: x, y and score of each. */
void mr_box_centerface_points(const mr_box_head *head, const void *const *data, const mr_box *candidate, float *to);
