/* What an RTMP server sends after the handshake, over as many connections as it makes the client open: the client gives
 * whole FLV tags or an error, and unfinished messages stay within their bound. The first byte cuts reads. */
#include <libavformat/avio.h>
#include <libavutil/error.h>
#include <libavutil/intreadwrite.h>
#include <libavutil/mem.h>
#include <stdlib.h>
#include <string.h>

#include "stages/live/rtmp/rtmp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HANDSHAKE = 3073, BUFFER = 512, MOST = 1 << 16 };

/* Of the server; avio_close() frees what an AVIO has as its own. */
static struct {
    const uint8_t *data;
    size_t size, at, hello, cut;
} server;

static int serve(void *unused, uint8_t *to, int room) {
    size_t bytes = (size_t)room < server.cut ? (size_t)room : server.cut;
    (void)unused;
    if (server.hello) {
        bytes = bytes < server.hello ? bytes : server.hello;
        memset(to, 3, bytes);
        server.hello -= bytes;
        return (int)bytes;
    }
    const size_t left = server.size - server.at;
    bytes = bytes < left ? bytes : left;
    memcpy(to, server.data + server.at, bytes);
    server.at += bytes;
    return bytes ? (int)bytes : AVERROR_EOF;
}

static int hear(void *unused, uint8_t *data, int bytes) {
    (void)unused, (void)data;
    return bytes;
}

static int connect_server(void *unused, AVIOContext **socket) {
    (void)unused;
    server.hello = HANDSHAKE;
    *socket = avio_alloc_context(av_malloc(BUFFER), BUFFER, 1, NULL, serve, hear, NULL);
    return 0;
}

/* Only the end may be cut off. */
static void walk(AVIOContext *flv) {
    uint8_t head[13];
    if (avio_read(flv, head, sizeof head) != sizeof head || memcmp(head, "FLV", 3) != 0)
        abort();
    while (avio_read(flv, head, 11) == 11) {
        const int64_t bytes = AV_RB24(head + 1), from = avio_tell(flv);
        avio_skip(flv, bytes + 4);
        if (bytes > MOST || avio_tell(flv) != from + bytes + 4)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int refusal = 0;
    mr_rtmp *rtmp = NULL;
    if (!size)
        return 0;
    server.data = data + 1;
    server.size = size - 1;
    server.at = 0;
    server.cut = data[0] ? data[0] : 4096;
    const mr_rtmp_params params = {.url = "rtmp://host/app/name", .user = "u", .password = "p", .most_bytes = MOST,
                                   .refusal = &refusal, .connect = connect_server};
    if (!mr_rtmp_open(&rtmp, &params))
        walk(mr_rtmp_flv(rtmp));
    mr_rtmp_close(&rtmp);
    return 0;
}
