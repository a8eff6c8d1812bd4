#include "kernels/detect/box_head.h"

#include <math.h>

#include "kernels/detect/box_centerface.h"

const char *const mr_box_head_names[] = {"yolox", "yolov5", "yolov8", "yolov8-pose", "yolov8-seg", "ssd",
                                         "rtdetr", "end2end", "centerface", "db", "custom", NULL};

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static float number_at(const void *const *data, const mr_box_head_view *view, int64_t row, int64_t column) {
    return ((const float *)data[view->output])[view->first + row * view->row + column * view->column];
}

static float sigmoid(float x) {
    return 1.0f / (1.0f + expf(-x));
}

/* The limit as a limit of raw scores, so that few sigmoids are computed. */
static float raw_limit(const mr_box_head *head, float score) {
    if (!head->logits)
        return score;
    return score <= 0 ? -INFINITY : score >= 1 ? INFINITY : logf(score / (1.0f - score)) - 1e-4f;
}

/* -1: the number is no class. */
static int32_t class_of(const mr_box_head *head, const void *const *data, int64_t row) {
    const mr_box_head_view *view = &head->class_numbers;
    const int64_t at = view->first + row * view->row;
    const double number = head->class_dtype == MR_DTYPE_I64   ? (double)((const int64_t *)data[view->output])[at]
                          : head->class_dtype == MR_DTYPE_I32 ? (double)((const int32_t *)data[view->output])[at]
                                                              : (double)((const float *)data[view->output])[at];
    return number >= 0 && number < MR_BOX_HEAD_MOST_CLASSES ? (int32_t)number : -1;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

/* The cell that a row belongs to: grids with strides 8, 16 and 32, row by row. */
static void leave_grid(const mr_box_head *head, int64_t row, float box[4]) {
    int64_t first = 0;
    for (int32_t stride = 8; stride <= 32; stride *= 2) {
        const int64_t columns = head->width / stride, cells = columns * (head->height / stride);
        if (row < first + cells) {
            box[0] = (box[0] + (float)((row - first) % columns)) * (float)stride;
            box[1] = (box[1] + (float)((row - first) / columns)) * (float)stride;
            box[2] = expf(box[2]) * (float)stride;
            box[3] = expf(box[3]) * (float)stride;
            return;
        }
        first += cells;
    }
}

static void set_box(const mr_box_head *head, const float box[4], mr_box *to) {
    switch (head->order) {
    case MR_BOX_LTRB:
        to->left = box[0], to->top = box[1], to->right = box[2], to->bottom = box[3];
        break;
    case MR_BOX_TLBR:
        to->left = box[1], to->top = box[0], to->right = box[3], to->bottom = box[2];
        break;
    case MR_BOX_LTWH:
        to->left = box[0], to->top = box[1], to->right = box[0] + box[2], to->bottom = box[1] + box[3];
        break;
    case MR_BOX_CXCYWH:
        to->left = box[0] - box[2] / 2, to->top = box[1] - box[3] / 2;
        to->right = box[0] + box[2] / 2, to->bottom = box[1] + box[3] / 2;
        break;
    }
}

static void read_box(const mr_box_head *head, const void *const *data, int64_t row, mr_box *to) {
    float box[4];
    for (int64_t i = 0; i < 4; i++)
        box[i] = number_at(data, &head->boxes, row, i);
    if (head->grid)
        leave_grid(head, row, box);
    set_box(head, box, to);
    if (head->normalized) {
        to->left *= (float)head->width, to->right *= (float)head->width;
        to->top *= (float)head->height, to->bottom *= (float)head->height;
    }
}

static void add(const mr_box_head *head, const void *const *data, int64_t row, int32_t class_index, float score,
                mr_boxes *candidates) {
    mr_box found = {.score = score, .class_index = class_index, .row = (int32_t)row};
    read_box(head, data, row, &found);
    mr_boxes_add(candidates, &found);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Each box has one score, and its class is a number. */
static void decode_numbered(const mr_box_head *head, const void *const *data, float score, const bool *wanted,
                            mr_boxes *candidates) {
    for (int64_t row = 0; row < head->rows; row++) {
        const float raw = number_at(data, &head->scores, row, 0), found = head->logits ? sigmoid(raw) : raw;
        const int32_t class_index = found > score ? class_of(head, data, row) : -1;
        if (class_index >= 0 && (!wanted || wanted[class_index]))
            add(head, data, row, class_index, found, candidates);
    }
}

/* One class of all boxes, whose scores stand one after the other. */
static void decode_column(const mr_box_head *head, const void *const *data, float score, int32_t class_index,
                          mr_boxes *candidates) {
    const float limit = raw_limit(head, score);
    const float *raw = (const float *)data[head->scores.output] + head->scores.first +
                       class_index * head->scores.column;
    for (int64_t row = 0; row < head->rows; row++)
        if (raw[row] > limit) {
            const float found = head->logits ? sigmoid(raw[row]) : raw[row];
            if (found > score)
                add(head, data, row, class_index, found, candidates);
        }
}

/* All classes of one box. A score is at most the objectness, so most boxes are left at once. */
static void decode_row(const mr_box_head *head, const void *const *data, float score, const bool *wanted, int64_t row,
                       mr_boxes *candidates) {
    const float present = head->objectness.output < 0 ? 1.0f : number_at(data, &head->objectness, row, 0);
    const float limit = raw_limit(head, score);
    if (!(present > score))
        return;
    for (int32_t i = 0; i < head->classes; i++) {
        const float raw = number_at(data, &head->scores, row, i);
        if (!(raw > limit) || (wanted && !wanted[i]))
            continue;
        const float found = head->logits ? sigmoid(raw) : present * raw;
        if (found > score)
            add(head, data, row, i, found, candidates);
    }
}

size_t mr_box_head_most(const mr_box_head *head) {
    return (size_t)head->rows * (size_t)(head->classes ? head->classes : 1);
}

void mr_box_head_decode(const mr_box_head *head, const void *const *data, float score, const bool *wanted,
                    mr_boxes *candidates) {
    if (head->family == MR_BOX_HEAD_CENTERFACE) {
        if (!wanted || wanted[0])
            mr_box_centerface_decode(head, data, score, candidates);
    } else if (!head->classes) {
        decode_numbered(head, data, score, wanted, candidates);
    } else if (head->objectness.output < 0 && head->scores.row == 1) {
        for (int32_t i = 0; i < head->classes; i++)
            if (!wanted || wanted[i])
                decode_column(head, data, score, i, candidates);
    } else {
        for (int64_t row = 0; row < head->rows; row++)
            decode_row(head, data, score, wanted, row, candidates);
    }
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

void mr_box_head_finish(const mr_box_head *head, float overlap, size_t most, mr_boxes *candidates) {
    mr_boxes_suppress(candidates, head->suppress ? overlap : INFINITY, most, head->width, head->height);
}
