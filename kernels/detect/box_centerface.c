#include "kernels/detect/box_centerface.h"

#include <math.h>

enum { HEAT, SCALE, OFFSET, LANDMARKS };

/* Plane `plane` of an output, each of which has a plane for each number of a cell. */
static float cell_of(const mr_box_head *head, const void *const *data, int map, int64_t plane, int64_t row) {
    return ((const float *)data[head->maps[map]])[plane * head->rows + row];
}

static float limited(float value, int32_t most) {
    return fminf(fmaxf(value, 0), (float)most);
}

static void read_box(const mr_box_head *head, const void *const *data, int64_t row, mr_box *to) {
    const int64_t columns = head->width / MR_CENTERFACE_CELL;
    const float cell = MR_CENTERFACE_CELL;
    const float height = expf(cell_of(head, data, SCALE, 0, row)) * cell;
    const float width = expf(cell_of(head, data, SCALE, 1, row)) * cell;
    const float y = ((float)(row / columns) + cell_of(head, data, OFFSET, 0, row) + 0.5f) * cell;
    const float x = ((float)(row % columns) + cell_of(head, data, OFFSET, 1, row) + 0.5f) * cell;
    to->left = limited(x - width / 2, head->width);
    to->top = limited(y - height / 2, head->height);
    to->right = fminf(to->left + width, (float)head->width);
    to->bottom = fminf(to->top + height, (float)head->height);
}

void mr_box_centerface_decode(const mr_box_head *head, const void *const *data, float score, mr_boxes *candidates) {
    const float *heat = data[head->maps[HEAT]];
    for (int64_t row = 0; row < head->rows; row++) {
        mr_box found = {.score = heat[row], .row = (int32_t)row};
        if (!(heat[row] > score))
            continue;
        read_box(head, data, row, &found);
        mr_boxes_add(candidates, &found);
    }
}

/* The score of a landmark is the face's. */
void mr_box_centerface_points(const mr_box_head *head, const void *const *data, const mr_box *candidate, float *to) {
    mr_box box;
    read_box(head, data, candidate->row, &box);
    const float width = expf(cell_of(head, data, SCALE, 1, candidate->row)) * MR_CENTERFACE_CELL;
    const float height = expf(cell_of(head, data, SCALE, 0, candidate->row)) * MR_CENTERFACE_CELL;
    for (int32_t i = 0; i < head->points; i++) {
        *to++ = cell_of(head, data, LANDMARKS, 2 * i + 1, candidate->row) * width + box.left;
        *to++ = cell_of(head, data, LANDMARKS, 2 * i, candidate->row) * height + box.top;
        *to++ = candidate->score;
    }
}
