/* Messages from an RTMP server after the handshake: the client gives whole FLV tags or an error. The first byte, times
 * 16, is the number of bytes that the first connection brings; later ones bring the rest. */
#include <libavformat/avio.h>
#include <libavutil/intreadwrite.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stages/live/rtmp/rtmp.h"
#include "tests/fuzz/fuzz.h"

enum { HANDSHAKE = 3073, MOST = 1 << 16, CONNECTIONS = 3, ASKED = 4096 };

static const uint8_t *given[2];
static size_t sizes[2];
static int servers[CONNECTIONS], connected, asked;

/* A server that has sent all at once, and hears as much as the socket holds. */
static int connect_server(mr_tcp *socket) {
    static const uint8_t hello[HANDSHAKE] = {3};
    const int part = connected > 0;
    int fds[2];
    fault_if(connected == CONNECTIONS || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) ||
             write(fds[1], hello, sizeof hello) != sizeof hello ||
             write(fds[1], given[part], sizes[part]) != (ssize_t)sizes[part] || shutdown(fds[1], SHUT_WR));
    socket->fd = fds[0];
    servers[connected++] = fds[1];
    return 0;
}

static int interrupted(void *unused) {
    return ++asked > ASKED;
}

/* Only the end may be cut off. */
static void walk(AVIOContext *flv) {
    uint8_t head[13];
    fault_if(avio_read(flv, head, sizeof head) != sizeof head || memcmp(head, "FLV", 3) != 0);
    while (avio_read(flv, head, 11) == 11) {
        const int64_t bytes = AV_RB24(head + 1), from = avio_tell(flv);
        avio_skip(flv, bytes + 4);
        fault_if(bytes > MOST || avio_tell(flv) != from + bytes + 4);
    }
}

FUZZ(data, size) {
    int refusal = 0;
    mr_rtmp *rtmp = NULL;
    if (!size)
        return;
    const size_t first = 16u * data[0] < size - 1 ? 16u * data[0] : size - 1;
    given[0] = data + 1;
    given[1] = given[0] + first;
    sizes[0] = first;
    sizes[1] = size - 1 - first;
    connected = asked = 0;
    const mr_rtmp_params params = {.url = "rtmp://host/app/name", .name = "name", .user = "u", .password = "p",
                                   .most_bytes = MOST, .refusal = &refusal, .interrupt = {interrupted, NULL},
                                   .connect = connect_server};
    if (!mr_rtmp_open(&rtmp, &params))
        walk(mr_rtmp_flv(rtmp));
    mr_rtmp_close(&rtmp);
    while (connected)
        close(servers[--connected]);
}
