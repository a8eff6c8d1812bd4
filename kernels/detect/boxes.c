#include "kernels/detect/boxes.h"

#include <math.h>
#include <stdlib.h>

void mr_boxes_init(mr_boxes *list, mr_box *item, size_t capacity) {
    *list = (mr_boxes){.item = item, .capacity = capacity, .least = -INFINITY};
}

/* For qsort: the better one first. */
static int compare(const void *one, const void *two) {
    const mr_box *a = one, *b = two;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    return (a->class_index > b->class_index) - (a->class_index < b->class_index);
}

void mr_boxes_sort(mr_boxes *list) {
    qsort(list->item, list->count, sizeof *list->item, compare);
}

void mr_boxes_add(mr_boxes *list, const mr_box *candidate) {
    if (!isfinite(candidate->left) || !isfinite(candidate->top) || !isfinite(candidate->right) ||
        !isfinite(candidate->bottom))
        return;
    list->passed++;
    if (candidate->score < list->least)
        return;
    if (list->count == list->capacity) {
        mr_boxes_sort(list);
        list->count = list->capacity / 2;
        list->least = list->item[list->count - 1].score;
    }
    list->item[list->count++] = *candidate;
}

/* ---- suppression ------------------------------------------------------------------------------------------------- */

static float area_of(const mr_box *box) {
    return fabsf(box->right - box->left) * fabsf(box->bottom - box->top);
}

/* In the operator's order of operations, so that results are the same bit for bit. */
static bool overlaps(const mr_box *a, const mr_box *b, float overlap) {
    const float left = fmaxf(fminf(a->left, a->right), fminf(b->left, b->right));
    const float right = fminf(fmaxf(a->left, a->right), fmaxf(b->left, b->right));
    const float top = fmaxf(fminf(a->top, a->bottom), fminf(b->top, b->bottom));
    const float bottom = fminf(fmaxf(a->top, a->bottom), fmaxf(b->top, b->bottom));
    if (right <= left || bottom <= top)
        return false;
    const float shared = (right - left) * (bottom - top), first = area_of(a), second = area_of(b);
    const float both = first + second - shared;
    return shared > 0 && first > 0 && second > 0 && both > 0 && shared / both > overlap;
}

static bool is_inside(const mr_box *box, int32_t width, int32_t height) {
    const float left = fmaxf(fminf(box->left, box->right), 0), top = fmaxf(fminf(box->top, box->bottom), 0);
    return fminf(fmaxf(box->left, box->right), (float)width) > left &&
           fminf(fmaxf(box->top, box->bottom), (float)height) > top;
}

static bool is_free(const mr_box *box, const mr_box *kept, size_t count, float overlap) {
    for (size_t i = 0; i < count; i++)
        if (kept[i].class_index == box->class_index && overlaps(&kept[i], box, overlap))
            return false;
    return true;
}

void mr_boxes_suppress(mr_boxes *list, float overlap, size_t most, int32_t width, int32_t height) {
    size_t kept = 0, inside = 0, shown = 0;
    mr_boxes_sort(list);
    for (size_t i = 0; i < list->count && inside < most; i++) {
        const mr_box next = list->item[i];
        if (!isinf(overlap) && !is_free(&next, list->item, kept, overlap))
            continue;
        list->item[kept++] = next;
        inside += is_inside(&next, width, height);
    }
    for (size_t i = 0; i < kept; i++)
        if (is_inside(&list->item[i], width, height))
            list->item[shown++] = list->item[i];
    list->count = shown;
}
