/* Key files: a private one that only the owner may read, and a public one beside it. Any thread. Errors: as in file.h,
 * with the path. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Opens a key to read. MR_ERROR_NO_INPUT if it does not exist, with the advice to make it by `maker`, a command.
 * MR_ERROR_DATA if it is not a regular file: one without a writer, such as a FIFO, is not waited for. */
int mr_key_file_open(const char *path, const char *maker, FILE **file);
/* MR_ERROR_PERMISSION if anybody but the owner can read or change it: it is not secret. */
int mr_key_file_check_private(FILE *file, const char *path);
/* The one rule for files of secrets: keys, tokens, passwords. MR_ERROR_PERMISSION if others than the owner may read or
 * change it; `what` it holds: "a password". A group may read root's file: in a container of an ordinary user,
 * Kubernetes gives secrets to root and the user's group. */
int mr_secret_file_check(int fd, const char *path, const char *what);
/* The first line of such a file, of less than `room` bytes. Errors: also MR_ERROR_DATA if it is empty or longer. */
int mr_secret_file_read(const char *path, const char *what, char *text, size_t room);
/* Likewise for files that say who is trusted: MR_ERROR_PERMISSION if all users may change it. `what`: "which key". */
int mr_trusted_file_check(int fd, const char *path, const char *what);
/* Writes FOLDER/NAME.key, for the owner alone, and FOLDER/NAME.pub. Makes the folder if it does not exist. On failure
 * neither file exists: MR_ERROR_USAGE if the name cannot be a file name; MR_ERROR_IO, also if one exists already. */
int mr_key_file_write(const char *folder, const char *name, const char *private_text, const char *public_text);
