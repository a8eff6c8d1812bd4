/* Files that are mapped and that other programs may make shorter meanwhile: a read past the new end is SIGBUS. The
 * process then ends with a message that names the file, and the exit code of a file that cannot be read.
 *
 * A signal from anywhere else ends the process as before. Main thread; reads may be from any. */
#pragma once

#include <stddef.h>

/* From now on until it is forgotten. Of more than MR_MAPPED_FILES at a time the others are not watched. */
enum { MR_MAPPED_FILES = 16 };
void mr_mapped_watch(const void *data, size_t bytes, const char *path);
/* Before it is unmapped. Accepts what is not watched, and NULL. */
void mr_mapped_forget(const void *data);
