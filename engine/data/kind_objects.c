#include "millrace/objects.h"

#include <math.h>
#include <stddef.h>

#include "engine/data/kinds.h"

static double distance(const mr_object *a, const mr_object *b) {
    return fabs((double)a->left - (double)b->left) + fabs((double)a->top - (double)b->top) +
           fabs((double)a->right - (double)b->right) + fabs((double)a->bottom - (double)b->bottom);
}

/* The nearest object of the same class; without one, the nearest of all. */
static size_t find_nearest(const mr_result *result, const mr_object *object) {
    const mr_object *objects = result->data;
    size_t found = 0;
    double least = INFINITY;
    for (size_t i = 0; i < result->count; i++) {
        const double away = distance(&objects[i], object) + (objects[i].index == object->index ? 0 : 1e9);
        found = away < least ? i : found;
        least = fmin(away, least);
    }
    return found;
}

/* Objects with nearly equal scores may change places. */
static void compare(const mr_result *a, const mr_result *b, const mr_comparison *to) {
    const mr_object *objects = a->data;
    for (size_t i = 0; i < a->count; i++) {
        const size_t at = find_nearest(b, &objects[i]);
        const mr_object *one = &objects[i], *other = (const mr_object *)b->data + at;
        to->values(to->context, MR_FIELD_F32, &one->left, &other->left);
        to->values(to->context, MR_FIELD_F32, &one->top, &other->top);
        to->values(to->context, MR_FIELD_F32, &one->right, &other->right);
        to->values(to->context, MR_FIELD_F32, &one->bottom, &other->bottom);
        to->values(to->context, MR_FIELD_F32, &one->score, &other->score);
        to->values(to->context, MR_FIELD_I32, &one->index, &other->index);
        if (at != i)
            to->moved(to->context);
    }
}

static const mr_field fields[] = {
    {"index", MR_FIELD_I32, offsetof(mr_object, index), NULL, "number of the class", NULL},
    {"label", MR_FIELD_TEXT, offsetof(mr_object, label), NULL, "its name, if the stage has labels", "class"},
    {"score", MR_FIELD_F32, offsetof(mr_object, score), NULL, "how sure the stage is", NULL},
    {"track", MR_FIELD_ID, offsetof(mr_object, track), NULL, "number of its track, once that is confirmed", NULL},
    {"left", MR_FIELD_F32, offsetof(mr_object, left), "px", "left edge, in the source's picture as it is shown", NULL},
    {"top", MR_FIELD_F32, offsetof(mr_object, top), "px", "top edge", NULL},
    {"right", MR_FIELD_F32, offsetof(mr_object, right), "px", "right edge", NULL},
    {"bottom", MR_FIELD_F32, offsetof(mr_object, bottom), "px", "bottom edge", NULL},
    {0},
};

static const mr_result_kind kind = {
    .name = "objects",
    .help = "what a picture shows, and where, best first",
    .fields = fields,
    .element_bytes = sizeof(mr_object),
    .compare = compare,
};

const mr_result_kind *mr_kind_objects(void) {
    return &kind;
}
