#include <stddef.h>

#include "engine/data/kinds.h"

static const mr_class *find(const mr_result *result, int32_t index) {
    for (size_t i = 0; i < result->count; i++)
        if (result->classes[i].index == index)
            return &result->classes[i];
    return NULL;
}

/* A class missing from a list can have at most the score of the last class in it. */
static void compare(const mr_result *a, const mr_result *b, const mr_comparison *to) {
    for (size_t i = 0; i < a->count; i++) {
        const mr_class *one = &a->classes[i], *found = find(b, one->index);
        to->values(to->context, MR_FIELD_F32, &one->score, found ? &found->score : &b->classes[b->count - 1].score);
        if (one->index != b->classes[i].index)
            to->moved(to->context);
    }
    for (size_t i = 0; i < b->count; i++)
        if (!find(a, b->classes[i].index))
            to->values(to->context, MR_FIELD_F32, &a->classes[a->count - 1].score, &b->classes[i].score);
}

static const mr_field fields[] = {
    {.name = "index", .type = MR_FIELD_I32, .offset = offsetof(mr_class, index), .help = "number of the class"},
    {.name = "label", .type = MR_FIELD_TEXT, .offset = offsetof(mr_class, label),
     .help = "its name, if the stage has labels", .column = "class"},
    {.name = "score", .type = MR_FIELD_F32, .offset = offsetof(mr_class, score), .help = "how sure the stage is"},
    {0},
};

static const mr_result_kind kind = {
    .name = "classes",
    .help = "what a picture shows, best first",
    .fields = fields,
    .element_bytes = sizeof(mr_class),
    .compare = compare,
};

const mr_result_kind *mr_kind_classes(void) {
    return &kind;
}
