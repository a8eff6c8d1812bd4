/* The RTSP client: an mr_connection (connection.h). rtsp.c opens it, rtsp_read.c reads it. One thread at a time. */
#ifndef MILLRACE_STAGES_LIVE_RTSP_RTSP_H
#define MILLRACE_STAGES_LIVE_RTSP_RTSP_H

#include "stages/live/connection/connection.h"
#include "stages/live/rtsp/depacketize.h"
#include "stages/live/rtsp/rtcp.h"
#include "stages/live/rtsp/rtsp_talk.h"
#include "stages/live/rtsp/rtsp_udp.h"
#include "stages/live/rtsp/sdp.h"

typedef struct mr_rtsp {
    mr_connection base;
    mr_connection_params params;   /* with strings of its own */
    int64_t until_ns;              /* of opening */

    mr_rtsp_url url;               /* where it is, after redirections */
    mr_rtsp_talk talk;
    mr_rtsp_udp udp;
    bool over_udp;
    int channels[2];               /* of RTP and RTCP over TCP */
    mr_sdp sdp;
    char control[MR_RTSP_MOST_URL], stream[MR_RTSP_MOST_URL]; /* URLs of the session and of its video */
    uint32_t play;                 /* CSeq of PLAY */
    bool plays;                    /* it was answered */
    bool played_again;             /* it was sent twice, for a new nonce */
    bool has_get_parameter;
    bool has_no_options;           /* the server closes the connection if it is asked for OPTIONS */
    int64_t begun_ns;              /* when the session began; 0: it has not */
    int64_t keep_alive_ns;         /* how often the session is to be kept alive */
    int64_t next_keep_alive_ns, next_report_ns; /* CLOCK_MONOTONIC */

    mr_rtp_order *order;
    mr_depacketizer *units;
    mr_rtcp rtcp;
    mr_rtp_packet waiting;         /* a packet that the order has no room for */
    bool has_waiting;
    mr_rtp_unit unit;              /* complete, and not given */
    bool has_unit;
    int64_t now_ns;                /* when packets were read last */
    bool gathered;                 /* the last wait was for more packets of a picture, */
    uint64_t gathered_from;        /* when so many had come; */
    int gather_pause;              /* so often it will not be done */

    mr_media *media;
    mr_survey survey;
    uint64_t version;              /* of the parameter sets that it has */
    bool described;                /* it has the size of its pictures */
    int width, height;             /* of JPEG */

    uint64_t given;                /* units */
    uint64_t foreign;              /* packets of another payload type than that of `sdp`, */
    int foreign_type;              /* and that of the last of them */
    int64_t held_ns;               /* until when a unit is held (depacketize.h); 0: none is */
    int64_t first_time_ns, first_arrived_ns; /* of the first unit */
    bool clock_told;               /* that its clock is not as announced */

    mr_connection_counts counts;
    int over;                      /* no packet will come: MR_END or an error */
    char words[512];               /* of it */
} mr_rtsp;

int mr_connection_open_rtsp(mr_connection **connection, const mr_connection_params *params);

/* Reads until a unit is complete (MR_OK, rtsp->unit), or until that time (MR_ERROR_AGAIN). While `opening` MR_OK means
 * also that PLAY was answered. */
int mr_rtsp_pump(mr_rtsp *rtsp, int64_t until_ns, bool opening);
/* Sends PLAY, whose answer mr_rtsp_pump reads. */
int mr_rtsp_play(mr_rtsp *rtsp);
/* An error for the status of an answer. */
int mr_rtsp_refused(const mr_rtsp *rtsp, const char *method, const mr_rtsp_message *answer);

int mr_rtsp_survey(mr_connection *connection, mr_survey *survey);
int mr_rtsp_read(mr_connection *connection, int64_t until_ns, mr_packet *packet);
void mr_rtsp_remark(const mr_connection *connection, char *text, size_t room);
void mr_rtsp_count(const mr_connection *connection, mr_connection_counts *counts);
/* Describes the media anew by the parameter sets that are known, and by `unit` if it is not NULL. */
int mr_rtsp_renew_media(mr_rtsp *rtsp, const mr_rtp_unit *unit);

#endif
