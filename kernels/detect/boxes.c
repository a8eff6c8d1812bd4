#include "kernels/detect/boxes.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/detect/box_turned.h"

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
    if (!mr_box_is_finite(candidate)) {
        list->odd++;
        return;
    }
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

static bool is_free(const mr_box *box, const mr_box *kept, size_t count, float overlap, bool agnostic) {
    for (size_t i = 0; i < count; i++)
        if ((agnostic || kept[i].class_index == box->class_index) && mr_box_any_overlaps(&kept[i], box, overlap))
            return false;
    return true;
}

void mr_boxes_suppress(mr_boxes *list, float overlap, bool agnostic, size_t most, int32_t width, int32_t height) {
    size_t kept = 0, inside = 0, shown = 0;
    mr_boxes_sort(list);
    for (size_t i = 0; i < list->count && inside < most; i++) {
        const mr_box next = list->item[i];
        if (!isinf(overlap) && !is_free(&next, list->item, kept, overlap, agnostic))
            continue;
        list->item[kept++] = next;
        inside += mr_box_any_is_inside(&next, width, height);
    }
    for (size_t i = 0; i < kept; i++)
        if (mr_box_any_is_inside(&list->item[i], width, height))
            list->item[shown++] = list->item[i];
    list->count = shown;
}
