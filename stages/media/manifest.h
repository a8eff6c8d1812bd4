/* Lists of files with their classes, as data sets for training come: text in UTF-8, a row for each file.
 *
 *     *.csv              RFC 4180; the first row names the columns: path, and any of label, group, split, start and end
 *     *.jsonl, *.ndjson  an object a line, with the same names as keys
 *
 * Of a CSV, blanks around a field are left out, unless quotes are around them. Other columns are left out. Paths that
 * are not absolute start in the list's folder. A split is train, validation or test; empty: the row has none. `start`
 * and `end` are seconds of a video, from the start of its stream: the row stands for the pictures of [start, end), to
 * the microsecond; empty: from its beginning, to its end. A row that is wrong refuses the list, with file and line:
 * what would be trained on would not be what its author wrote.
 *
 * Errors: those of mr_file_read; MR_ERROR_DATA. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "millrace/dataset.h"

enum { MR_MANIFEST_MAX_BYTES = 1 << 30 };

/* A row; texts are borrowed for the call. */
typedef struct mr_manifest_row {
    const char *path;
    const char *label, *group; /* NULL: none */
    mr_split split;
    bool ranged;               /* it has a start or an end */
    int64_t start_ns, end_ns;  /* end 0: to the end */
    size_t line;
} mr_manifest_row;

/* Whether a file of that name is taken for a list. */
bool mr_is_manifest_by_name(const char *path);
/* Calls `take` for each row; its status other than 0 ends the reading. `vectors`: rows are for vectors that are kept
 * elsewhere, and need no path; without one it is "". *unused: the first of the columns that are left out, which the
 * caller frees, on failure too (mr_free); NULL: there are none. */
int mr_manifest_read(const char *path, bool vectors, int (*take)(void *context, const mr_manifest_row *row),
                     void *context, char **unused);
