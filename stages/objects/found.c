#include "stages/objects/found.h"

bool mr_may_have_tracks(const mr_planned_input *input) {
    const mr_planned_result *one = input->results;
    while (one && !one->tracked)
        one = one->next;
    return one || input->more_results;
}

int64_t mr_object_number(const mr_result *objects, size_t index) {
    const mr_object *object = (const mr_object *)objects->data + index;
    return object->number > 0 && object->number <= UINT32_MAX ? object->number : (int64_t)index + 1;
}
