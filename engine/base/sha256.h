/* SHA-256 of files and of memory, as 64 hexadecimal digits. Any thread. */
#pragma once

#include <stddef.h>

enum { MR_SHA256_TEXT = 65 };

/* Of what is added piece by piece. MR_ERROR_MEMORY. _finish drops it and sets it to NULL; `text` may be NULL, as *sum
 * may be without it. */
typedef struct AVSHA mr_sha256;
int mr_sha256_begin(mr_sha256 **sum);
void mr_sha256_add(mr_sha256 *sum, const void *bytes, size_t count);
void mr_sha256_finish(mr_sha256 **sum, char text[MR_SHA256_TEXT]);
/* MR_ERROR_MEMORY. */
int mr_sha256_bytes(const void *bytes, size_t count, char text[MR_SHA256_TEXT]);
/* Of a file's content. MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY; MR_ERROR_DATA if it is not
 * a regular file. */
int mr_sha256_file(const char *path, char text[MR_SHA256_TEXT]);
