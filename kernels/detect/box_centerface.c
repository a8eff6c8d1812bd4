#include "kernels/detect/box_read.h"

void mr_box_centerface_decode(const mr_box_head *head, const void *const *data, float score, mr_boxes *candidates) {
    const float *heat = data[head->maps[MR_CENTERFACE_HEAT]];
    for (int64_t row = 0; row < head->rows; row++) {
        mr_box found = {.score = heat[row], .row = (int32_t)row};
        if (!(heat[row] > score))
            continue;
        mr_centerface_box(head, data, row, &found);
        mr_boxes_add(candidates, &found);
    }
}
