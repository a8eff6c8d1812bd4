/* Bounds the memory that libavformat takes for the index or header of an MP4, Matroska or MXF file (index/mp4_index.h,
 * index/mkv_index.h, index/mxf_index.h): 256 MiB and as many bytes more as are there. That suffices for 24 hours of 60
 * pictures a second with sound. If a file needs more it is refused before the memory is taken. */
#pragma once

#include <libavformat/avio.h>
#include <stdbool.h>
#include <stdint.h>

#include "stages/media/index/mkv_index.h"
#include "stages/media/index/mp4_index.h"
#include "stages/media/index/mxf_index.h"

/* Zeros: not open. It does not move while it is open. */
typedef struct mr_index_bound {
    AVIOContext *tap;   /* what libavformat is to read; NULL: not open */
    AVIOContext *from;
    mr_mp4_index *mp4;
    mr_mkv_index *mkv; /* NULL: it is not Matroska */
    mr_mxf_index mxf;
    bool is_mxf;
    const char *name;   /* of the file or stream, for messages; borrowed */
    int64_t file_bytes; /* on disk; 0: those count that came */
    int64_t came;
    int status;         /* not MR_OK: it was refused, as mr_message said then */
} mr_index_bound;

/* In front of `from`, which stays the caller's and is at its first byte. `format`: as libavformat calls it; NULL: it is
 * not known, and not MXF, as over the network. MR_ERROR_MEMORY. */
int mr_index_bound_open(mr_index_bound *bound, AVIOContext *from, const char *format, const char *name,
                        int64_t file_bytes);
/* Of zeros, too, which it becomes. */
void mr_index_bound_close(mr_index_bound *bound);
