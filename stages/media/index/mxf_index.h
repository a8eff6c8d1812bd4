/* How much memory libavformat takes for the index tables of an MXF file (SMPTE ST 377-1), known before it takes it: 34
 * bytes for each picture that an index table segment claims, which is a number of its own in the file.
 *
 * Segments are found by their key, wherever they stand. Bytes are fed before libavformat gets them. One thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MR_MXF_KEPT = 31 };

/* Zeros: nothing was fed. */
typedef struct mr_mxf_index {
    uint64_t bytes;             /* that the segments so far take, at least */
    int64_t end;                /* of the bytes that were fed last */
    uint8_t kept[MR_MXF_KEPT];  /* the last of them, in which something may begin */
    size_t count;
    size_t left, skip;          /* bytes of the segment that is read, and of its item; 0: none is */
} mr_mxf_index;

/* Bytes, and their offset in the file. */
void mr_mxf_index_feed(mr_mxf_index *index, int64_t offset, const uint8_t *data, size_t bytes);
