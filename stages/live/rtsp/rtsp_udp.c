#include "stages/live/rtsp/rtsp_udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* Pages that no packet reaches use no memory. */
enum { BATCH = 32, PACKET_BYTES = 1 << 16 };

struct mr_rtsp_batch {
    struct mmsghdr messages[BATCH];
    struct iovec rooms[BATCH];
    mr_address from[BATCH];
    uint8_t *data;
    int count, next;
};

static void set_port(mr_address *address, int port) {
    if (address->at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address->at)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)&address->at)->sin_port = htons((uint16_t)port);
}

static int port_of(const mr_address *address) {
    return ntohs(address->at.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&address->at)->sin6_port
                                                   : ((const struct sockaddr_in *)&address->at)->sin_port);
}

/* Binds a socket to the port (0: any); -1 with errno. */
static int bind_at(const mr_address *own, int port, int *bound) {
    mr_address at = *own;
    const int made = socket(own->at.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0)
        return -1;
    set_port(&at, port);
    if (bind(made, (struct sockaddr *)&at.at, at.bytes) || getsockname(made, (struct sockaddr *)&at.at, &at.bytes)) {
        const int error = errno;
        close(made);
        errno = error;
        return -1;
    }
    *bound = port_of(&at);
    return made;
}

/* RFC 3550, 11: an even port, and the next one. */
static int bind_pair(mr_rtsp_udp *udp, const mr_address *own, const char *name) {
    enum { MOST_TRIES = 64 };
    int other;
    for (int i = 0; i < MOST_TRIES; i++) {
        udp->rtp = bind_at(own, 0, &udp->port);
        if (udp->rtp < 0)
            break;
        const bool even = udp->port % 2 == 0;
        udp->rtcp = bind_at(own, even ? udp->port + 1 : udp->port - 1, &other);
        if (udp->rtcp >= 0 && !even) {
            const int odd = udp->rtp;
            udp->rtp = udp->rtcp;
            udp->rtcp = odd;
            udp->port = other;
        }
        if (udp->rtcp >= 0)
            return MR_OK;
        close(udp->rtp);
        udp->rtp = -1;
    }
    return mr_fail(MR_ERROR_IO, "%s: no two UDP ports in a row can be had: %s", name, strerror(errno));
}

static int make_batch(mr_rtsp_udp *udp) {
    mr_rtsp_batch *batch = mr_calloc(1, sizeof *batch);
    if (!batch || !(batch->data = mr_alloc((size_t)BATCH * PACKET_BYTES))) {
        mr_free(batch);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    for (int i = 0; i < BATCH; i++) {
        batch->rooms[i] = (struct iovec){batch->data + (size_t)i * PACKET_BYTES, PACKET_BYTES};
        batch->messages[i].msg_hdr = (struct msghdr){.msg_name = &batch->from[i].at, .msg_iov = &batch->rooms[i],
                                                     .msg_iovlen = 1};
    }
    udp->batch = batch;
    return MR_OK;
}

int mr_rtsp_udp_open(mr_rtsp_udp *udp, const mr_address *own, const mr_address *server, const char *name) {
    enum { RECEIVE_BYTES = 4 << 20 }; /* a second at 32 Mbit/s; the kernel may grant less */
    const int bytes = RECEIVE_BYTES;
    *udp = (mr_rtsp_udp){.rtp = -1, .rtcp = -1, .server = *server};
    int status = make_batch(udp);
    if (!status)
        status = bind_pair(udp, own, name);
    if (status)
        mr_rtsp_udp_close(udp);
    else
        setsockopt(udp->rtp, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    return status;
}

void mr_rtsp_udp_close(mr_rtsp_udp *udp) {
    if (!udp->batch)
        return;
    if (udp->rtp >= 0)
        close(udp->rtp);
    if (udp->rtcp >= 0)
        close(udp->rtcp);
    mr_free(udp->batch->data);
    mr_free(udp->batch);
    *udp = (mr_rtsp_udp){.rtp = -1, .rtcp = -1};
}

bool mr_rtsp_udp_fill(mr_rtsp_udp *udp) {
    mr_rtsp_batch *batch = udp->batch;
    for (int i = 0; i < BATCH; i++)
        batch->messages[i].msg_hdr.msg_namelen = sizeof batch->from[i].at;
    batch->count = recvmmsg(udp->rtp, batch->messages, BATCH, MSG_DONTWAIT, NULL);
    batch->next = 0;
    return batch->count > 0;
}

bool mr_rtsp_udp_next(mr_rtsp_udp *udp, const uint8_t **data, size_t *bytes) {
    mr_rtsp_batch *batch = udp->batch;
    while (batch->next < batch->count) {
        const int i = batch->next++;
        if (!mr_address_same_host(&batch->from[i], &udp->server))
            continue;
        *data = batch->rooms[i].iov_base;
        *bytes = batch->messages[i].msg_len;
        return true;
    }
    return false;
}

bool mr_rtsp_udp_report(mr_rtsp_udp *udp, uint8_t *data, size_t room, size_t *bytes) {
    for (;;) {
        mr_address from = {.bytes = sizeof from.at};
        const ssize_t got = recvfrom(udp->rtcp, data, room, MSG_DONTWAIT, (struct sockaddr *)&from.at, &from.bytes);
        if (got < 0)
            return false;
        *bytes = (size_t)got;
        if (mr_address_same_host(&from, &udp->server))
            return true;
    }
}

void mr_rtsp_udp_send(mr_rtsp_udp *udp, bool rtcp, const uint8_t *data, size_t bytes) {
    mr_address to = udp->server;
    const int port = udp->server_ports[rtcp];
    set_port(&to, port);
    if (port)
        (void)!sendto(rtcp ? udp->rtcp : udp->rtp, data, bytes, MSG_DONTWAIT, (struct sockaddr *)&to.at, to.bytes);
}
