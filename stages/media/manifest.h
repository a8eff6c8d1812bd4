/* Lists of files and classes, the usual form for training data: UTF-8 text with one row per file.
 *
 *     *.csv              RFC 4180; the first row names the columns: path, and any of label, group, split, start and end
 *     *.jsonl, *.ndjson  an object a line, with the same names as keys
 *
 * In CSV, blanks around a field are removed unless quoted. Other columns are ignored. Relative paths start at the
 * list's folder. A split is train, validation or test, or empty: none. `start` and `end` are seconds from the video
 * stream's start. The row means pictures in [start, end), to the microsecond; empty means the beginning or the end. A
 * wrong row refuses the whole list, with file and line: otherwise training would use something that the author did not
 * write.
 *
 * Errors: as mr_file_read, and MR_ERROR_DATA. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "millrace/dataset.h"

enum { MR_MANIFEST_MAX_BYTES = 1 << 30 };

/* A row; its texts are valid during the call. */
typedef struct mr_manifest_row {
    const char *path;
    const char *label, *group; /* NULL: none */
    mr_split split;
    bool ranged;               /* it has a start or an end */
    int64_t start_ns, end_ns;  /* end 0: to the end */
    size_t line;
} mr_manifest_row;

/* Whether a file with this name counts as a list. */
bool mr_is_manifest_by_name(const char *path);
/* Calls `take` for each row; a nonzero status ends the reading. `vectors`: rows describe vectors stored elsewhere and
 * need no path; it is then "". *unused: the first ignored column, or NULL. The caller must free it (mr_free), also on
 * failure. */
int mr_manifest_read(const char *path, bool vectors, int (*take)(void *context, const mr_manifest_row *row),
                     void *context, char **unused);
