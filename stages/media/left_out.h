/* Files of a folder, or that match a glob, that are not read: counted by kind, so that a person learns of them. One
 * thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { MR_LEFT_OUT_ENDINGS = 4, MR_LEFT_OUT_ENDING = 12, MR_LEFT_OUT_TEXT = 256 };

/* All zero: none. */
typedef struct mr_left_out {
    size_t pictures, videos, others, folders, special; /* special: pipes, sockets and devices, whatever their names */
    char ending[MR_LEFT_OUT_ENDINGS][MR_LEFT_OUT_ENDING]; /* of others, in byte order: the first of them */
    bool more_endings;
} mr_left_out;

/* Counts one by its name, or a folder. */
void mr_left_out_add(mr_left_out *left, const char *path, bool is_folder);
bool mr_left_out_any(const mr_left_out *left);
/* "2 videos, 3 files of other kinds (.raw .txt) and 1 folder"; "" if there are none. */
const char *mr_left_out_print(const mr_left_out *left, char text[MR_LEFT_OUT_TEXT]);
