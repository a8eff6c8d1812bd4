/* A stream's two UDP sockets, for RTP and RTCP. Packets from hosts other than the server are dropped. One thread at a
 * time. */
#pragma once

#include <stddef.h>

#include "stages/live/connection/address.h"

typedef struct mr_rtsp_batch mr_rtsp_batch;

typedef struct mr_rtsp_udp {
    int rtp, rtcp;          /* descriptors; -1: none */
    int port;               /* for RTP, even; RTCP uses the next one */
    mr_address server;      /* the server's host */
    int server_ports[2];    /* for RTP and RTCP; 0: not known */
    mr_rtsp_batch *batch;   /* packets that were read together */
} mr_rtsp_udp;

/* Binds a pair of ports at the address `own`. MR_ERROR_IO, MR_ERROR_MEMORY. */
int mr_rtsp_udp_open(mr_rtsp_udp *udp, const mr_address *own, const mr_address *server, const char *name);
/* Accepts one that is closed or zero. */
void mr_rtsp_udp_close(mr_rtsp_udp *udp);
/* Reads available RTP packets, as many as one call returns. False: none. */
bool mr_rtsp_udp_fill(mr_rtsp_udp *udp);
/* The next packet among those, valid until the next fill; false: none is left. */
bool mr_rtsp_udp_next(mr_rtsp_udp *udp, const uint8_t **data, size_t *bytes);
/* Reads an RTCP packet; false: there is none. */
bool mr_rtsp_udp_report(mr_rtsp_udp *udp, uint8_t *data, size_t room, size_t *bytes);
/* Sends a packet to the server's port for RTP or RTCP; one that cannot be sent is lost. */
void mr_rtsp_udp_send(mr_rtsp_udp *udp, bool rtcp, const uint8_t *data, size_t bytes);
