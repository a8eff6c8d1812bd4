/* Files of a folder, or that match a glob, that are not read: counted by kind, so that a person learns of them. One
 * thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { MR_SKIPPED_FILES_ENDINGS = 4, MR_SKIPPED_FILES_ENDING = 12, MR_SKIPPED_FILES_TEXT = 256 };

/* All zero: none. */
typedef struct mr_skipped_files {
    size_t pictures, videos, others, folders, special; /* special: pipes, sockets and devices, whatever their names */
    char ending[MR_SKIPPED_FILES_ENDINGS][MR_SKIPPED_FILES_ENDING]; /* of others, in byte order: the first of them */
    bool more_endings;
} mr_skipped_files;

/* Counts one by its name, or a folder. */
void mr_skipped_files_add(mr_skipped_files *left, const char *path, bool is_folder);
bool mr_skipped_files_any(const mr_skipped_files *left);
/* "2 videos, 3 files of other kinds (.raw .txt) and 1 folder"; "" if there are none. */
const char *mr_skipped_files_print(const mr_skipped_files *left, char text[MR_SKIPPED_FILES_TEXT]);
