#include "millrace/text.h"

#include <stddef.h>

#include "engine/data/kinds.h"

static const mr_field fields[] = {
    {.name = "text", .type = MR_FIELD_STRING, .offset = offsetof(mr_text, text), .help = "what was read"},
    {.name = "score", .type = MR_FIELD_F32, .offset = offsetof(mr_text, score), .help = "how sure the stage is"},
    {0},
};

static const mr_result_kind kind = {
    .name = "text",
    .help = "text that was read in a picture",
    .fields = fields,
    .element_bytes = sizeof(mr_text),
};

const mr_result_kind *mr_kind_text(void) {
    return &kind;
}
