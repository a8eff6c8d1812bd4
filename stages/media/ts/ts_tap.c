#include "stages/media/ts/ts_tap.h"

#include <libavutil/error.h>
#include <libavutil/mem.h>

enum { BUFFER = 32768 };

typedef struct state {
    AVIOContext *from;
    mr_ts_scan *scan;
} state;

static int read_tap(void *context, uint8_t *to, int room) {
    state *at = context;
    const int64_t offset = avio_tell(at->from);
    const int bytes = avio_read_partial(at->from, to, room);
    if (bytes > 0)
        mr_ts_scan_feed(at->scan, offset, to, (size_t)bytes);
    return bytes ? bytes : AVERROR_EOF;
}

static int64_t seek_tap(void *context, int64_t offset, int whence) {
    state *at = context;
    return whence == AVSEEK_SIZE ? avio_size(at->from) : avio_seek(at->from, offset, whence);
}

static void release(state *at) {
    if (at)
        mr_ts_scan_destroy(&at->scan);
    av_free(at);
}

int mr_ts_tap_open(AVIOContext **tap, AVIOContext *from) {
    state *at = av_mallocz(sizeof *at);
    uint8_t *buffer = av_malloc(BUFFER);
    *tap = NULL;
    if (at && buffer && (at->scan = mr_ts_scan_create()))
        *tap = avio_alloc_context(buffer, BUFFER, 0, at, read_tap, NULL, seek_tap);
    if (!*tap) {
        av_free(buffer);
        release(at);
        return AVERROR(ENOMEM);
    }
    at->from = from;
    (*tap)->seekable = from->seekable;
    return 0;
}

void mr_ts_tap_close(AVIOContext **tap) {
    if (!*tap)
        return;
    release((*tap)->opaque);
    av_freep(&(*tap)->buffer);
    avio_context_free(tap);
}

const mr_ts_scan *mr_ts_tap_scan(const AVIOContext *tap) {
    return tap ? ((const state *)tap->opaque)->scan : NULL;
}
