/* The connection to an RTSP server: text requests and answers, with packets between them (RFC 2326, 10.12). The server
 * cannot make it use more memory than one buffer. One thread at a time.
 *
 * Error messages begin with `name`. */
#pragma once

#include "stages/live/rtsp/rtsp_message.h"
#include "stages/live/connection/tcp.h"

enum { MR_RTSP_OUT = 16384 };

typedef struct mr_rtsp_talk {
    mr_tcp socket;
    const char *name;            /* borrowed, like user and password; NULL: none */
    const char *user, *password;
    bool digest_only;            /* never send them in clear text */
    int wake;
    uint8_t *in;                 /* received bytes: from `begin` to `end` */
    size_t begin, end, used;     /* used: size of the last event, in bytes */
    size_t skipped;              /* bytes since the last message or packet that were neither */
    char out[MR_RTSP_OUT];       /* not sent yet */
    size_t out_bytes;
    uint32_t sequence;           /* last request's CSeq */
    uint32_t answered;           /* last CSeq that an answer named correctly; 0: none */
    bool other_count;            /* an answer had another CSeq than its request; this was logged */
    bool closed;                 /* the server has closed the connection, or it broke */
    mr_rtsp_auth auth;
    char session[256];           /* the session's name; "": none yet */
} mr_rtsp_talk;

/* Connects. Errors as mr_tcp_open. */
int mr_rtsp_talk_open(mr_rtsp_talk *talk, const mr_tcp_params *params, const char *user, const char *password);
/* Closes at once; accepts one that is zero or closed. */
void mr_rtsp_talk_close(mr_rtsp_talk *talk);

/* Sends a request without waiting; `headers` are lines that end in "\r\n". MR_ERROR_IO: the server does not read. */
int mr_rtsp_talk_send(mr_rtsp_talk *talk, const char *method, const char *url, const char *headers);
/* Likewise for an answer to the server's request, and for a packet. */
int mr_rtsp_talk_answer(mr_rtsp_talk *talk, const mr_rtsp_message *request);
int mr_rtsp_talk_send_packet(mr_rtsp_talk *talk, int channel, const uint8_t *data, size_t bytes);
/* Sends the rest. MR_ERROR_IO. */
int mr_rtsp_talk_flush(mr_rtsp_talk *talk);

/* A message, or a packet on a channel. */
typedef struct mr_rtsp_event {
    bool is_packet;
    int channel;
    const uint8_t *data;
    size_t bytes;
    mr_rtsp_message message;
} mr_rtsp_event;

/* Parses the next event in the received bytes; it is valid until the next call. MR_OK, MR_ERROR_AGAIN (more must be
 * read), MR_ERROR_DATA. */
int mr_rtsp_talk_next(mr_rtsp_talk *talk, mr_rtsp_event *event);
/* Reads without waiting, after mr_rtsp_talk_next has answered MR_ERROR_AGAIN: MR_OK, MR_ERROR_AGAIN, MR_END,
 * MR_ERROR_IO. */
int mr_rtsp_talk_fill(mr_rtsp_talk *talk);
/* The poll() events to wait for. */
short mr_rtsp_talk_events(const mr_rtsp_talk *talk);

/* Whether a message answers the request with this CSeq. Only one request is pending at a time: an answer with another
 * CSeq, or with none, is accepted too. It must not repeat the answer to an earlier request. */
bool mr_rtsp_talk_is_answer(mr_rtsp_talk *talk, const mr_rtsp_message *message, uint32_t sequence);
/* Sends a request and waits for the answer; packets in between are dropped. If the server asks for user and password,
 * the request is sent again with them. MR_OK: answered, with any status. MR_ERROR_IO: no answer in time, or the
 * connection closed. Also MR_ERROR_DATA, MR_ERROR_CANCELLED. */
int mr_rtsp_talk_ask(mr_rtsp_talk *talk, const char *method, const char *url, const char *headers, int64_t until_ns,
                     mr_rtsp_message *answer);
