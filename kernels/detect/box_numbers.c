#include "kernels/detect/box_numbers.h"

#include <math.h>
#include <string.h>

#include "kernels/detect/box_centerface.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

/* ---- key points -------------------------------------------------------------------------------------------------- */

static void read_points(const mr_box_head *head, const void *const *data, const mr_box *candidate, float *to) {
    const mr_box_head_view *view = &head->point;
    const float *values = (const float *)data[view->output] + view->first + candidate->row * view->row;
    for (int32_t i = 0; i < head->points; i++, values += head->point_numbers * view->column) {
        *to++ = values[0];
        *to++ = values[view->column];
        *to++ = head->point_numbers > 2 ? values[2 * view->column] : 1;
    }
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

/* A box in cells of the prototypes: edges, and the columns and rows from which these are interpolated. */
typedef struct region {
    float left, top, right, bottom;
    int32_t first_column, first_row, columns, rows;
} region;

static float limited(float value, float most) {
    return fminf(fmaxf(value, 0), most);
}

/* The first cell whose centre is at or before `from`, and how many there are up to the one after `to`. */
static int32_t span(float from, float to, int32_t cells, int32_t *count) {
    const int32_t first = (int32_t)fmaxf(floorf(from - 0.5f), 0);
    const int32_t last = (int32_t)fminf(ceilf(to - 0.5f), (float)(cells - 1));
    *count = last - first + 1;
    return first;
}

static region region_of(const mr_box_head *head, const mr_box *box) {
    const float across = (float)head->mask_width / (float)head->width, down = (float)head->mask_height /
                                                                              (float)head->height;
    region r = {.left = limited(fminf(box->left, box->right) * across, (float)head->mask_width),
                .right = limited(fmaxf(box->left, box->right) * across, (float)head->mask_width),
                .top = limited(fminf(box->top, box->bottom) * down, (float)head->mask_height),
                .bottom = limited(fmaxf(box->top, box->bottom) * down, (float)head->mask_height)};
    r.first_column = span(r.left, r.right, head->mask_width, &r.columns);
    r.first_row = span(r.top, r.bottom, head->mask_height, &r.rows);
    return r;
}

/* Adds up the region's prototypes: logits of its cells, row by row. */
static void sum_prototypes(const mr_box_head *head, const void *const *data, const mr_box *candidate, const region *r,
                           float *logits) {
    const mr_box_head_view *view = &head->coefficient;
    const float *coefficients = (const float *)data[view->output] + view->first + candidate->row * view->row;
    const size_t plane = (size_t)head->mask_width * (size_t)head->mask_height;
    memset(logits, 0, (size_t)r->columns * (size_t)r->rows * sizeof *logits);
    for (int32_t i = 0; i < head->coefficients; i++) {
        const float factor = coefficients[i * view->column];
        const float *from = (const float *)data[head->prototypes] + (size_t)i * plane +
                            (size_t)r->first_row * (size_t)head->mask_width + (size_t)r->first_column;
        for (int32_t y = 0; y < r->rows; y++, from += head->mask_width)
            for (int32_t x = 0; x < r->columns; x++)
                logits[y * r->columns + x] += factor * from[x];
    }
}

/* Interpolates between the centres of cells; at the region's edge, the edge cell continues. */
static float logit_at(const region *r, const float *logits, float x, float y) {
    x = fminf(fmaxf(x - 0.5f - (float)r->first_column, 0), (float)(r->columns - 1));
    y = fminf(fmaxf(y - 0.5f - (float)r->first_row, 0), (float)(r->rows - 1));
    const int32_t left = (int32_t)x, top = (int32_t)y;
    const int32_t right = left + 1 < r->columns ? left + 1 : left, below = top + 1 < r->rows ? top + 1 : top;
    const float across = x - (float)left, down = y - (float)top;
    const float *upper = logits + top * r->columns, *lower = logits + below * r->columns;
    return (upper[left] * (1 - across) + upper[right] * across) * (1 - down) +
           (lower[left] * (1 - across) + lower[right] * across) * down;
}

static int32_t cells_in(float from, float to, int32_t most) {
    const int32_t cells = (int32_t)ceilf(to - from);
    return cells < 1 ? 1 : cells > most ? most : cells;
}

/* A cell is inside if its logit is above 0: the sigmoid is above a half. */
static int make_mask(const mr_box_head *head, const void *const *data, const mr_box *candidate, mr_box_mask *mask) {
    const region r = region_of(head, candidate);
    float *logits = mr_scratch((size_t)head->mask_width * (size_t)head->mask_height * sizeof *logits);
    if (!logits)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory for a mask");
    sum_prototypes(head, data, candidate, &r, logits);
    mask->width = cells_in(r.left, r.right, head->mask_width);
    mask->height = cells_in(r.top, r.bottom, head->mask_height);
    memset(mask->bits, 0, ((size_t)mask->width * (size_t)mask->height + 31) / 32 * sizeof *mask->bits);
    const float across = (r.right - r.left) / (float)mask->width, down = (r.bottom - r.top) / (float)mask->height;
    for (int32_t y = 0, bit = 0; y < mask->height; y++)
        for (int32_t x = 0; x < mask->width; x++, bit++)
            if (logit_at(&r, logits, r.left + ((float)x + 0.5f) * across, r.top + ((float)y + 0.5f) * down) > 0)
                mask->bits[bit / 32] |= 1u << bit % 32;
    return MR_OK;
}

int32_t mr_box_mask_numbers(const mr_box_head *head) {
    return (int32_t)(sizeof(mr_box_mask) / sizeof(float)) + (head->mask_width * head->mask_height + 31) / 32;
}

/* ------------------------------------------------------------------------------------------------------------------ */

int mr_box_numbers(const mr_box_head *head, const void *const *data, const mr_box *candidate, float *numbers) {
    if (head->kind == MR_BOX_MASK)
        return make_mask(head, data, candidate, (mr_box_mask *)(void *)numbers);
    if (head->family == MR_BOX_HEAD_CENTERFACE)
        mr_box_centerface_points(head, data, candidate, numbers);
    else if (head->kind == MR_BOX_POINTS)
        read_points(head, data, candidate, numbers);
    return MR_OK;
}
