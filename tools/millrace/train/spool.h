/* Vectors on their way from the node that takes them to the process that trains: a file with a record for each.
 *
 *     64 bytes   width (uint64; 0: none has come), files (uint64), zeros
 *     records    { file (uint64), time (int64), identity of the frame (mr_identity), sum of these and of the vector
 *                (uint64), width floats }
 *
 * Records are appended. What a process that is killed has left unfinished is written over by the one that is started in
 * its place; what that one is sent again stands there twice, and is given once. A record whose sum is wrong, as after a
 * power cut, is not given. Numbers are the machine's own. One
 * process at a time writes; one thread at a time. */
#pragma once

#include <stddef.h>

#include "tools/millrace/train/extract.h"

enum { MR_SPOOL_PATH = 4096 + 16 };

typedef struct mr_spool {
    char path[MR_SPOOL_PATH];
    int fd;
    size_t files, width, records;
    size_t damaged; /* records that _read has not given */
} mr_spool;

/* The spool of a folder, of vectors of so many files: makes one, or goes on with the one that is there. MR_ERROR_IO,
 * MR_ERROR_PERMISSION; MR_ERROR_DATA if the one that is there is of another number of files. */
int mr_spool_open(mr_spool *spool, const char *folder, size_t files);
/* MR_ERROR_DATA if its length is not that of the others; MR_ERROR_IO. */
int mr_spool_put(mr_spool *spool, const mr_taken *from, const float *vector, size_t length);
/* Gives each vector that another process has put there once, by file, and those of one file in their order.
 * MR_ERROR_IO, MR_ERROR_MEMORY, and errors of `take`. */
int mr_spool_read(mr_spool *spool, mr_take_vector *take, void *user);
void mr_spool_close(mr_spool *spool);
