#include "inside.h"

#include <string.h>

static mr_py_call *first;
static _Thread_local int depth;

void mr_py_call_begin(mr_py_call *call, const char *stage) {
    *call = (mr_py_call){.stage = stage, .next = first};
    if (first)
        first->previous = call;
    first = call;
    depth++;
}

void mr_py_call_end(mr_py_call *call) {
    depth--;
    if (call->previous)
        call->previous->next = call->next;
    else
        first = call->next;
    if (call->next)
        call->next->previous = call->previous;
}

bool mr_py_is_inside(void) {
    return depth > 0;
}

bool mr_py_refuse_inside(void) {
    if (depth)
        mr_py_raise_text(MR_ERROR_USAGE, "a function that the pipeline calls must not wait for a pipeline's end or "
                                         "change its sources; it may call stop");
    return depth > 0;
}

const char *mr_py_calls_print(char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (const mr_py_call *call = first; call && used < bytes; call = call->next) {
        PyOS_snprintf(text + used, bytes - used, "%s%s", used ? ", " : "", call->stage);
        used += strlen(text + used);
    }
    return text;
}
