/* Handles mapped files that other programs may truncate: reading past the new end raises SIGBUS. The process then ends
 * with a message that names the file, and the exit code for an unreadable file.
 *
 * A signal from anywhere else ends the process as before. Main thread; any thread may read. */
#pragma once

#include <stddef.h>

/* Watches a mapped file until it is forgotten. At most MR_MAPPED_FILES can be watched at a time; further ones are
 * not. */
enum { MR_MAPPED_FILES = 16 };
void mr_mapped_watch(const void *data, size_t bytes, const char *path);
/* Must be called before unmapping. Accepts unwatched memory, and NULL. */
void mr_mapped_forget(const void *data);
