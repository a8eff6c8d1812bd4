/* The list of files that a run has written, one per line, for a continued run. Earlier runs' files are not listed,
 * since they may have records for the same frames. mr_run_files_add returns after the line is on disk. Errors: as
 * file.h. */
#pragma once

/* Removes an earlier run's list. */
int mr_run_files_begin(const char *list);
int mr_run_files_add(const char *list, const char *path);
/* Calls `take` with each path, oldest first, until it fails. A missing list is empty. */
int mr_run_files_read(const char *list, int (*take)(void *context, const char *path), void *context);
