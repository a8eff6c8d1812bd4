#include "engine/spec/join_hint.h"

#include <stdio.h>
#include <string.h>

const char *mr_join_hint(const mr_yaml *inputs, char *text, size_t bytes) {
    size_t length = (size_t)snprintf(text, bytes, "name each input: join: {");
    const mr_yaml *first = inputs->kind == MR_YAML_LIST ? inputs->first : NULL;
    for (const mr_yaml *item = first; item && length < bytes; item = item->next)
        if (item->kind == MR_YAML_SCALAR)
            length += (size_t)snprintf(text + length, bytes - length, "%s%.*s: %s", item == first ? "" : ", ",
                                       (int)strcspn(item->text, "."), item->text, item->text);
    if (!first && length < bytes)
        length += (size_t)snprintf(text + length, bytes - length, "picture: decode, boxes: detect");
    if (length + 1 < bytes)
        snprintf(text + length, bytes - length, "}");
    return text;
}
