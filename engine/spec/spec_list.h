/* Lists of sources: the file, or the folder of files, that `sources_from` names.
 *
 * A file is a map from ids to sources, as the section `sources` of a pipeline is. All is checked as a pipeline's text
 * is: ids, keys, values, and how many there are; whether a source can be read, and fits, is checked when it is
 * added. */
#ifndef MILLRACE_SPEC_SPEC_LIST_H
#define MILLRACE_SPEC_SPEC_LIST_H

#include "engine/spec/spec.h"

typedef struct mr_spec_listed {
    const char *id;
    const mr_yaml *node;           /* its map; variables are replaced */
    char digest[MR_DIGEST_TEXT];   /* of that */
} mr_spec_listed;

typedef struct mr_spec_list {
    size_t count;
    mr_spec_listed *sources;       /* in the order of the files, whose names are sorted */
    mr_arena arena;                /* private */
} mr_spec_list;

/* Reads the list of a pipeline. *list is NULL on failure, and `diagnostics` has every error with its place: the first
 * one's status. */
int mr_spec_list_read(mr_spec_list **list, const mr_spec *pipeline, mr_diagnostics *diagnostics);
void mr_spec_list_destroy(mr_spec_list **list);

#endif
