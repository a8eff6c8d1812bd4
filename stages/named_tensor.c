#include "stages/named_tensor.h"

#include <string.h>

const mr_planned_result *mr_planned_tensor(const mr_planned_input *input, const char *name) {
    const mr_planned_result *one = input->results;
    while (one && (one->kind != mr_kind_tensor() || (name && (!one->name || strcmp(one->name, name) != 0))))
        one = one->next;
    return one;
}

const mr_result *mr_frame_tensor(const mr_frame *frame, const char *name) {
    const mr_result *one = frame->results;
    while (one && (one->kind != mr_kind_tensor() || (name && (!one->name || strcmp(one->name, name) != 0))))
        one = one->next;
    return one;
}
