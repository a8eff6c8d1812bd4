/* Files that are written from the start, or read whole. Any thread. Errors: MR_ERROR_PERMISSION, MR_ERROR_IO,
 * MR_ERROR_MEMORY (also: no descriptors left), with the path and the system's message. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opens, or makes, a file, without waiting. A regular one is locked for as long as it is open, so that no two stages
 * or programs write into each other, and emptied only once it is locked. */
int mr_file_take(const char *path, int *fd, bool *regular);
/* Opens an existing regular file to read it and to append to it, locked as by mr_file_take. MR_ERROR_NO_INPUT if there
 * is none, MR_ERROR_IO if it is not a regular file. */
int mr_file_continue(const char *path, int *fd);
/* Opens, or makes, a regular file to append to it, locked as by mr_file_take. */
int mr_file_append(const char *path, int *fd);
/* Empties a file that was opened so. */
int mr_file_empty(const char *path, int fd);
/* Checks that a file of that name, which does not exist, could be made; fails as mr_file_fail does. Makes nothing. */
int mr_file_can_make(const char *path);
/* Makes a folder unless it is there; not those above it. */
int mr_file_make_folder(const char *path);
/* Makes the folder that a file is in, as mr_file_make_folder. */
int mr_file_make_folder_of(const char *path);
/* Gives the folder `given`; NULL: $XDG_CACHE_HOME/millrace/NAME, else ~/.cache/millrace/NAME. Makes it with `mode`, and
 * those above it. MR_ERROR_IO also if there is no such place, or the name is too long. */
int mr_file_cache_folder(const char *name, const char *given, unsigned mode, char *folder, size_t room);
/* Makes $XDG_STATE_HOME/millrace/NAME, else ~/.local/state/millrace/NAME, which only the user may enter. As above. */
int mr_file_state_folder(const char *name, char *folder, size_t room);
/* Removes a folder with everything in it, as far as possible. Follows no links. */
void mr_file_remove_folder(const char *folder);
/* MR_ERROR_IO, with errno, if the name (or the link with that name) leads to something that is not a regular file: a
 * folder, or a device, which root could replace with a file. */
int mr_file_can_replace(const char *path);
/* Replaces the file with that name by one with this content, whole or not at all. Writes "NAME.part" beside it, syncs
 * it, renames it, and syncs the folder. Removes an old "NAME.part"; does not follow a link with that name. Keeps
 * whatever mr_file_can_replace refuses. Only one caller at a time may use a name (mr_file_lock). On failure errno has
 * the reason. */
int mr_file_replace(const char *path, const void *content, size_t bytes);
/* Writes all bytes at an offset in an open file; `path` is for the message. */
int mr_file_write_at(const char *path, int fd, const void *data, size_t bytes, int64_t at);
/* Syncs the folder that holds `path`: a file renamed there keeps the new name. */
int mr_file_sync_folder(const char *path);
/* Keeps other programs off the file with that name, which may be replaced and need not exist. Makes and locks
 * "NAME.lock", with this process's number in it. MR_ERROR_IO if it is locked already, with the owner's number; errno
 * is EWOULDBLOCK only then. A file system without locks is not a failure. mr_file_unlock closes *fd and removes
 * "NAME.lock"; the lock ends with the process in any case. */
int mr_file_lock(const char *path, int *fd);
void mr_file_unlock(const char *path, int fd);
/* Reads a regular file whole, once. `what` names it in messages: "the labels". The buffer has `room` spare bytes after
 * the file's bytes, and then a zero, which is set. The caller frees. MR_ERROR_NO_INPUT, MR_ERROR_MEMORY; MR_ERROR_DATA
 * if it is not a regular file, or larger than `most` bytes. */
typedef struct mr_file_bytes {
    uint8_t *data;
    size_t bytes;
} mr_file_bytes;
int mr_file_read(const char *what, const char *path, size_t most, size_t room, mr_file_bytes *to);
/* The first bytes of a file of the system, such as one in /proc, as a text; the path is printed. False, and an empty
 * text, if it cannot be opened. */
bool mr_file_head(char *text, size_t room, const char *path, ...) __attribute__((format(printf, 3, 4)));

/* The status of a failed system call's errno. MR_ERROR_MEMORY: the process has no memory or descriptors left, whatever
 * the file is. */
int mr_file_status(int error);
/* mr_fail with errno in words: "cannot write to results.jsonl: No space left on device". The status is
 * mr_file_status's, with MR_ERROR_IO instead of MR_ERROR_NO_INPUT. */
int mr_file_fail(const char *verb, const char *path);
