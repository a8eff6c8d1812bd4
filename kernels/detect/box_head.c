#include "kernels/detect/box_head.h"

#include <math.h>

#include "kernels/detect/box_read.h"

const char *const mr_box_head_names[] = {"yolox", "yolov5", "yolov8", "yolov8-pose", "yolov8-seg", "yolov8-obb",
                                         "ssd", "rtdetr", "end2end", "yolov7-end2end", "centerface", "db", "custom",
                                         NULL};

/* The limit as a limit of raw scores, so that few sigmoids are computed. */
float mr_box_raw_limit(const mr_box_head *head, float score) {
    if (!head->logits)
        return score;
    return score <= 0 ? -INFINITY : score >= 1 ? INFINITY : logf(score / (1.0f - score)) - 1e-4f;
}

static void add(const mr_box_head *head, const void *const *data, int64_t row, int32_t class_index, float score,
                mr_boxes *candidates) {
    mr_box found = {.score = score, .class_index = class_index, .row = (int32_t)row};
    mr_box_read(head, data, row, &found);
    mr_boxes_add(candidates, &found);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* Each box has one score, and its class is a number. */
static void decode_numbered(const mr_box_head *head, const void *const *data, float score, const bool *wanted,
                            mr_boxes *candidates) {
    for (int64_t row = 0; row < head->rows; row++) {
        const float raw = mr_box_number(data, &head->scores, row, 0), found = head->logits ? mr_box_sigmoid(raw) : raw;
        const int32_t class_index = found > score ? mr_box_class(head, data, row) : -1;
        if (class_index >= 0 && (!wanted || wanted[class_index]))
            add(head, data, row, class_index, found, candidates);
    }
}

/* One class of all boxes, whose scores stand one after the other. */
static void decode_column(const mr_box_head *head, const void *const *data, float score, int32_t class_index,
                          mr_boxes *candidates) {
    const float limit = mr_box_raw_limit(head, score);
    const float *raw = (const float *)data[head->scores.output] + head->scores.first +
                       class_index * head->scores.column;
    for (int64_t row = 0; row < head->rows; row++)
        if (raw[row] > limit) {
            const float found = head->logits ? mr_box_sigmoid(raw[row]) : raw[row];
            if (found > score)
                add(head, data, row, class_index, found, candidates);
        }
}

/* All classes of one box. A score is at most the objectness, so most boxes are left at once. */
static void decode_row(const mr_box_head *head, const void *const *data, float score, const bool *wanted, int64_t row,
                       mr_boxes *candidates) {
    const float present = head->objectness.output < 0 ? 1.0f : mr_box_number(data, &head->objectness, row, 0);
    const float limit = mr_box_raw_limit(head, score);
    if (!(present > score))
        return;
    for (int32_t i = 0; i < head->classes; i++) {
        const float raw = mr_box_number(data, &head->scores, row, i);
        if (!(raw > limit) || (wanted && !wanted[i]))
            continue;
        const float found = head->logits ? mr_box_sigmoid(raw) : present * raw;
        if (found > score)
            add(head, data, row, i, found, candidates);
    }
}

static void decode_centerface(const mr_box_head *head, const void *const *data, float score, mr_boxes *candidates) {
    const float *heat = data[head->maps[MR_CENTERFACE_HEAT]];
    for (int64_t row = 0; row < head->rows; row++)
        if (heat[row] > score)
            add(head, data, row, 0, heat[row], candidates);
}

size_t mr_box_head_most(const mr_box_head *head) {
    return (size_t)head->rows * (size_t)(head->classes ? head->classes : 1);
}

void mr_box_head_decode(const mr_box_head *head, const void *const *data, float score, const bool *wanted,
                    mr_boxes *candidates) {
    if (head->family == MR_BOX_HEAD_CENTERFACE) {
        if (!wanted || wanted[0])
            decode_centerface(head, data, score, candidates);
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

/* ---- numbers that are none --------------------------------------------------------------------------------------- */

static bool is_any_nan(const float *at, int64_t count) {
    bool found = false;
    for (int64_t i = 0; i < count; i++)
        found |= isnan(at[i]);
    return found;
}

/* Boxes with a score for each class. The scores of a class, or of a box, stand one after the other. */
static bool is_any_score_nan(const mr_box_head *head, const void *const *data) {
    const mr_box_head_view *view = &head->scores;
    const float *first = (const float *)data[view->output] + view->first;
    bool found = false;
    if (view->row == 1)
        for (int32_t i = 0; i < head->classes && !found; i++)
            found = is_any_nan(first + i * view->column, head->rows);
    else
        for (int64_t row = 0; row < head->rows && !found; row++)
            found = is_any_nan(first + row * view->row, head->classes);
    for (int64_t row = 0; row < head->rows && head->objectness.output >= 0 && !found; row++)
        found = isnan(mr_box_number(data, &head->objectness, row, 0));
    return found;
}

bool mr_box_head_has_nan(const mr_box_head *head, const void *const *data) {
    bool found = false;
    if (head->family == MR_BOX_HEAD_DB)
        return is_any_nan(data[0], (int64_t)head->width * head->height);
    if (head->family != MR_BOX_HEAD_CENTERFACE && head->classes)
        return is_any_score_nan(head, data);
    for (int64_t row = 0; row < head->rows && !found; row++)
        found = mr_box_score_is_nan(head, data, row, 0);
    return found;
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

void mr_box_head_finish(const mr_box_head *head, float overlap, size_t most, mr_boxes *candidates) {
    mr_boxes_suppress(candidates, mr_box_head_overlap(head, overlap), head->agnostic, most, head->width, head->height);
}
