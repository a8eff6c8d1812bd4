/* A candidate's box, and the overlap of two: inline functions that compile as C and as CUDA, with the same results bit
 * for bit. Boxes that are turned are in box_turned.h.
 *
 * Units: pixels of the network's input. Right may be less than left, and bottom less than top. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/pixel.h"

typedef struct mr_box {
    float left, top, right, bottom;
    float score;
    int32_t class_index;
    int32_t row; /* position among the network's boxes */
    float angle; /* turns the box around its centre, clockwise, in radians */
} mr_box;

/* Of finite numbers; a processor has instructions for these, but not for fminf and fmaxf. */
MR_PIXEL_INLINE float mr_box_less(float a, float b) {
    return a < b ? a : b;
}

MR_PIXEL_INLINE float mr_box_more(float a, float b) {
    return a > b ? a : b;
}

/* Whether all its numbers are, the score too: an infinite one says nothing, and JSON cannot hold it. */
MR_PIXEL_INLINE bool mr_box_is_finite(const mr_box *box) {
    return isfinite(box->left) && isfinite(box->top) && isfinite(box->right) && isfinite(box->bottom) &&
           isfinite(box->angle) && isfinite(box->score);
}

MR_PIXEL_INLINE float mr_box_area(const mr_box *box) {
    return fabsf(box->right - box->left) * fabsf(box->bottom - box->top);
}

/* Whether the area of the intersection exceeds `overlap` times the area of the union. In the order of operations of
 * ONNX Runtime's NonMaxSuppression, so that results are the same bit for bit. */
MR_PIXEL_INLINE bool mr_box_overlaps(const mr_box *a, const mr_box *b, float overlap) {
    const float left = mr_box_more(mr_box_less(a->left, a->right), mr_box_less(b->left, b->right));
    const float right = mr_box_less(mr_box_more(a->left, a->right), mr_box_more(b->left, b->right));
    const float top = mr_box_more(mr_box_less(a->top, a->bottom), mr_box_less(b->top, b->bottom));
    const float bottom = mr_box_less(mr_box_more(a->top, a->bottom), mr_box_more(b->top, b->bottom));
    if (right <= left || bottom <= top)
        return false;
    const float shared = (right - left) * (bottom - top), first = mr_box_area(a), second = mr_box_area(b);
    const float both = first + second - shared;
    return shared > 0 && first > 0 && second > 0 && both > 0 && shared / both > overlap;
}

/* Whether something of it lies within 0, 0 to width, height. */
MR_PIXEL_INLINE bool mr_box_is_inside(const mr_box *box, int32_t width, int32_t height) {
    const float left = mr_box_more(mr_box_less(box->left, box->right), 0);
    const float top = mr_box_more(mr_box_less(box->top, box->bottom), 0);
    return mr_box_less(mr_box_more(box->left, box->right), (float)width) > left &&
           mr_box_less(mr_box_more(box->top, box->bottom), (float)height) > top;
}
