#include "stages/media/ts/ts_tap.h"

#include <libavutil/error.h>
#include <libavutil/mem.h>
#include <string.h>

enum { BUFFER = 32768 };

typedef struct state {
    AVIOContext *from;
    mr_ts_scan *scan;
    mr_ts_change begin; /* what this context begins with; no bytes: nothing */
    size_t given;       /* table bytes already given */
    int64_t next;       /* where the next context starts reading */
} state;

static int read_tables(state *at, uint8_t *to, int room) {
    const size_t left = at->begin.bytes - at->given, bytes = left < (size_t)room ? left : (size_t)room;
    memcpy(to, at->begin.tables + at->given, bytes);
    at->given += bytes;
    return (int)bytes;
}

/* Reads up to a packet end, if those are known, and turns repeated packets into null packets. */
static int read_packets(state *at, int64_t offset, uint8_t *to, int room) {
    size_t count;
    int bytes = avio_read_partial(at->from, to, room > 2 * MR_TS_RAW ? room - MR_TS_RAW : room);
    if (bytes <= 0)
        return bytes;
    mr_ts_scan_feed(at->scan, offset, to, (size_t)bytes);
    const int rest = (int)mr_ts_scan_rest(at->scan);
    const int more = rest && rest <= room - bytes ? avio_read(at->from, to + bytes, rest) : 0;
    if (more > 0) {
        mr_ts_scan_feed(at->scan, offset + bytes, to + bytes, (size_t)more);
        bytes += more;
    }
    const int64_t *repeated = mr_ts_scan_repeated(at->scan, &count);
    for (size_t i = 0; i < count; i++)
        if (repeated[i] >= offset)
            memcpy(to + (repeated[i] - offset), (uint8_t[]){0x47, 0x1f, 0xff, 0x10}, 4);
    return bytes;
}

static int read_tap(void *context, uint8_t *to, int room) {
    state *at = context;
    const int64_t offset = avio_tell(at->from);
    if (at->given < at->begin.bytes)
        return read_tables(at, to, room);
    if (mr_ts_scan_change(at->scan))
        return AVERROR_EOF;
    int bytes = read_packets(at, offset, to, room);
    const mr_ts_change *change = mr_ts_scan_change(at->scan);
    if (bytes > 0 && change) {
        bytes = change->begins > offset ? (int)(change->begins - offset) : 0;
        at->next = change->ends > offset ? change->ends : offset;
        avio_seek(at->from, at->next, SEEK_SET); /* these bytes are in `from`'s buffer */
    }
    return bytes ? bytes : AVERROR_EOF;
}

/* Where the context's first byte is in `from`. */
static int64_t base_of(const state *at) {
    return at->begin.ends - (int64_t)at->begin.bytes;
}

static int64_t seek_tap(void *context, int64_t offset, int whence) {
    state *at = context;
    const int64_t bytes = (int64_t)at->begin.bytes, base = base_of(at);
    if (whence == AVSEEK_SIZE)
        return avio_size(at->from) - base;
    if (whence != SEEK_SET)
        return AVERROR(EINVAL);
    const int64_t found = avio_seek(at->from, base + (offset < bytes ? bytes : offset), SEEK_SET);
    if (found < 0)
        return found;
    at->given = (size_t)(offset < bytes ? offset : bytes);
    mr_ts_scan_stay(at->scan);
    return offset;
}

static void release(state *at) {
    if (at)
        mr_ts_scan_destroy(&at->scan);
    av_free(at);
}

/* NULL: no memory. */
static AVIOContext *make_context(state *at) {
    uint8_t *buffer = av_malloc(BUFFER);
    AVIOContext *made = buffer ? avio_alloc_context(buffer, BUFFER, 0, at, read_tap, NULL, seek_tap) : NULL;
    if (!made)
        av_free(buffer);
    else
        made->seekable = at->from->seekable;
    return made;
}

static void free_context(AVIOContext **tap) {
    av_freep(&(*tap)->buffer);
    avio_context_free(tap);
}

int mr_ts_tap_open(AVIOContext **tap, AVIOContext *from) {
    state *at = av_mallocz(sizeof *at);
    *tap = NULL;
    if (at && (at->scan = mr_ts_scan_create())) {
        at->from = from;
        *tap = make_context(at);
    }
    if (*tap)
        return 0;
    release(at);
    return AVERROR(ENOMEM);
}

void mr_ts_tap_close(AVIOContext **tap) {
    if (!*tap)
        return;
    release((*tap)->opaque);
    free_context(tap);
}

const mr_ts_scan *mr_ts_tap_scan(const AVIOContext *tap) {
    return tap ? ((const state *)tap->opaque)->scan : NULL;
}

int64_t mr_ts_tap_place(const AVIOContext *tap, int64_t offset) {
    return tap && offset >= 0 ? offset + base_of(tap->opaque) : offset;
}

uint64_t mr_ts_tap_scrambled(const AVIOContext *tap) {
    return tap ? mr_ts_scan_scrambled(mr_ts_tap_scan(tap)) : 0;
}

void mr_ts_tap_watch(AVIOContext *tap, int pid) {
    if (tap)
        mr_ts_scan_watch(((state *)tap->opaque)->scan, pid);
}

bool mr_ts_tap_has_more(const AVIOContext *tap) {
    return tap && mr_ts_scan_change(mr_ts_tap_scan(tap));
}

int mr_ts_tap_go_on(AVIOContext **tap) {
    state *at = (*tap)->opaque;
    AVIOContext *made = make_context(at);
    if (!made)
        return AVERROR(ENOMEM);
    free_context(tap);
    *tap = made;
    at->begin = *mr_ts_scan_change(at->scan);
    at->begin.ends = at->next;
    at->given = 0;
    mr_ts_scan_go_on(at->scan);
    return 0;
}
