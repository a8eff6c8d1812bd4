/* Lists of sources: the file, or the folder of files, that `sources_from` names.
 *
 * A file is a map from ids to sources, as the section `sources` of a pipeline is. All is checked as a pipeline's text
 * is: ids, keys, values, and how many there are; whether a source can be read, and fits, is checked when it is added,
 * and whether its values go together then, too, or by the caller. */
#pragma once

#include "engine/spec/spec.h"

typedef struct mr_spec_listed {
    const char *id;
    const mr_yaml *node;           /* its map; variables are replaced */
    char digest[MR_DIGEST_TEXT];   /* of that, with what is secret */
} mr_spec_listed;

typedef struct mr_spec_list {
    size_t count;
    mr_spec_listed *sources;       /* in the order of the files, whose names are sorted */
    mr_arena arena;                /* private */
} mr_spec_list;

/* For each source without an error so far, which lives only for the call; it diagnoses what it finds. MR_OK or
 * MR_ERROR_MEMORY. */
typedef int mr_spec_list_check(void *context, const mr_spec_vertex *source);

/* Reads the list of a pipeline; `check` may be NULL. *list is NULL on failure, and `diagnostics` has every error with
 * its place: the first one's status. */
int mr_spec_list_read(mr_spec_list **list, const mr_spec *pipeline, mr_spec_list_check *check, void *context,
                      mr_diagnostics *diagnostics);
void mr_spec_list_destroy(mr_spec_list **list);
