/* Files that are mapped and that other programs may make shorter meanwhile: a read past the new end is SIGBUS. The
 * process then ends with a message that names the file, and the exit code of a file that cannot be read.
 *
 * A signal from anywhere else ends the process as before. Main thread; any thread may read. */
#pragma once

#include <stddef.h>

/* Watches a mapped file until it is forgotten. At most MR_MAPPED_FILES can be watched at a time; further ones are
 * not. */
enum { MR_MAPPED_FILES = 16 };
void mr_mapped_watch(const void *data, size_t bytes, const char *path);
/* Before it is unmapped. Accepts what is not watched, and NULL. */
void mr_mapped_forget(const void *data);
