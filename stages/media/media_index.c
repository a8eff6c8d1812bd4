#include "stages/media/media_index.h"

#include <inttypes.h>
#include <libavutil/error.h>
#include <libavutil/mem.h>
#include <string.h>

#include "millrace/status.h"

#define REMEDY "to read it nevertheless, write it anew: ffmpeg -i FILE -c copy NEW.mkv"

enum { BUFFER = 32768 };
static const uint64_t least_bytes = (uint64_t)256 << 20;

/* Whether the index would be too large with the bytes that libavformat is about to read. */
static int check(mr_index_bound *bound) {
    const uint64_t takes = bound->is_mxf ? bound->mxf.bytes
                           : bound->mkv ? mr_mkv_index_bytes(bound->mkv)
                                        : mr_mp4_index_bytes(bound->mp4);
    const uint64_t most = least_bytes + (uint64_t)(bound->file_bytes ? bound->file_bytes : bound->came);
    const char *claims = bound->mkv ? "tracks or tags" : bound->is_mxf ? "pictures" : "samples or fragments";
    if (takes <= most)
        return MR_OK;
    if (takes == UINT64_MAX)
        return mr_fail(MR_ERROR_DATA, "%s: its index (moov) is compressed, or has tables that do not fit into their "
                                      "boxes: how much memory it takes is not known; " REMEDY, bound->name);
    return mr_fail(MR_ERROR_DATA, "%s: its index claims %s that take %" PRIu64 " MiB of memory, and %" PRIu64
                                  " MiB are allowed for its size; " REMEDY,
                   bound->name, claims, takes >> 20, most >> 20);
}

static void look(mr_index_bound *bound, int64_t offset, const uint8_t *data, size_t bytes) {
    if (bound->came == 0 && !bound->is_mxf && mr_mkv_begins(data, bytes) && !(bound->mkv = mr_mkv_index_create()))
        bound->status = mr_fail(MR_ERROR_MEMORY, "out of memory");
    bound->came += (int64_t)bytes;
    if (bound->is_mxf)
        mr_mxf_index_feed(&bound->mxf, offset, data, bytes);
    else if (bound->mkv)
        mr_mkv_index_feed(bound->mkv, offset, data, bytes);
    else
        mr_mp4_index_feed(bound->mp4, offset, data, bytes);
    bound->status = bound->status ? bound->status : check(bound);
}

static int read_tap(void *context, uint8_t *to, int room) {
    mr_index_bound *bound = context;
    const int64_t offset = avio_tell(bound->from);
    const int bytes = bound->status ? 0 : avio_read_partial(bound->from, to, room);
    if (bytes > 0)
        look(bound, offset, to, (size_t)bytes);
    return bound->status ? AVERROR_INVALIDDATA : bytes ? bytes : AVERROR_EOF;
}

static int64_t seek_tap(void *context, int64_t offset, int whence) {
    const mr_index_bound *bound = context;
    return whence == AVSEEK_SIZE ? avio_size(bound->from) : avio_seek(bound->from, offset, whence);
}

int mr_index_bound_open(mr_index_bound *bound, AVIOContext *from, const char *format, const char *name,
                        int64_t file_bytes) {
    uint8_t *buffer = av_malloc(BUFFER);
    *bound = (mr_index_bound){.from = from, .mp4 = mr_mp4_index_create(), .name = name, .file_bytes = file_bytes,
                              .is_mxf = format && strcmp(format, "mxf") == 0};
    if (buffer && bound->mp4)
        bound->tap = avio_alloc_context(buffer, BUFFER, 0, bound, read_tap, NULL, seek_tap);
    if (!bound->tap) {
        av_free(buffer);
        mr_index_bound_close(bound);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    bound->tap->seekable = from->seekable;
    return MR_OK;
}

void mr_index_bound_close(mr_index_bound *bound) {
    if (bound->tap)
        av_freep(&bound->tap->buffer);
    avio_context_free(&bound->tap);
    mr_mp4_index_destroy(&bound->mp4);
    mr_mkv_index_destroy(&bound->mkv);
    *bound = (mr_index_bound){0};
}
