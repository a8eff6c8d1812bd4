/* Counts files in a folder, or among a glob's matches, that are not read, by kind, so that the user can be told. One
 * thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { MR_SKIPPED_FILES_ENDINGS = 4, MR_SKIPPED_FILES_ENDING = 12, MR_SKIPPED_FILES_TEXT = 256 };

/* All zero: none. */
typedef struct mr_skipped_files {
    size_t pictures, videos, others, folders, special; /* special: pipes, sockets and devices, whatever their name */
    char ending[MR_SKIPPED_FILES_ENDINGS][MR_SKIPPED_FILES_ENDING]; /* extensions in `others`: the first in byte
                                                                       order */
    bool more_endings;
} mr_skipped_files;

/* Counts one file, by name, or a folder. */
void mr_skipped_files_add(mr_skipped_files *left, const char *path, bool is_folder);
bool mr_skipped_files_any(const mr_skipped_files *left);
/* Prints "2 videos, 3 files of other kinds (.raw .txt) and 1 folder"; "" if there are none. */
const char *mr_skipped_files_print(const mr_skipped_files *left, char text[MR_SKIPPED_FILES_TEXT]);
