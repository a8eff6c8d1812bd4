/* Limits the memory that libavformat allocates for an index or header in MP4, Matroska or MXF (index/mp4_index.h,
 * index/mkv_index.h, index/mxf_index.h). The limit is 256 MiB plus the file's size; from the network, plus
 * the bytes received. That suffices for 24 hours at 60 pictures a second with sound. A file that needs more must be
 * refused before the memory is allocated. */
#pragma once

#include <libavformat/avio.h>
#include <stdbool.h>
#include <stdint.h>

#include "stages/media/index/mkv_index.h"
#include "stages/media/index/mp4_index.h"
#include "stages/media/index/mxf_index.h"

/* All zero: not open. Must not move while open. */
typedef struct mr_index_bound {
    AVIOContext *tap;   /* what libavformat must read; NULL: not open */
    AVIOContext *from;
    mr_mp4_index *mp4;
    mr_mkv_index *mkv; /* NULL: it is not Matroska */
    mr_mxf_index mxf;
    bool is_mxf;
    const char *name;   /* file or stream name for messages; borrowed */
    int64_t file_bytes; /* size on disk; 0: received bytes count */
    int64_t came;
    int status;         /* not MR_OK: refused, and mr_message had the reason */
} mr_index_bound;

/* Reads in front of `from`, which the caller keeps and which must be at its first byte. `format`: libavformat's name.
 * NULL: unknown, and not MXF (network streams). MR_ERROR_MEMORY. */
int mr_index_bound_open(mr_index_bound *bound, AVIOContext *from, const char *format, const char *name,
                        int64_t file_bytes);
/* Accepts zeros, and leaves zeros. */
void mr_index_bound_close(mr_index_bound *bound);
