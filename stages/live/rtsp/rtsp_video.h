/* An RTSP session's video: RTP and RTCP packets come in, stream packets go out. RTP packets are put in order (rtp.h)
 * and become units (depacketize.h); each unit is a packet with a picture. Parameter sets, or the first picture,
 * describe the media. One thread at a time. `now_ns` is CLOCK_MONOTONIC. */
#pragma once

#include "stages/live/connection/connection.h"
#include "stages/live/rtsp/rtcp.h"
#include "stages/live/rtsp/sdp.h"

typedef struct mr_rtsp_video {
    const mr_connection_params *params;
    const mr_sdp *sdp;
    mr_rtp_order *order;
    mr_depacketizer *units;
    mr_rtcp rtcp;
    mr_rtp_packet waiting;    /* a packet that the order has no room for */
    bool has_waiting;
    mr_rtp_unit unit;         /* complete, but not given yet */
    bool has_unit;
    bool dropped;             /* earlier units were dropped, since none had the picture size */
    int64_t held_ns;          /* until when a unit is held (depacketize.h); 0: none is held */
    mr_media *media;
    mr_survey survey;
    uint64_t version;         /* version that `media`'s parameter sets have */
    bool described;           /* the picture size is known */
    int width, height;        /* for JPEG */
    uint64_t given;           /* units */
    uint64_t foreign;         /* packets whose payload type differs from `sdp`'s */
    int foreign_type;         /* the last one's type */
    int64_t first_time_ns, first_arrived_ns; /* first unit's */
    bool clock_reported;      /* has logged that the clock differs from the announced one */
    mr_connection_counts counts;
} mr_rtsp_video;

/* `params` and `sdp` must stay valid. latency_ns: as mr_rtp_order_create. Must be closed even after failure. */
int mr_rtsp_video_open(mr_rtsp_video *video, const mr_connection_params *params, const mr_sdp *sdp,
                       int64_t latency_ns);
/* Accepts one that is zero or closed. */
void mr_rtsp_video_close(mr_rtsp_video *video);

/* Call when an RTP or RTCP packet arrives. */
void mr_rtsp_video_put(mr_rtsp_video *video, const uint8_t *data, size_t bytes, int64_t now_ns);
void mr_rtsp_video_put_report(mr_rtsp_video *video, const uint8_t *data, size_t bytes, int64_t now_ns);
/* As mr_rtcp_write. */
size_t mr_rtsp_video_report(mr_rtsp_video *video, uint8_t data[MR_RTCP_BYTES], int64_t now_ns);
/* Call when no packet follows: the remaining ones can be put into units. */
void mr_rtsp_video_end(mr_rtsp_video *video);

/* Whether a unit is complete. */
bool mr_rtsp_video_has_unit(mr_rtsp_video *video);
/* Moves the next packet in order into its unit; false: there is none. */
bool mr_rtsp_video_advance(mr_rtsp_video *video, int64_t now_ns);
/* Call after the last packet: ends an open unit. Returns as mr_rtsp_video_has_unit. */
bool mr_rtsp_video_end_unit(mr_rtsp_video *video);
/* Gives a held unit after a while, without waiting for the next packet. Returns true if it did. */
bool mr_rtsp_video_stop_holding(mr_rtsp_video *video, int64_t now_ns);
/* When mr_rtsp_video_advance or _stop_holding may return something else without another packet; INT64_MAX: never. */
int64_t mr_rtsp_video_due_ns(const mr_rtsp_video *video);
/* Whether a unit is incomplete and more packets should follow immediately. */
bool mr_rtsp_video_is_partial(const mr_rtsp_video *video);
/* Whether the sender has left. */
bool mr_rtsp_video_has_left(const mr_rtsp_video *video);
/* MR_ERROR_DATA: too many payloads are not understood, and no picture can be expected. */
int mr_rtsp_video_check(const mr_rtsp_video *video);

/* Takes the complete unit as a packet. MR_ERROR_MEMORY. */
int mr_rtsp_video_take(mr_rtsp_video *video, int64_t now_ns, mr_packet *packet);
/* Describes the pictures. MR_ERROR_AGAIN: it needs another unit, and has dropped the complete one. */
int mr_rtsp_video_survey(mr_rtsp_video *video, mr_survey *survey);

/* As mr_connection_type has it. */
void mr_rtsp_video_remark(const mr_rtsp_video *video, char *text, size_t room);
/* Packets, bytes, losses and jitter. */
mr_connection_counts mr_rtsp_video_counts(const mr_rtsp_video *video);
