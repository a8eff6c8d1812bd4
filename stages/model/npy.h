/* NumPy's .npy files (format versions 1 and 2; numpy.lib.format): matrices of little-endian floats in C order.
 *
 * Errors: MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY; MR_ERROR_DATA, with file and reason, if
 * the file is not a supported array. Any thread. */
#pragma once

#include <stddef.h>

#include "engine/base/sha256.h"

typedef struct mr_matrix_f32 {
    size_t rows, columns;
    float *data; /* rows x columns, dense, 64-byte aligned */
} mr_matrix_f32;

/* Reads a 2-dimensional f4 or f8 array (rounded to f4) with at most MR_NPY_MAX_BYTES. NaN, infinite numbers and numbers
 * too large for f4 are refused, with row and column. */
enum { MR_NPY_MAX_BYTES = 1 << 30 };
int mr_npy_read(const char *path, mr_matrix_f32 *matrix);
/* Also returns a digest over all bytes in the file. */
int mr_npy_read_digest(const char *path, mr_matrix_f32 *matrix, char digest[MR_SHA256_TEXT]);
/* Performs the same checks without keeping the numbers. */
int mr_npy_look(const char *path, mr_matrix_f32 *matrix);
void mr_npy_free(mr_matrix_f32 *matrix);
/* Writes a new file, format version 1, and flushes it to disk. */
int mr_npy_write(const char *path, const mr_matrix_f32 *matrix);
