/* Boxes that may be turned: inline functions that compile as C and as CUDA, with the same results bit for bit.
 *
 * Units: pixels of the network's input, y downwards; angles in radians, clockwise. */
#pragma once

#include "kernels/detect/box.h"

/* The angle's cosine and sine. The libraries of processors and of devices differ in the last bit: x = n pi/2 + r, pi/2
 * in two parts (Cody and Waite), then the series. Angles beyond 1e6 count as 0. */
MR_PIXEL_INLINE void mr_box_turn(float angle, double *cosine, double *sine) {
    const double x = fabsf(angle) < 1e6f ? (double)angle : 0, n = floor(x * 0.63661977236758134 + 0.5);
    const double r = (x - n * 1.57079632673412561417e+00) - n * 6.07710050650619224932e-11;
    double c = 1, s = 1;
    for (int i = 16; i > 0; i -= 2) {
        c = 1 - c * r * r / (i * (i - 1));
        s = 1 - s * r * r / (i * (i + 1));
    }
    s *= r;
    const int quarter = (int)((int64_t)n & 3);
    *cosine = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s;
    *sine = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
}

/* The corners, clockwise, relative to (x, y). */
MR_PIXEL_INLINE void mr_box_corners(const mr_box *box, double x, double y, double to[4][2]) {
    const double middle = ((double)box->left + (double)box->right) / 2 - x;
    const double centre = ((double)box->top + (double)box->bottom) / 2 - y;
    const double across = fabs((double)box->right - (double)box->left) / 2;
    const double down = fabs((double)box->bottom - (double)box->top) / 2;
    double c, s;
    mr_box_turn(box->angle, &c, &s);
    for (int i = 0; i < 4; i++) {
        const double a = i == 0 || i == 3 ? -across : across, b = i < 2 ? -down : down;
        to[i][0] = middle + a * c - b * s;
        to[i][1] = centre + a * s + b * c;
    }
}

enum { MR_BOX_MOST_CORNERS = 8 }; /* of the area that two boxes share */

/* Cuts off all that exceeds `limit` along an axis (0: x), in the direction of `sign`. Returns how many corners are left
 * (Sutherland and Hodgman). */
MR_PIXEL_INLINE int mr_box_cut(double at[MR_BOX_MOST_CORNERS][2], int count, int axis, double sign, double limit) {
    double kept[MR_BOX_MOST_CORNERS][2];
    int left = 0;
    for (int i = 0; i < count; i++) {
        const double *a = at[i], *b = at[i + 1 < count ? i + 1 : 0];
        const double inside = limit - sign * a[axis], next = limit - sign * b[axis], share = inside / (inside - next);
        if (inside >= 0 && left < MR_BOX_MOST_CORNERS) {
            kept[left][0] = a[0];
            kept[left++][1] = a[1];
        }
        if ((inside > 0 && next < 0) || (inside < 0 && next > 0))
            if (left < MR_BOX_MOST_CORNERS) {
                kept[left][0] = a[0] + share * (b[0] - a[0]);
                kept[left++][1] = a[1] + share * (b[1] - a[1]);
            }
    }
    for (int i = 0; i < left; i++) {
        at[i][0] = kept[i][0];
        at[i][1] = kept[i][1];
    }
    return left;
}

/* Whether the area of the intersection exceeds `overlap` times the area of the union. */
MR_PIXEL_INLINE bool mr_box_turned_overlaps(const mr_box *a, const mr_box *b, float overlap) {
    const double across = fabs((double)a->right - (double)a->left) / 2;
    const double down = fabs((double)a->bottom - (double)a->top) / 2;
    double c, s, at[MR_BOX_MOST_CORNERS][2], shared = 0;
    /* b, where a is upright around 0, 0 */
    mr_box_corners(b, ((double)a->left + (double)a->right) / 2, ((double)a->top + (double)a->bottom) / 2, at);
    mr_box_turn(a->angle, &c, &s);
    for (int i = 0; i < 4; i++) {
        const double x = at[i][0] * c + at[i][1] * s, y = at[i][1] * c - at[i][0] * s;
        at[i][0] = x;
        at[i][1] = y;
    }
    int count = mr_box_cut(at, 4, 0, 1, across);
    count = mr_box_cut(at, count, 0, -1, across);
    count = mr_box_cut(at, count, 1, 1, down);
    count = mr_box_cut(at, count, 1, -1, down);
    for (int i = 0; i < count; i++) {
        const double *p = at[i], *q = at[i + 1 < count ? i + 1 : 0];
        shared += (p[0] * q[1] - p[1] * q[0]) / 2;
    }
    const double both = (double)mr_box_area(a) + (double)mr_box_area(b) - shared;
    return shared > 0 && both > 0 && shared / both > (double)overlap;
}

/* As mr_box_overlaps, and as mr_box_is_inside, for boxes that may be turned. */
MR_PIXEL_INLINE bool mr_box_any_overlaps(const mr_box *a, const mr_box *b, float overlap) {
    return a->angle == 0 && b->angle == 0 ? mr_box_overlaps(a, b, overlap) : mr_box_turned_overlaps(a, b, overlap);
}

MR_PIXEL_INLINE bool mr_box_any_is_inside(const mr_box *box, int32_t width, int32_t height) {
    double at[4][2];
    mr_box around = *box;
    if (box->angle == 0)
        return mr_box_is_inside(box, width, height);
    mr_box_corners(box, 0, 0, at);
    around.left = around.right = (float)at[0][0];
    around.top = around.bottom = (float)at[0][1];
    for (int i = 1; i < 4; i++) {
        around.left = mr_box_less(around.left, (float)at[i][0]);
        around.right = mr_box_more(around.right, (float)at[i][0]);
        around.top = mr_box_less(around.top, (float)at[i][1]);
        around.bottom = mr_box_more(around.bottom, (float)at[i][1]);
    }
    return mr_box_is_inside(&around, width, height);
}
