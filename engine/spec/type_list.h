/* Stage types of several origins in one list: those of the program, and those of plugins. One thread at a time. */
#ifndef MILLRACE_SPEC_TYPE_LIST_H
#define MILLRACE_SPEC_TYPE_LIST_H

#include <stddef.h>

#include "millrace/stage.h"

/* All zero is an empty list. */
typedef struct mr_type_list {
    const mr_stage_type **item; /* ended by NULL once there is any */
    size_t count;
} mr_type_list;

/* Adds types (ended by NULL; NULL: none); one that is there already, at the same address, is not added twice. With
 * `own_names`, MR_ERROR_DATA if another one has the name: of sources a source, of others another. MR_ERROR_MEMORY. */
int mr_type_list_add(mr_type_list *list, const mr_stage_type *const *types, bool own_names);
void mr_type_list_fini(mr_type_list *list);

#endif
