/* A fit's state file, to continue from. It is written whole or not at all, and shows one moment: a continued fit gives
 * the same bits as an uninterrupted one.
 *
 *     8 bytes "MRFIT 1\n"; 32 of the digest of rows and parameters; the pieces; XXH3 of all that, 8 bytes
 *
 * One thread at a time. Errors: MR_ERROR_IO, MR_ERROR_PERMISSION, MR_ERROR_MEMORY; MR_ERROR_DATA: the file is not this
 * fit's state. */
#pragma once

#include "stages/train/training.h"

/* A piece of state. The number and size of a fit's pieces must never change. */
typedef struct mr_state_piece {
    void *data;
    size_t bytes;
} mr_state_piece;
/* Reads the state to the pieces. *found: there was one, and the program wants to continue. */
int mr_state_read(const mr_fitting *training, const mr_state_piece *pieces, size_t count, bool *found);
/* Whether it is time to write it. */
bool mr_state_is_due(const mr_fitting *training);
int mr_state_write(mr_fitting *training, const mr_state_piece *pieces, size_t count);
/* Call at the end of a fit. If a kept state cannot be written, it only warns: the classifier exists. */
void mr_state_finish(mr_fitting *training, const mr_state_piece *pieces, size_t count);
void mr_state_remove(const mr_fitting *training);
/* Computes a digest over the fit's rows and parameters; a state file must match it. */
int mr_state_digest(mr_fitting *training);
