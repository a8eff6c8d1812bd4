/* SHA-256 for files and memory, as 64 hexadecimal digits. Any thread. */
#pragma once

#include <stddef.h>

enum { MR_SHA256_TEXT = 65 };

/* Sums pieces as they are added. MR_ERROR_MEMORY. _finish frees it and sets it to NULL; `text` may be NULL, and *sum
 * may be NULL if it is. */
typedef struct crypto_hash_sha256_state mr_sha256;
int mr_sha256_begin(mr_sha256 **sum);
void mr_sha256_add(mr_sha256 *sum, const void *bytes, size_t count);
void mr_sha256_finish(mr_sha256 **sum, char text[MR_SHA256_TEXT]);
/* MR_ERROR_MEMORY. */
int mr_sha256_bytes(const void *bytes, size_t count, char text[MR_SHA256_TEXT]);
/* A file's sum. MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY; MR_ERROR_DATA if it is not a
 * regular file. */
int mr_sha256_file(const char *path, char text[MR_SHA256_TEXT]);
