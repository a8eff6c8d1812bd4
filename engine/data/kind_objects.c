#include "millrace/objects.h"

#include <math.h>
#include <stddef.h>

#include "engine/data/kinds.h"

static const mr_field zone_fields[] = {
    {.name = "zone", .type = MR_FIELD_TEXT, .offset = offsetof(mr_object_zone, zone), .help = "the area's name"},
    {.name = "dwell", .type = MR_FIELD_F64, .offset = offsetof(mr_object_zone, dwell), .unit = "s",
     .help = "time since the object entered"},
    {.name = "stage", .type = MR_FIELD_TEXT, .offset = offsetof(mr_object_zone, stage),
     .help = "the stage that watches the area"},
    {0},
};

#define FIELD(field) .name = #field, .offset = offsetof(mr_object_attribute, field)
static const mr_field attribute_fields[] = {
    {FIELD(stage), .type = MR_FIELD_TEXT, .help = "the stage that found it"},
    {FIELD(index), .type = MR_FIELD_I32, .help = "number of the class"},
    {FIELD(label), .type = MR_FIELD_TEXT, .sparse = true, .help = "its name, if the stage has labels"},
    {FIELD(score), .type = MR_FIELD_F32, .help = "how sure the stage is"},
    {FIELD(text), .type = MR_FIELD_STRING, .sparse = true, .help = "text that was read"},
    {0},
};
#undef FIELD

#define FIELD(field) .name = #field, .offset = offsetof(mr_object, field)
static const mr_field fields[] = {
    {FIELD(index), .type = MR_FIELD_I32, .help = "number of the class"},
    {FIELD(label), .type = MR_FIELD_TEXT, .help = "its name, if the stage has labels", .column = "class"},
    {FIELD(score), .type = MR_FIELD_F32, .help = "how sure the stage is"},
    {FIELD(track), .type = MR_FIELD_ID, .help = "number of its track, once that is confirmed"},
    {FIELD(left), .type = MR_FIELD_F32, .unit = "px", .help = "left edge, in the source's picture as it is shown"},
    {FIELD(top), .type = MR_FIELD_F32, .unit = "px", .help = "top edge"},
    {FIELD(right), .type = MR_FIELD_F32, .unit = "px", .help = "right edge"},
    {FIELD(bottom), .type = MR_FIELD_F32, .unit = "px", .help = "bottom edge"},
    {FIELD(number), .type = MR_FIELD_ID, .sparse = true, .help = "number of the object in its frame"},
    {FIELD(parent), .type = MR_FIELD_ID, .sparse = true, .help = "number of the object in which it was found"},
    {FIELD(quad), .type = MR_FIELD_F32S, .unit = "px",
     .help = "if it is not upright: x and y of its corners, clockwise from the upper left"},
    {FIELD(points), .type = MR_FIELD_F32S, .unit = "px", .help = "x, y and score of each key point"},
    {FIELD(mask), .type = MR_FIELD_I32S,
     .help = "lengths of runs over the box, row by row: outside the object, inside, in turn"},
    {FIELD(mask_width), .type = MR_FIELD_I32, .sparse = true, .help = "columns of the mask"},
    {FIELD(mask_height), .type = MR_FIELD_I32, .sparse = true, .help = "rows of the mask"},
    {FIELD(zones), .type = MR_FIELD_LIST, .fields = zone_fields, .item_bytes = sizeof(mr_object_zone),
     .help = "the areas in which it is"},
    {FIELD(attributes), .type = MR_FIELD_LIST, .fields = attribute_fields, .item_bytes = sizeof(mr_object_attribute),
     .help = "what other stages found about it"},
    {FIELD(speed), .type = MR_FIELD_F32, .sparse = true, .unit = "m/s", .help = "on the ground, if there is a scale"},
    {FIELD(distance), .type = MR_FIELD_F32, .sparse = true, .unit = "m", .help = "its way on the ground"},
    {0},
};
#undef FIELD

/* ---- comparison -------------------------------------------------------------------------------------------------- */

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

/* A mask being walked cell by cell. */
typedef struct walk {
    const int32_t *runs;
    uint32_t count, at;
    int64_t left; /* cells in the run at `at` */
} walk;

static walk begin_walk(const mr_result *result, const mr_object *object) {
    walk w = {.runs = mr_result_items(result, object->mask), .count = object->mask.count};
    w.left = w.count ? w.runs[0] : 0;
    return w;
}

/* Moves to the next run with cells; false: the mask has ended. */
static bool settle(walk *w) {
    while (w->left <= 0 && w->at < w->count)
        w->left = ++w->at < w->count ? w->runs[w->at] : 0;
    return w->at < w->count;
}

/* The share of cells in which the masks differ. */
static float mask_difference(const mr_result *a, const mr_object *one, const mr_result *b, const mr_object *other) {
    walk x = begin_walk(a, one), y = begin_walk(b, other);
    int64_t differing = 0, all = 0;
    if (one->mask_width != other->mask_width || one->mask_height != other->mask_height)
        return 1;
    while (settle(&x) && settle(&y)) {
        const int64_t cells = x.left < y.left ? x.left : y.left;
        differing += x.at % 2 != y.at % 2 ? cells : 0;
        all += cells;
        x.left -= cells;
        y.left -= cells;
    }
    return settle(&x) || settle(&y) ? 1 : all ? (float)differing / (float)all : 0;
}

static void compare_details(const mr_result *a, const mr_object *one, const mr_result *b, const mr_object *other,
                            const mr_comparison *to) {
    const float none = 0, difference = mask_difference(a, one, b, other);
    for (const mr_field *field = fields; field->name; field++)
        if (mr_field_item_bytes(field) && field->offset != offsetof(mr_object, mask))
            mr_result_compare_field(field, a, one, b, other, to);
    if (one->mask.count || other->mask.count)
        to->values(to->context, MR_FIELD_F32, &none, &difference);
}

/* Objects with nearly equal scores may change places. Their numbers then differ, and are not compared. */
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
        compare_details(a, one, b, other, to);
        if (at != i)
            to->moved(to->context);
    }
}

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
