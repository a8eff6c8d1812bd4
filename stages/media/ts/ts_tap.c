#include "stages/media/ts/ts_tap.h"

#include <libavutil/error.h>
#include <libavutil/mem.h>

enum { BUFFER = 32768 };

typedef struct tap {
    AVIOContext *from;
    mr_ts_scan *scan;
} tap;

static int read_tap(void *context, uint8_t *to, int room) {
    tap *at = context;
    const int64_t offset = avio_tell(at->from);
    const int bytes = avio_read_partial(at->from, to, room);
    if (bytes > 0)
        mr_ts_scan_feed(at->scan, offset, to, (size_t)bytes);
    return bytes ? bytes : AVERROR_EOF;
}

static int64_t seek_tap(void *context, int64_t offset, int whence) {
    tap *at = context;
    return whence == AVSEEK_SIZE ? avio_size(at->from) : avio_seek(at->from, offset, whence);
}

static void release(tap *at) {
    if (at)
        mr_ts_scan_destroy(&at->scan);
    av_free(at);
}

int mr_ts_tap_open(AVIOContext **io, AVIOContext *from) {
    tap *at = av_mallocz(sizeof *at);
    uint8_t *buffer = av_malloc(BUFFER);
    if (at && buffer && (at->scan = mr_ts_scan_create()))
        *io = avio_alloc_context(buffer, BUFFER, 0, at, read_tap, NULL, seek_tap);
    if (!at || !at->scan || !*io) {
        av_free(buffer);
        release(at);
        return AVERROR(ENOMEM);
    }
    at->from = from;
    (*io)->seekable = from->seekable;
    return 0;
}

static tap *tap_of(const AVIOContext *io) {
    return io && io->read_packet == read_tap ? io->opaque : NULL;
}

bool mr_ts_tap_close(AVIOContext *io) {
    tap *at = tap_of(io);
    if (!at)
        return false;
    avio_close(at->from);
    release(at);
    av_freep(&io->buffer);
    avio_context_free(&io);
    return true;
}

const mr_ts_scan *mr_ts_tap_scan(const AVIOContext *io) {
    const tap *at = tap_of(io);
    return at ? at->scan : NULL;
}
