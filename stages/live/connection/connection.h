/* A live source's connection to a camera or server. A live source (live.h) opens one connection after another. There
 * are three kinds: RTSP with millrace's client (rtsp/rtsp.h), everything that libavformat can open (libav.h), and local
 * cameras (v4l2.h). Each header declares the function that opens its kind.
 *
 * Only the source's thread may use a connection. Opening, reading and closing wait in poll() for sockets and for
 * `wake`. Once `wake` is readable, opening and reading return MR_ERROR_CANCELLED within milliseconds, and closing does
 * not wait.
 *
 * The error shows whether another try can help. MR_ERROR_IO (no answer, a broken connection, a server that is not
 * ready) may be temporary. These will probably recur: MR_ERROR_PERMISSION (user or password), MR_ERROR_NO_INPUT (no
 * such stream, or no video in it), MR_ERROR_DATA (unreadable stream), MR_ERROR_CONFIG, MR_ERROR_UNAVAILABLE (unknown
 * codec or transport). Messages name the URL without user and password. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stages/live/web/hls_position.h"
#include "stages/media/camera.h"
#include "stages/media/media_reader.h"

typedef enum mr_transport { MR_TRANSPORT_AUTO, MR_TRANSPORT_TCP, MR_TRANSPORT_UDP } mr_transport;

typedef struct mr_connection_params {
    const char *url;             /* must have a scheme, but no user or password */
    const char *user, *password; /* NULL: none */
    mr_transport transport;      /* for RTP. AUTO: UDP if packets come, else TCP */
    int64_t latency_ns;          /* how long to wait for missing or late packets */
    int64_t open_timeout_ns;     /* limit for opening, all steps together */
    const char *ca_file;         /* trusted certificates; NULL: the system's */
    const char *allow_hosts;     /* host patterns that may be connected to, also after redirection, separated by commas;
                                    NULL: all */
    size_t most_bytes;           /* largest packet; larger ones count as damaged and are not given */
    int64_t poll_ns;             /* HTTP: interval between requests, one per picture; 0: a stream */
    bool digest_only;            /* RTSP: never send a password in clear text */
    bool clock_is_unused;        /* clock: arrival: the stream's times are not used */
    int wake;                    /* readable if waiting must end; -1: none */
    mr_hls_position place;          /* for a playlist: how far the last connection read */
    bool by_parameter;           /* what the last connection counted */
    mr_camera_wish camera;       /* for local cameras */
    mr_reader_params media;      /* describes the packets' media: uri is `url` */
} mr_connection_params;

/* Counts since it was opened. */
typedef struct mr_connection_counts {
    uint64_t packets, bytes; /* as received; for RTP, its packets */
    uint64_t lost;           /* network packets that did not come in time */
    uint64_t late;           /* part of `lost`: came after the wait ended */
    double jitter_ns;        /* RFC 3550, 6.4.1; 0: not known */
    mr_transport transport;  /* for RTP, as negotiated; AUTO: not RTP, or not known yet */
    bool by_parameter;       /* the next RTSP session must use GET_PARAMETER for keep-alive, whether the server lists it
                                or not */
    mr_hls_position place;      /* for a playlist: how far packets were given; not begun: no playlist */
} mr_connection_counts;

typedef struct mr_connection mr_connection;

typedef struct mr_connection_type {
    const char *name;        /* "rtsp" */
    /* Describes the stream from its first packets. Unknown fields stay 0. May read up to the first key;
     * `read` then starts at that key. Waits as long as opening may take. */
    int (*survey)(mr_connection *connection, mr_survey *survey);
    /* Waits until `until_ns` (CLOCK_MONOTONIC) for the next packet. Returns MR_OK, MR_ERROR_AGAIN (none came in time),
     * MR_END (the server ended the stream), or an error, after which the caller must close. Only decodable packets from
     * the picture stream count: not RTCP, sound or keep-alive. A packet is given when its last byte arrives, not when
     * the next packet begins.
     *
     * packet->flags: MR_FRAME_KEY, decoding can begin here; MR_FRAME_SEAM, data is missing before it; MR_FRAME_CORRUPT,
     * data is missing in it. pts_ns and dts_ns: the stream's clock, unwrapped, with any origin, or MR_NO_TIME.
     * captured_ns: when the camera took the picture by its clock (RTCP sender reports), in ns since 1970 (UTC), or
     * MR_NO_TIME. arrived_ns: when the last byte came, CLOCK_MONOTONIC. If codec parameters change (size, parameter
     * sets), the first packet with new ones brings a new mr_media. */
    int (*read)(mr_connection *connection, int64_t until_ns, mr_packet *packet);
    /* Optional. Writes why no picture came, if known: ": packets of payload type 97 arrive, .."; "". */
    void (*remark)(const mr_connection *connection, char *text, size_t room);
    void (*count)(const mr_connection *connection, mr_connection_counts *counts);
    void (*close)(mr_connection *connection);
} mr_connection_type;

/* Every connection begins with it. */
struct mr_connection {
    const mr_connection_type *type;
    bool recorded; /* a recording: it has an end (MR_END) and need not be read in real time */
    int64_t pause_ns; /* packets arrive together at this interval, with each live playlist segment; 0: one by one */
};
