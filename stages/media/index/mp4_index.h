/* Computes in advance how much memory libavformat needs for an MP4's index (ISO/IEC 14496-12).
 *
 * The demuxer keeps 24 bytes for each sample that a track or fragment claims, and more for composition times, edits and
 * fragments. In 20 bytes, a file can claim billions of samples: with a constant sample size, or with fragment defaults.
 *
 * Follows boxes as libavformat does, wherever they are, and adds up what they claim. Bytes must be fed before
 * libavformat reads them. One thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct mr_mp4_index mr_mp4_index;

/* NULL: no memory. */
mr_mp4_index *mr_mp4_index_create(void);
void mr_mp4_index_destroy(mr_mp4_index **index);
/* Feeds bytes and the file offset. Bytes that were fed before, or in boxes that are not inspected, can be omitted. */
void mr_mp4_index_feed(mr_mp4_index *index, int64_t offset, const uint8_t *data, size_t bytes);
/* The least memory that the boxes need. UINT64_MAX: unknown, since the index is compressed ("cmov"), or tables are
 * where no program writes them. */
uint64_t mr_mp4_index_bytes(const mr_mp4_index *index);
