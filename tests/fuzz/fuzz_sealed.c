/* Encrypted playlist parts: any bytes after any key, read in pieces. */
#include <libavutil/error.h>
#include <libavutil/mem.h>
#include <string.h>

#include "stages/live/web/sealed.h"
#include "tests/fuzz/fuzz.h"

enum { KEYS = 32, HEAD = KEYS + 3 };

static const uint8_t *next;
static size_t left;

static int give(void *context, uint8_t *to, int room) {
    const size_t count = left < (size_t)room ? left : (size_t)room;
    memcpy(to, next, count);
    next += count;
    left -= count;
    return count ? (int)count : AVERROR_EOF;
}

/* A source that has no URL is closed by avio_close if it has no context. */
FUZZ(data, size) {
    uint8_t got[512];
    if (size < HEAD)
        return;
    next = data + HEAD;
    left = size - HEAD;
    const int piece = 1 + (data[KEYS] | (data[KEYS + 1] & 1) << 8);
    const int64_t most = data[KEYS + 2] ? data[KEYS + 2] * 15 : INT64_MAX;
    AVIOContext *source = avio_alloc_context(av_malloc(4096), 4096, 0, NULL, give, NULL, NULL), *io = NULL;
    fault_if(!source || mr_sealed_open(&io, source, most, data, data + KEYS / 2));
    size_t count = 0;
    for (int read; (read = avio_read(io, got, piece)) > 0;)
        count += (size_t)read;
    fault_if(count > size - HEAD || (int64_t)count > most || !mr_sealed_close(io));
}
