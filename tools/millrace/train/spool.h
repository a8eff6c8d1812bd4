/* Carries vectors from the node that takes them to the training process: a file with one record per vector.
 *
 *     64 bytes   width (uint64; 0: none yet), files (uint64), zeros
 *     records    { file (uint64), time (int64), frame identity (mr_identity), checksum over these and the vector
 *                (uint64), width floats }
 *
 * Records are appended. A process that replaces a killed one overwrites unfinished data. Vectors that it receives again
 * are stored twice, but given once. A record with a wrong checksum (after a power cut) is not given. Numbers are in
 * machine order. Only one process at a time may write; one thread at a time. */
#pragma once

#include <stddef.h>

#include "tools/millrace/train/extract.h"

enum { MR_SPOOL_PATH = 4096 + 16 };

typedef struct mr_spool {
    char path[MR_SPOOL_PATH];
    int fd;
    size_t files, width, records;
    size_t damaged; /* records that _read has skipped */
} mr_spool;

/* Opens the spool in a folder for `files` files: creates it, or continues an existing one. MR_ERROR_IO,
 * MR_ERROR_PERMISSION; MR_ERROR_DATA if the existing one has another number of files. */
int mr_spool_open(mr_spool *spool, const char *folder, size_t files);
/* MR_ERROR_DATA if the length differs from the others; MR_ERROR_IO. */
int mr_spool_put(mr_spool *spool, const mr_taken *from, const float *vector, size_t length);
/* Gives each vector that another process has written, once, by file; within a file, in order. MR_ERROR_IO,
 * MR_ERROR_MEMORY, and `take`'s errors. */
int mr_spool_read(mr_spool *spool, mr_take_vector *take, void *user);
void mr_spool_close(mr_spool *spool);
