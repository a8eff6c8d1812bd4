/* Session descriptions (SDP, RFC 4566), as far as video over RTP needs them. The data is untrusted. Any thread. */
#pragma once

#include "stages/live/rtsp/depacketize.h"

enum { MR_SDP_MOST_BYTES = 65536, MR_SDP_SETS_BYTES = 8192, MR_SDP_MOST_SETS = 16, MR_SDP_CONTROL = 1024 };

/* The chosen video stream: the first with a known codec. */
typedef struct mr_sdp {
    mr_rtp_codec codec;
    int payload;               /* payload type */
    uint32_t rate;             /* clock rate in Hz */
    char control[MR_SDP_CONTROL];         /* the stream's URL, or part of one; "": the session's */
    char session_control[MR_SDP_CONTROL]; /* the same for the session */
    uint8_t sets[MR_SDP_SETS_BYTES];      /* parameter sets, one after the other */
    size_t set_bytes[MR_SDP_MOST_SETS];
    int set_count;
    double framerate;          /* 0: not known */
    int width, height;         /* 0: not known */
    bool live;                 /* the range is "now" */
    bool timed;                /* the range is in normal play time, or there is none */
} mr_sdp;

/* MR_ERROR_DATA: not a description; MR_ERROR_NO_INPUT: no video in it; MR_ERROR_UNAVAILABLE: no supported one. `name`
 * is for messages. */
int mr_sdp_read(mr_sdp *sdp, const char *text, size_t bytes, const char *name);
