#include "stages/media/media_tap.h"

#include <libavutil/error.h>
#include <libavutil/mem.h>

enum { BUFFER = 32768 };

typedef struct state {
    AVIOContext *from;
    mr_tap_look *look;
    void *context;
    int refusal; /* an AVERROR; 0: none */
} state;

static int read_tap(void *context, uint8_t *to, int room) {
    state *at = context;
    const int64_t offset = avio_tell(at->from);
    const int bytes = at->refusal ? at->refusal : avio_read_partial(at->from, to, room);
    if (bytes > 0)
        at->refusal = at->look(at->context, offset, to, (size_t)bytes);
    return at->refusal ? at->refusal : bytes ? bytes : AVERROR_EOF;
}

static int64_t seek_tap(void *context, int64_t offset, int whence) {
    state *at = context;
    return whence == AVSEEK_SIZE ? avio_size(at->from) : avio_seek(at->from, offset, whence);
}

int mr_tap_open(AVIOContext **tap, AVIOContext *from, mr_tap_look *look, void *context) {
    state *at = av_mallocz(sizeof *at);
    uint8_t *buffer = av_malloc(BUFFER);
    *tap = NULL;
    if (at && buffer)
        *tap = avio_alloc_context(buffer, BUFFER, 0, at, read_tap, NULL, seek_tap);
    if (!*tap) {
        av_free(buffer);
        av_free(at);
        return AVERROR(ENOMEM);
    }
    *at = (state){.from = from, .look = look, .context = context};
    (*tap)->seekable = from->seekable;
    return 0;
}

void mr_tap_close(AVIOContext **tap) {
    if (!*tap)
        return;
    av_freep(&(*tap)->opaque);
    av_freep(&(*tap)->buffer);
    avio_context_free(tap);
}
