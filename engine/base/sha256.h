/* SHA-256 of files and of memory, as 64 hexadecimal digits. Any thread. */
#ifndef MILLRACE_BASE_SHA256_H
#define MILLRACE_BASE_SHA256_H

#include <stddef.h>

enum { MR_SHA256_TEXT = 65 };

/* MR_ERROR_MEMORY. */
int mr_sha256_bytes(const void *bytes, size_t count, char text[MR_SHA256_TEXT]);
/* Of a file's content. MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY; MR_ERROR_DATA if it is not
 * a regular file. */
int mr_sha256_file(const char *path, char text[MR_SHA256_TEXT]);

#endif
