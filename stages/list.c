#include "stages/list.h"

#include "millrace/millrace.h"

static const mr_stage_type *const types[] = {
    /* sources */
    &mr_null_source,
    /* stages */
    &mr_null_stage,
    NULL,
};

const mr_stage_type *const *mr_stage_types(void) {
    return types;
}
