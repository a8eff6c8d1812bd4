/* How much memory libavformat's index of an MP4 (ISO/IEC 14496-12) takes, known before libavformat makes it.
 *
 * Its demuxer keeps 24 bytes for each sample that a track or fragment claims, and more for composition times, edits and
 * fragments. A table of samples of one size, or a fragment with default sizes, claims billions of samples in 20 bytes.
 *
 * Boxes are followed as libavformat follows them, wherever they stand, and their claims are added up. Bytes are fed
 * before libavformat gets them. One thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct mr_mp4_index mr_mp4_index;

/* NULL: out of memory. */
mr_mp4_index *mr_mp4_index_create(void);
void mr_mp4_index_destroy(mr_mp4_index **index);
/* Bytes, and their offset in the file. Those that were fed before, or lie in a box that is not looked into, may be left
 * out. */
void mr_mp4_index_feed(mr_mp4_index *index, int64_t offset, const uint8_t *data, size_t bytes);
/* The memory for the boxes so far, at least. UINT64_MAX: it is not known, since the index is compressed ("cmov"), or
 * tables stand in a place where no program writes them. */
uint64_t mr_mp4_index_bytes(const mr_mp4_index *index);
