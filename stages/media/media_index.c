#include "stages/media/media_index.h"

#include <inttypes.h>
#include <libavutil/error.h>

#include "millrace/status.h"
#include "stages/media/media_tap.h"

static const uint64_t least_bytes = (uint64_t)256 << 20;

#define REMEDY "to read it nevertheless, write it anew: ffmpeg -i FILE -c copy NEW.mp4"

static int look(void *context, int64_t offset, const uint8_t *data, size_t bytes) {
    mr_index_bound *bound = context;
    bound->came += (int64_t)bytes;
    mr_mp4_index_feed(bound->index, offset, data, bytes);
    const uint64_t takes = mr_mp4_index_bytes(bound->index);
    const uint64_t most = least_bytes + (uint64_t)(bound->file_bytes ? bound->file_bytes : bound->came);
    if (takes <= most)
        return 0;
    bound->status =
        takes == UINT64_MAX
            ? mr_fail(MR_ERROR_DATA, "%s: its index (moov) is compressed, or has tables that do not fit into their "
                                     "boxes: how much memory it takes is not known; " REMEDY, bound->name)
            : mr_fail(MR_ERROR_DATA, "%s: its index (moov, moof) claims samples that take %" PRIu64 " MiB of memory, "
                                     "and %" PRIu64 " MiB are allowed for its size; " REMEDY,
                      bound->name, takes >> 20, most >> 20);
    return AVERROR_INVALIDDATA;
}

int mr_index_bound_open(mr_index_bound *bound, AVIOContext *from, const char *name, int64_t file_bytes) {
    *bound = (mr_index_bound){.index = mr_mp4_index_create(), .name = name, .file_bytes = file_bytes};
    if (bound->index && mr_tap_open(&bound->tap, from, look, bound) == 0)
        return MR_OK;
    mr_index_bound_close(bound);
    return mr_fail(MR_ERROR_MEMORY, "out of memory");
}

void mr_index_bound_close(mr_index_bound *bound) {
    mr_tap_close(&bound->tap);
    mr_mp4_index_destroy(&bound->index);
    *bound = (mr_index_bound){0};
}
