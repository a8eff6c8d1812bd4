/* The RTSP client, an mr_connection (connection.h). rtsp.c opens it, rtsp_read.c reads it, rtsp_video.h turns its video
 * into packets. One thread at a time. */
#pragma once

#include "stages/live/rtsp/rtsp_talk.h"
#include "stages/live/rtsp/rtsp_udp.h"
#include "stages/live/rtsp/rtsp_video.h"

typedef struct mr_rtsp {
    mr_connection base;
    mr_connection_params params;   /* the strings are copies */
    int64_t until_ns;              /* when opening must be complete */

    mr_rtsp_url url;               /* where it is, after redirections */
    mr_rtsp_talk talk;
    mr_rtsp_udp udp;
    bool over_udp;
    int channels[2];               /* for RTP and RTCP over TCP */
    mr_sdp sdp;
    char control[MR_RTSP_MOST_URL], stream[MR_RTSP_MOST_URL]; /* session and video URLs */
    uint32_t play;                 /* CSeq that PLAY had */
    bool plays;                    /* it was answered */
    bool played_again;             /* it was sent twice, for a new nonce */
    bool has_get_parameter;
    bool has_no_options;           /* the server closes the connection if it is asked for OPTIONS */
    int64_t begun_ns;              /* when the session began; 0: it has not */
    int64_t keep_alive_ns;         /* keep-alive interval */
    int64_t next_keep_alive_ns, next_report_ns; /* CLOCK_MONOTONIC */

    mr_rtsp_video video;
    int64_t now_ns;                /* when packets were read last */
    bool gathered;                 /* the last wait gathered more packets for a picture */
    uint64_t gathered_from;        /* packet count when that wait began */
    int gather_pause;              /* how many times to skip gathering */

    int over;                      /* no packet will come: MR_END or an error */
    char words[512];               /* the error's message */
} mr_rtsp;

int mr_connection_open_rtsp(mr_connection **connection, const mr_connection_params *params);

/* Reads until a unit is complete (MR_OK), or until that time (MR_ERROR_AGAIN). While `opening`, MR_OK can also mean
 * that PLAY was answered. */
int mr_rtsp_pump(mr_rtsp *rtsp, int64_t until_ns, bool opening);
/* Sends PLAY, whose answer mr_rtsp_pump reads. */
int mr_rtsp_play(mr_rtsp *rtsp);
/* The error that an answer's status means. */
int mr_rtsp_refused(const mr_rtsp *rtsp, const char *method, const mr_rtsp_message *answer);

int mr_rtsp_survey(mr_connection *connection, mr_survey *survey);
int mr_rtsp_read(mr_connection *connection, int64_t until_ns, mr_packet *packet);
void mr_rtsp_remark(const mr_connection *connection, char *text, size_t room);
void mr_rtsp_count(const mr_connection *connection, mr_connection_counts *counts);
