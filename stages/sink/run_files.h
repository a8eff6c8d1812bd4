/* The list of files that one run has written, one a line, for a run that goes on. Files of earlier runs, which may have
 * records of the same frames, are not in it. A line is on the disk before mr_run_files_add returns. Errors: those of
 * file.h. */
#pragma once

/* Removes the list of an earlier run. */
int mr_run_files_begin(const char *list);
int mr_run_files_add(const char *list, const char *path);
/* Calls `take` with each path, oldest first, until it fails. No list is an empty one. */
int mr_run_files_read(const char *list, int (*take)(void *context, const char *path), void *context);
