/* Files that are written from their beginning. Any thread.
 * Errors: MR_ERROR_PERMISSION, MR_ERROR_IO, with the path and what the system says. */
#ifndef MILLRACE_BASE_FILE_H
#define MILLRACE_BASE_FILE_H

#include <stdbool.h>

/* Opens, or makes, a file, without waiting. A regular one is locked for as long as it is open, so that no two stages
 * or programs write into each other, and emptied only once it is locked. */
int mr_file_take(const char *path, int *fd, bool *regular);
/* mr_fail with errno in words: "cannot write to results.jsonl: No space left on device". */
int mr_file_fail(const char *verb, const char *path);

#endif
