/* Computes in advance how much memory libavformat needs for an MXF file's index tables (SMPTE ST 377-1): 34 bytes for
 * each picture that an index table segment claims. A file can claim any number.
 *
 * Segments are found by key, wherever they are. Bytes must be fed before libavformat reads them. One thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MR_MXF_KEPT = 31 };

/* Zeros: nothing was fed. */
typedef struct mr_mxf_index {
    uint64_t bytes;             /* the least memory that the segments need */
    int64_t end;                /* where the last fed bytes ended */
    uint8_t kept[MR_MXF_KEPT];  /* the last bytes, where something may begin */
    size_t count;
    size_t left, skip;          /* remaining bytes in the segment and in its item; 0: none */
} mr_mxf_index;

/* Feeds bytes and the file offset. */
void mr_mxf_index_feed(mr_mxf_index *index, int64_t offset, const uint8_t *data, size_t bytes);
