/* A connection from a live source to a camera or server, from opening to the end. A live source (live.h) opens one
 * after the other. There are three kinds: RTSP by millrace's client (rtsp/rtsp.h), everything that libavformat opens
 * (libav.h), and cameras of this machine (v4l2.h). Each of these headers declares the function that opens one.
 *
 * Only the source's thread uses a connection. Opening, reading and closing wait in poll() for sockets and for `wake`.
 * Once that is readable, opening and reading return MR_ERROR_CANCELLED within milliseconds, and closing does not wait.
 *
 * The error says whether another try may help. MR_ERROR_IO (no answer, a broken connection, a server that is not ready)
 * may go away. MR_ERROR_PERMISSION (user or password), MR_ERROR_NO_INPUT (no such stream, or no video in it),
 * MR_ERROR_DATA (a stream that is not understood), MR_ERROR_CONFIG and MR_ERROR_UNAVAILABLE (an unknown codec or
 * transport) will probably return at the next try. Messages name the URL without user and password. */
#ifndef MILLRACE_STAGES_LIVE_CONNECTION_CONNECTION_H
#define MILLRACE_STAGES_LIVE_CONNECTION_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stages/live/web/hls_position.h"
#include "stages/media/camera.h"
#include "stages/media/media_reader.h"

typedef enum mr_transport { MR_TRANSPORT_AUTO, MR_TRANSPORT_TCP, MR_TRANSPORT_UDP } mr_transport;

typedef struct mr_connection_params {
    const char *url;             /* with its scheme; without user and password */
    const char *user, *password; /* NULL: none */
    mr_transport transport;      /* of RTP. AUTO: UDP where packets come, else TCP */
    int64_t latency_ns;          /* packets that are missing or late are waited for so long */
    int64_t open_timeout_ns;     /* of opening, all steps together */
    const char *ca_file;         /* certificates that are trusted; NULL: the system's */
    const char *allow_hosts;     /* patterns of hosts that may be connected to, also by redirection, separated by
                                    commas; NULL: all */
    size_t most_bytes;           /* of one packet; larger ones count as damaged, and are not given */
    int64_t poll_ns;             /* HTTP: a request for each picture, from one to the next; 0: a stream */
    bool digest_only;            /* RTSP: a password is never sent in clear text */
    bool clock_is_unused;        /* clock: arrival: the stream's own times are not given on */
    int wake;                    /* a descriptor that becomes readable if waiting is to end; -1: none */
    mr_hls_position place;          /* of a playlist: what was read by the connection before */
    bool by_parameter;           /* of the connection before, as it was counted */
    mr_camera_wish camera;       /* of cameras of this machine */
    mr_reader_params media;      /* what media of its packets are described by: uri is `url` */
} mr_connection_params;

/* Counts since it was opened. */
typedef struct mr_connection_counts {
    uint64_t packets, bytes; /* as they came: of RTP its packets */
    uint64_t lost;           /* packets of the network that never came in time */
    uint64_t late;           /* came after they were given up: of `lost` */
    double jitter_ns;        /* RFC 3550, 6.4.1; 0: not known */
    mr_transport transport;  /* of RTP, as it was found; AUTO: not RTP, or not known yet */
    bool by_parameter;       /* the next session of RTSP is to be kept alive by GET_PARAMETER, named or not */
    mr_hls_position place;      /* of a playlist: up to where packets were given; not begun: it is none */
} mr_connection_counts;

typedef struct mr_connection mr_connection;

typedef struct mr_connection_type {
    const char *name;        /* "rtsp" */
    /* What the first packets tell. Facts that are not known stay 0. May read packets up to the first key, from which on
     * mr_connection_read still gives them; waits for it as long as opening may take. */
    int (*survey)(mr_connection *connection, mr_survey *survey);
    /* Waits until `until_ns` (CLOCK_MONOTONIC) for the next packet: MR_OK, MR_ERROR_AGAIN (none came until then),
     * MR_END (the server has ended the stream), or an error after which only close may follow. Only packets of the
     * picture's stream that can be decoded count as packets: not RTCP, sound, or keep-alive. A packet is given as soon
     * as its last byte is there, not when the next one begins.
     *
     * packet->flags: MR_FRAME_KEY, a decoder can begin here; MR_FRAME_SEAM, something is missing before it;
     * MR_FRAME_CORRUPT, something of it is missing. pts_ns and dts_ns: of the stream's clock, unwrapped, from any
     * origin; MR_NO_TIME unknown. captured_ns: when the camera took it, in ns since 1970 (UTC) by its own clock (RTCP
     * sender reports); MR_NO_TIME unknown. arrived_ns: when its last byte came, CLOCK_MONOTONIC. A new mr_media comes
     * with the first packet whose codec parameters (size, parameter sets) are others. */
    int (*read)(mr_connection *connection, int64_t until_ns, mr_packet *packet);
    /* Optional. Writes why no picture came, as far as that is known: ": packets of payload type 97 arrive, .."; "". */
    void (*remark)(const mr_connection *connection, char *text, size_t room);
    void (*count)(const mr_connection *connection, mr_connection_counts *counts);
    void (*close)(mr_connection *connection);
} mr_connection_type;

/* The head of each connection. */
struct mr_connection {
    const mr_connection_type *type;
    bool recorded; /* it has an end of its own, as a file has: MR_END is that, and it is not read in real time */
    int64_t pause_ns; /* packets come at once in so long, each time a segment of a live playlist is there; 0: singly */
};

#endif
