#include "kernels/detect/box_numbers.h"

#include "kernels/detect/box_read.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

/* Adds up the region's prototypes: logits of its cells, row by row. */
static void sum_prototypes(const mr_box_head *head, const void *const *data, const mr_box *candidate,
                           const mr_mask_region *r, float *logits) {
    const size_t plane = (size_t)head->mask_width * (size_t)head->mask_height;
    memset(logits, 0, (size_t)r->columns * (size_t)r->rows * sizeof *logits);
    for (int32_t i = 0; i < head->coefficients; i++) {
        const float factor = mr_box_number(data, &head->coefficient, candidate->row, i);
        const float *from = (const float *)data[head->prototypes] + (size_t)i * plane +
                            (size_t)r->first_row * (size_t)head->mask_width + (size_t)r->first_column;
        for (int32_t y = 0; y < r->rows; y++, from += head->mask_width)
            for (int32_t x = 0; x < r->columns; x++)
                logits[y * r->columns + x] += factor * from[x];
    }
}

static float logit_at(const mr_mask_region *r, const float *logits, const mr_mask_sample *at) {
    const float *upper = logits + at->top * r->columns, *lower = logits + at->below * r->columns;
    return mr_mask_between(at, upper[at->left], upper[at->right], lower[at->left], lower[at->right]);
}

/* A cell is inside if its logit is above 0: the sigmoid is above a half. */
static int make_mask(const mr_box_head *head, const void *const *data, const mr_box *candidate, mr_box_mask *mask) {
    const mr_mask_region r = mr_mask_region_of(head, candidate);
    float *logits = mr_scratch((size_t)head->mask_width * (size_t)head->mask_height * sizeof *logits);
    if (!logits)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory for a mask");
    sum_prototypes(head, data, candidate, &r, logits);
    mask->width = mr_mask_cells(r.left, r.right, head->mask_width);
    mask->height = mr_mask_cells(r.top, r.bottom, head->mask_height);
    memset(mask->bits, 0, ((size_t)mask->width * (size_t)mask->height + 31) / 32 * sizeof *mask->bits);
    for (int32_t y = 0, bit = 0; y < mask->height; y++)
        for (int32_t x = 0; x < mask->width; x++, bit++) {
            const mr_mask_sample at = mr_mask_sample_at(&r, x, y, mask->width, mask->height);
            if (logit_at(&r, logits, &at) > 0)
                mask->bits[bit / 32] |= 1u << bit % 32;
        }
    return MR_OK;
}

int32_t mr_box_mask_numbers(const mr_box_head *head) {
    return (int32_t)(sizeof(mr_box_mask) / sizeof(float)) + (head->mask_width * head->mask_height + 31) / 32;
}

int mr_box_numbers(const mr_box_head *head, const void *const *data, const mr_box *candidate, float *numbers) {
    if (head->kind == MR_BOX_MASK)
        return make_mask(head, data, candidate, (mr_box_mask *)(void *)numbers);
    if (head->kind == MR_BOX_CORNERS)
        mr_box_corner_numbers(candidate, numbers);
    for (int32_t i = 0; i < head->points; i++)
        mr_box_point(head, data, candidate, i, numbers + 3 * i);
    return MR_OK;
}
