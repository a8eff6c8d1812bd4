#include "engine/flow/instance/again.h"

#include "engine/base/memory.h"
#include "millrace/status.h"

int mr_again_create(mr_again_filter *filter, size_t source_count) {
    filter->sources = mr_calloc(source_count, sizeof *filter->sources);
    return filter->sources ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the last frames of %zu sources",
                                             source_count);
}

void mr_again_destroy(mr_again_filter *filter) {
    mr_free(filter->sources);
    filter->sources = NULL;
}
