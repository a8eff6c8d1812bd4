#include "stages/objects/cascade/merge.h"

#include <math.h>
#include <stdlib.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* An object that may stay. */
typedef struct candidate {
    const mr_object *object;
    size_t index;
    double area;
    bool cut;
} candidate;

static double area_of(const mr_object *object) {
    return ((double)object->right - (double)object->left) * ((double)object->bottom - (double)object->top);
}

static double shared_by(const mr_object *a, const mr_object *b) {
    const double width = fmin((double)a->right, (double)b->right) - fmax((double)a->left, (double)b->left);
    const double height = fmin((double)a->bottom, (double)b->bottom) - fmax((double)a->top, (double)b->top);
    return width > 0 && height > 0 ? width * height : 0;
}

/* The box around all parts. */
static mr_object whole_of(const mr_object *parts, size_t count) {
    mr_object whole = {.left = INFINITY, .top = INFINITY, .right = -INFINITY, .bottom = -INFINITY};
    for (size_t i = 0; i < count; i++) {
        whole.left = fminf(whole.left, parts[i].left);
        whole.top = fminf(whole.top, parts[i].top);
        whole.right = fmaxf(whole.right, parts[i].right);
        whole.bottom = fmaxf(whole.bottom, parts[i].bottom);
    }
    return whole;
}

/* Whether a box reaches an edge of its part, unless the whole picture ends there. Detectors place edges a little
 * inside. */
static bool reaches(float edge, float part, float whole, float side) {
    const float near = fmaxf(2, side / 50);
    return fabsf(part - whole) > 1 && fabsf(edge - part) <= near;
}

static bool is_cut(const mr_object *object, const mr_object *part, const mr_object *whole) {
    const float width = part->right - part->left, height = part->bottom - part->top;
    return reaches(object->left, part->left, whole->left, width) ||
           reaches(object->right, part->right, whole->right, width) ||
           reaches(object->top, part->top, whole->top, height) ||
           reaches(object->bottom, part->bottom, whole->bottom, height);
}

static double score_of(const candidate *one) {
    return isnan(one->object->score) ? -INFINITY : (double)one->object->score;
}

/* For qsort: whole objects first, by score; then cut ones, by area. */
static int compare(const void *one, const void *other) {
    const candidate *a = one, *b = other;
    if (a->cut != b->cut)
        return a->cut ? 1 : -1;
    const double left = a->cut ? a->area : score_of(a), right = b->cut ? b->area : score_of(b);
    if (left != right)
        return left > right ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static bool is_double(const candidate *a, const candidate *better, const mr_merge_limits *limits) {
    if (a->object->index != better->object->index || a->object->parent == better->object->parent)
        return false;
    const double shared = shared_by(a->object, better->object);
    return shared > limits->iou * (a->area + better->area - shared) || (a->cut && shared > limits->inside * a->area);
}

int mr_merge_parts(const mr_object *parts, size_t part_count, const mr_object *found, size_t count,
                   const mr_merge_limits *limits, bool *kept) {
    candidate *all = mr_calloc(count + 1, sizeof *all);
    const mr_object whole = whole_of(parts, part_count);
    size_t stay = 0;
    if (!all)
        return mr_fail(MR_ERROR_MEMORY, "no memory to merge %zu objects", count);
    for (size_t i = 0; i < count; i++) {
        size_t part = 0;
        while (part < part_count && parts[part].number != found[i].parent)
            part++;
        const double area = area_of(&found[i]);
        all[i] = (candidate){&found[i], i, isnan(area) ? 0 : area, part < part_count &&
                                                                       is_cut(&found[i], &parts[part], &whole)};
        kept[i] = false;
    }
    qsort(all, count, sizeof *all, compare);
    for (size_t i = 0; i < count; i++) {
        bool once = true;
        for (size_t k = 0; k < stay && once; k++)
            once = !is_double(&all[i], &all[k], limits);
        if (!once)
            continue;
        kept[all[i].index] = true;
        all[stay++] = all[i];
    }
    mr_free(all);
    return MR_OK;
}
