/* Candidates in a network's output, written once: inline functions that compile as C and as CUDA, with the same results
 * bit for bit. */
#pragma once

#include <math.h>
#include <string.h>

#include "kernels/detect/box_head.h"
#include "kernels/detect/box_turned.h"
#include "kernels/pixel.h"

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* e to the power x, rounded to the nearest float nearly always. The libraries of processors and of devices differ in
 * the last bit. x = n ln 2 + r; ln 2 in two parts (Cody and Waite), then the series of exp. */
MR_PIXEL_INLINE double mr_box_exp(double x) {
    if (!(x < 700))
        return x > 0 ? (double)INFINITY : x;
    if (x < -700)
        return 0;
    const double n = floor(x * 1.4426950408889634 + 0.5);
    const double r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    double sum = 1;
    for (int i = 14; i > 0; i--)
        sum = 1 + sum * r / i;
    const uint64_t bits = (uint64_t)(1023 + (int64_t)n) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return sum * scale;
}

MR_PIXEL_INLINE float mr_box_sigmoid(float x) {
    return (float)(1 / (1 + mr_box_exp(-(double)x)));
}

MR_PIXEL_INLINE float mr_box_number(const void *const *data, const mr_box_head_view *view, int64_t row,
                                    int64_t column) {
    return ((const float *)data[view->output])[view->first + row * view->row + column * view->column];
}

/* -1: the number is no class. */
MR_PIXEL_INLINE int32_t mr_box_class(const mr_box_head *head, const void *const *data, int64_t row) {
    const mr_box_head_view *view = &head->class_numbers;
    const int64_t at = view->first + row * view->row;
    const double number = head->class_dtype == MR_DTYPE_I64   ? (double)((const int64_t *)data[view->output])[at]
                          : head->class_dtype == MR_DTYPE_I32 ? (double)((const int32_t *)data[view->output])[at]
                                                              : (double)((const float *)data[view->output])[at];
    return number >= 0 && number < MR_BOX_HEAD_MOST_CLASSES ? (int32_t)number : -1;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* The cell that a row belongs to: grids row by row. */
MR_PIXEL_INLINE void mr_box_leave_grid(const mr_box_head *head, int64_t row, float box[4]) {
    int64_t first = 0;
    for (int32_t stride = head->strides.first; stride <= head->strides.last; stride *= 2) {
        const int64_t columns = head->width / stride, cells = columns * (head->height / stride);
        if (row < first + cells) {
            box[0] = (box[0] + (float)((row - first) % columns)) * (float)stride;
            box[1] = (box[1] + (float)((row - first) / columns)) * (float)stride;
            box[2] = (float)mr_box_exp((double)box[2]) * (float)stride;
            box[3] = (float)mr_box_exp((double)box[3]) * (float)stride;
            return;
        }
        first += cells;
    }
}

MR_PIXEL_INLINE void mr_box_set(const mr_box_head *head, const float box[4], mr_box *to) {
    const bool top_first = head->order == MR_BOX_TLBR, centred = head->order == MR_BOX_CXCYWH;
    const float x = box[top_first ? 1 : 0], y = box[top_first ? 0 : 1], width = box[2], height = box[3];
    to->left = centred ? x - width / 2 : x;
    to->top = centred ? y - height / 2 : y;
    to->right = centred ? x + width / 2 : head->order == MR_BOX_LTWH ? x + width : box[top_first ? 3 : 2];
    to->bottom = centred ? y + height / 2 : head->order == MR_BOX_LTWH ? y + height : box[top_first ? 2 : 3];
    if (head->normalized) {
        to->left *= (float)head->width;
        to->right *= (float)head->width;
        to->top *= (float)head->height;
        to->bottom *= (float)head->height;
    }
}

/* CenterFace's outputs. */
enum { MR_CENTERFACE_HEAT, MR_CENTERFACE_SCALE, MR_CENTERFACE_OFFSET, MR_CENTERFACE_LANDMARKS };

/* Plane `plane` of an output, each of which has a plane for each number of a cell. */
MR_PIXEL_INLINE float mr_centerface_number(const mr_box_head *head, const void *const *data, int map, int64_t plane,
                                           int64_t row) {
    return ((const float *)data[head->maps[map]])[plane * head->rows + row];
}

/* Width for plane 1, height for plane 0. */
MR_PIXEL_INLINE float mr_centerface_size(const mr_box_head *head, const void *const *data, int64_t plane, int64_t row) {
    return (float)mr_box_exp((double)mr_centerface_number(head, data, MR_CENTERFACE_SCALE, plane, row)) *
           (float)MR_CENTERFACE_CELL;
}

MR_PIXEL_INLINE float mr_box_limited(float value, float most) {
    return fminf(fmaxf(value, 0), most);
}

MR_PIXEL_INLINE void mr_centerface_box(const mr_box_head *head, const void *const *data, int64_t row, mr_box *to) {
    const int64_t columns = head->width / MR_CENTERFACE_CELL;
    const float cell = (float)MR_CENTERFACE_CELL;
    const float height = mr_centerface_size(head, data, 0, row), width = mr_centerface_size(head, data, 1, row);
    const float y = ((float)(row / columns) + mr_centerface_number(head, data, MR_CENTERFACE_OFFSET, 0, row) + 0.5f) *
                    cell;
    const float x = ((float)(row % columns) + mr_centerface_number(head, data, MR_CENTERFACE_OFFSET, 1, row) + 0.5f) *
                    cell;
    to->left = mr_box_limited(x - width / 2, (float)head->width);
    to->top = mr_box_limited(y - height / 2, (float)head->height);
    to->right = fminf(to->left + width, (float)head->width);
    to->bottom = fminf(to->top + height, (float)head->height);
}

/* Sets the edges of the box in that row. */
MR_PIXEL_INLINE void mr_box_read(const mr_box_head *head, const void *const *data, int64_t row, mr_box *to) {
    to->angle = head->angle.output < 0 ? 0 : mr_box_number(data, &head->angle, row, 0);
    if (head->family == MR_BOX_HEAD_CENTERFACE) {
        mr_centerface_box(head, data, row, to);
        return;
    }
    float box[4];
    for (int64_t i = 0; i < 4; i++)
        box[i] = mr_box_number(data, &head->boxes, row, i);
    if (head->grid)
        mr_box_leave_grid(head, row, box);
    mr_box_set(head, box, to);
}

/* The score of a class of a box, or -INFINITY if its raw number does not exceed `limit` (mr_box_raw_limit). */
MR_PIXEL_INLINE float mr_box_score(const mr_box_head *head, const void *const *data, float limit, int64_t row,
                                   int64_t column) {
    const bool heat = head->family == MR_BOX_HEAD_CENTERFACE;
    const float raw = heat ? mr_centerface_number(head, data, MR_CENTERFACE_HEAT, 0, row)
                           : mr_box_number(data, &head->scores, row, column);
    const float present = heat || head->objectness.output < 0 ? 1 : mr_box_number(data, &head->objectness, row, 0);
    if (!(raw > limit) || (head->objectness.output >= 0 && !(present > limit)))
        return -INFINITY;
    return head->logits ? mr_box_sigmoid(raw) : present * raw;
}

/* Whether a number that the score is made of is NaN. */
MR_PIXEL_INLINE bool mr_box_score_is_nan(const mr_box_head *head, const void *const *data, int64_t row,
                                         int64_t column) {
    if (head->family == MR_BOX_HEAD_CENTERFACE)
        return isnan(mr_centerface_number(head, data, MR_CENTERFACE_HEAT, 0, row));
    return isnan(mr_box_number(data, &head->scores, row, column)) ||
           (head->objectness.output >= 0 && isnan(mr_box_number(data, &head->objectness, row, 0)));
}

/* ---- corners, key points and masks ------------------------------------------------------------------------------- */

MR_PIXEL_INLINE void mr_box_corner_numbers(const mr_box *candidate, float to[MR_BOX_CORNER_NUMBERS]) {
    double at[4][2];
    mr_box_corners(candidate, 0, 0, at);
    for (int i = 0; i < MR_BOX_CORNER_NUMBERS; i++)
        to[i] = (float)at[i / 2][i % 2];
}

/* Key point i of a candidate: x, y and score. */
MR_PIXEL_INLINE void mr_box_point(const mr_box_head *head, const void *const *data, const mr_box *candidate, int32_t i,
                                  float to[3]) {
    const int64_t row = candidate->row;
    if (head->family == MR_BOX_HEAD_CENTERFACE) {
        mr_box box;
        mr_centerface_box(head, data, row, &box);
        to[0] = mr_centerface_number(head, data, MR_CENTERFACE_LANDMARKS, 2 * i + 1, row) *
                    mr_centerface_size(head, data, 1, row) + box.left;
        to[1] = mr_centerface_number(head, data, MR_CENTERFACE_LANDMARKS, 2 * i, row) *
                    mr_centerface_size(head, data, 0, row) + box.top;
        to[2] = candidate->score; /* the face's */
        return;
    }
    to[0] = mr_box_number(data, &head->point, row, i * head->point_numbers);
    to[1] = mr_box_number(data, &head->point, row, i * head->point_numbers + 1);
    to[2] = head->point_numbers > 2 ? mr_box_number(data, &head->point, row, i * head->point_numbers + 2) : 1;
}

/* A candidate's box in cells of the prototypes: edges, and the columns and rows from which these are interpolated. */
typedef struct mr_mask_region {
    float left, top, right, bottom;
    int32_t first_column, first_row, columns, rows;
} mr_mask_region;

/* The first cell whose centre is at or before `from`, and how many there are up to the one after `to`. */
MR_PIXEL_INLINE int32_t mr_mask_span(float from, float to, int32_t cells, int32_t *count) {
    const int32_t first = (int32_t)fmaxf(floorf(from - 0.5f), 0);
    const int32_t last = (int32_t)fminf(ceilf(to - 0.5f), (float)(cells - 1));
    *count = last - first + 1;
    return first;
}

MR_PIXEL_INLINE mr_mask_region mr_mask_region_of(const mr_box_head *head, const mr_box *box) {
    const float wide = (float)head->mask_width, tall = (float)head->mask_height;
    const float across = wide / (float)head->width, down = tall / (float)head->height;
    mr_mask_region r;
    r.left = mr_box_limited(fminf(box->left, box->right) * across, wide);
    r.right = mr_box_limited(fmaxf(box->left, box->right) * across, wide);
    r.top = mr_box_limited(fminf(box->top, box->bottom) * down, tall);
    r.bottom = mr_box_limited(fmaxf(box->top, box->bottom) * down, tall);
    r.first_column = mr_mask_span(r.left, r.right, head->mask_width, &r.columns);
    r.first_row = mr_mask_span(r.top, r.bottom, head->mask_height, &r.rows);
    return r;
}

/* The number of a mask's cells in a direction. */
MR_PIXEL_INLINE int32_t mr_mask_cells(float from, float to, int32_t most) {
    const int32_t cells = (int32_t)ceilf(to - from);
    return cells < 1 ? 1 : cells > most ? most : cells;
}

/* Where cell (x, y) of a mask is interpolated: four cells of the region, and how far between these. */
typedef struct mr_mask_sample {
    int32_t left, top, right, below;
    float across, down;
} mr_mask_sample;

/* At the region's edge, the edge cell continues. */
MR_PIXEL_INLINE mr_mask_sample mr_mask_sample_at(const mr_mask_region *r, int32_t x, int32_t y, int32_t wide,
                                                 int32_t tall) {
    const float column = r->left + ((float)x + 0.5f) * ((r->right - r->left) / (float)wide) - 0.5f;
    const float row = r->top + ((float)y + 0.5f) * ((r->bottom - r->top) / (float)tall) - 0.5f;
    const float a = mr_box_limited(column - (float)r->first_column, (float)(r->columns - 1));
    const float b = mr_box_limited(row - (float)r->first_row, (float)(r->rows - 1));
    mr_mask_sample s;
    s.left = (int32_t)a;
    s.top = (int32_t)b;
    s.right = s.left + 1 < r->columns ? s.left + 1 : s.left;
    s.below = s.top + 1 < r->rows ? s.top + 1 : s.top;
    s.across = a - (float)s.left;
    s.down = b - (float)s.top;
    return s;
}

MR_PIXEL_INLINE float mr_mask_between(const mr_mask_sample *s, float upper_left, float upper_right, float lower_left,
                                      float lower_right) {
    return (upper_left * (1 - s->across) + upper_right * s->across) * (1 - s->down) +
           (lower_left * (1 - s->across) + lower_right * s->across) * s->down;
}
