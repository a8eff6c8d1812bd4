/* Files that are written from their beginning. Any thread.
 * Errors: MR_ERROR_PERMISSION, MR_ERROR_IO, with the path and what the system says. */
#ifndef MILLRACE_BASE_FILE_H
#define MILLRACE_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>

/* Opens, or makes, a file, without waiting. A regular one is locked for as long as it is open, so that no two stages
 * or programs write into each other, and emptied only once it is locked. */
int mr_file_take(const char *path, int *fd, bool *regular);
/* Opens a regular file that is there, to read it and to write behind what it has; locked as by mr_file_take.
 * MR_ERROR_NO_INPUT where there is none, MR_ERROR_IO where it is no regular file. */
int mr_file_continue(const char *path, int *fd);
/* Puts a file with that content in the place of the one of that name, whole or not at all: it is written beside it
 * ("NAME.part"), brought to the disk, renamed, and its folder brought to the disk. One at a time for each name. */
int mr_file_replace(const char *path, const void *content, size_t bytes);
/* mr_fail with errno in words: "cannot write to results.jsonl: No space left on device". */
int mr_file_fail(const char *verb, const char *path);

#endif
