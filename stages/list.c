#include "stages/list.h"

#include "millrace/millrace.h"

const mr_stage_type *const *mr_stage_types(void) {
#define ADDRESS(type) &type,
    static const mr_stage_type *const types[] = {MR_STAGE_TYPES(ADDRESS) NULL};
#undef ADDRESS
    return types;
}
