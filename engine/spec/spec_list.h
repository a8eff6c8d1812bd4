/* Source lists: the file, or the folder with files, that `sources_from` names.
 *
 * A file is a map from ids to sources, like a pipeline's section `sources`. Everything is checked as in a pipeline's
 * text: ids, keys, values, and how many there are. Whether a source can be read and fits is checked when it is added.
 * Whether the values go together is checked then too, or by the caller. */
#pragma once

#include "engine/spec/spec.h"

typedef struct mr_spec_listed {
    const char *id;
    const mr_yaml *node;           /* the map; variables are replaced */
    char digest[MR_DIGEST_TEXT];   /* the source's, secrets included */
} mr_spec_listed;

typedef struct mr_spec_list {
    size_t count;
    mr_spec_listed *sources;       /* in file order; files are sorted by name */
    mr_arena arena;                /* private */
} mr_spec_list;

/* For each source without an error so far, which lives only for the call; it diagnoses what it finds. MR_OK or
 * MR_ERROR_MEMORY. */
typedef int mr_spec_list_check(void *context, const mr_spec_vertex *source);

/* Reads a pipeline's list; `check` may be NULL. On failure *list is NULL, `diagnostics` has every error with its place,
 * and the status is the first error's. */
int mr_spec_list_read(mr_spec_list **list, const mr_spec *pipeline, mr_spec_list_check *check, void *context,
                      mr_diagnostics *diagnostics);
void mr_spec_list_destroy(mr_spec_list **list);
