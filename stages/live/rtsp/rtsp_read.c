/* Reading: makes units from network packets, and stream packets from units. */
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "millrace/status.h"
#include "stages/live/rtsp/rtsp.h"

static const int64_t second_ns = 1000000000, millisecond_ns = 1000000;

/* ---- packets and messages ---------------------------------------------------------------------------------------- */

static int take_play_answer(mr_rtsp *rtsp, const mr_rtsp_message *message) {
    if (message->status == 200) {
        rtsp->plays = true;
        return MR_OK;
    }
    if (message->status == 401 && !rtsp->played_again && mr_rtsp_auth_read(&rtsp->talk.auth, message,
                                                                              rtsp->talk.digest_only)) {
        rtsp->played_again = true;
        return mr_rtsp_play(rtsp);
    }
    return mr_rtsp_refused(rtsp, "PLAY", message);
}

static int take_message(mr_rtsp *rtsp, const mr_rtsp_message *message) {
    if (message->status == 0) {
        const int status = mr_rtsp_talk_answer(&rtsp->talk, message);
        return !status && strcmp(message->words, "TEARDOWN") == 0 ? MR_END : status;
    }
    if (message->status < 200)
        return MR_OK;
    const long count = mr_rtsp_header_number(message, "CSeq", UINT32_MAX, rtsp->play);
    const bool of_later = rtsp->talk.sequence != rtsp->play && count == (long)rtsp->talk.sequence;
    if (!rtsp->plays && !of_later && mr_rtsp_talk_is_answer(&rtsp->talk, message, rtsp->play))
        return take_play_answer(rtsp, message);
    /* Handles an answer to a keep-alive request. */
    if (message->status == 454)
        return mr_fail(MR_ERROR_IO, "%s: 454 %s: the server has ended the session", rtsp->params.url, message->words);
    if (message->status == 401 && mr_rtsp_auth_read(&rtsp->talk.auth, message, rtsp->talk.digest_only))
        rtsp->next_keep_alive_ns = rtsp->now_ns + second_ns;
    else if (message->status >= 400)
        rtsp->has_get_parameter = false;
    return MR_OK;
}

/* Handles the next packet or message; MR_ERROR_AGAIN if all received data was handled. */
static int take_next(mr_rtsp *rtsp) {
    const uint8_t *data;
    size_t bytes;
    mr_rtsp_event event;
    if (rtsp->over_udp && mr_rtsp_udp_next(&rtsp->udp, &data, &bytes)) {
        mr_rtsp_video_put(&rtsp->video, data, bytes, rtsp->now_ns);
        return MR_OK;
    }
    const int status = mr_rtsp_talk_next(&rtsp->talk, &event);
    if (status || !event.is_packet)
        return status ? status : take_message(rtsp, &event.message);
    if (!rtsp->over_udp && event.channel == rtsp->channels[0])
        mr_rtsp_video_put(&rtsp->video, event.data, event.bytes, rtsp->now_ns);
    else if (!rtsp->over_udp && event.channel == rtsp->channels[1])
        mr_rtsp_video_put_report(&rtsp->video, event.data, event.bytes, rtsp->now_ns);
    return MR_OK;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static int send_report(mr_rtsp *rtsp) {
    uint8_t report[MR_RTCP_BYTES];
    uint32_t random = (uint32_t)rtsp->now_ns * 2654435761u;
    /* RFC 3550, 6.3.1: between 2.5 s and 7.5 s. */
    rtsp->next_report_ns = rtsp->now_ns + 5 * second_ns / 2 + (int64_t)(random % 5000) * millisecond_ns;
    const size_t bytes = mr_rtsp_video_report(&rtsp->video, report, rtsp->now_ns);
    if (!bytes)
        return MR_OK;
    if (!rtsp->over_udp)
        return mr_rtsp_talk_send_packet(&rtsp->talk, rtsp->channels[1], report, bytes);
    mr_rtsp_udp_send(&rtsp->udp, true, report, bytes);
    return MR_OK;
}

/* Performs checks, reports and keep-alive when they are due. */
static int keep_up(mr_rtsp *rtsp) {
    int status = mr_rtsp_video_check(&rtsp->video);
    if (!status && rtsp->now_ns >= rtsp->next_report_ns)
        status = send_report(rtsp);
    if (!status && rtsp->now_ns >= rtsp->next_keep_alive_ns) {
        rtsp->next_keep_alive_ns = rtsp->now_ns + rtsp->keep_alive_ns;
        const char *method = rtsp->has_get_parameter || rtsp->has_no_options ? "GET_PARAMETER" : "OPTIONS";
        status = mr_rtsp_talk_send(&rtsp->talk, method, rtsp->control, "");
    }
    return status;
}

static int64_t sooner(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Reads the sockets that have data. */
static int fill(mr_rtsp *rtsp, bool talk, bool rtp, bool rtcp) {
    uint8_t report[2048];
    size_t bytes;
    int status = MR_OK;
    rtsp->now_ns = mr_now_ns();
    if (rtp)
        mr_rtsp_udp_fill(&rtsp->udp);
    for (int i = 0; rtcp && i < 16 && mr_rtsp_udp_report(&rtsp->udp, report, sizeof report, &bytes); i++)
        mr_rtsp_video_put_report(&rtsp->video, report, bytes, rtsp->now_ns);
    if (talk && !(status = mr_rtsp_talk_flush(&rtsp->talk)))
        status = mr_rtsp_talk_fill(&rtsp->talk);
    if (status == MR_END)
        return mr_fail(MR_ERROR_IO, "%s: the server closed the connection", rtsp->params.url);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

/* A picture's packets come close together, and waking once for all costs less than once for each. While a picture is
 * incomplete, reading therefore pauses briefly instead of polling. If a sender spreads its packets, that gains nothing,
 * and reading stops pausing for a while.
 *
 * SO_RCVLOWAT would save two of three wake-ups, even with 19 bytes (to sleep through an access unit delimiter). But
 * pictures then come 42 ms late: unread bytes are acknowledged after 40 ms, and a sender with Nagle's algorithm holds
 * the rest of the picture until then. */
static bool gathers(mr_rtsp *rtsp) {
    enum { PAUSE = 16, LEAST_GAIN = 2 };
    if (rtsp->gathered && mr_rtsp_video_counts(&rtsp->video).packets - rtsp->gathered_from < LEAST_GAIN)
        rtsp->gather_pause = PAUSE;
    rtsp->gathered = false;
    if (rtsp->gather_pause > 0)
        rtsp->gather_pause--;
    else
        rtsp->gathered = mr_rtsp_video_is_partial(&rtsp->video);
    return rtsp->gathered;
}

static int gather(mr_rtsp *rtsp) {
    const int status = mr_live_wait(NULL, 0, rtsp->params.wake, mr_now_ns() + millisecond_ns);
    rtsp->gathered_from = mr_rtsp_video_counts(&rtsp->video).packets;
    return status == MR_ERROR_AGAIN ? fill(rtsp, !rtsp->over_udp, rtsp->over_udp, false) : status;
}

/* Waits until there is data to read, or something else is due. */
static int wait(mr_rtsp *rtsp, int64_t until_ns) {
    struct pollfd fds[3] = {{.fd = rtsp->talk.socket.fd, .events = mr_rtsp_talk_events(&rtsp->talk)},
                            {.fd = rtsp->over_udp ? rtsp->udp.rtp : -1, .events = POLLIN},
                            {.fd = rtsp->over_udp ? rtsp->udp.rtcp : -1, .events = POLLIN}};
    if (mr_tcp_pending(&rtsp->talk.socket))
        return fill(rtsp, true, false, false);
    if (gathers(rtsp))
        return gather(rtsp);
    until_ns = sooner(sooner(until_ns, mr_rtsp_video_due_ns(&rtsp->video)),
                      sooner(rtsp->next_keep_alive_ns, rtsp->next_report_ns));
    const int status = mr_live_wait(fds, 3, rtsp->params.wake, until_ns);
    if (status && status != MR_ERROR_AGAIN)
        return status;
    return fill(rtsp, fds[0].revents && !status, fds[1].revents && !status, fds[2].revents && !status);
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

/* Call when no packet will come: received ones are given first. */
static void end(mr_rtsp *rtsp, int status) {
    rtsp->over = status;
    if (status == MR_END)
        snprintf(rtsp->words, sizeof rtsp->words, "%s: the server has ended the stream", rtsp->params.url);
    else
        snprintf(rtsp->words, sizeof rtsp->words, "%s", mr_message());
    mr_rtsp_video_end(&rtsp->video);
}

static int ended(mr_rtsp *rtsp) {
    char remark[256];
    if (mr_rtsp_video_end_unit(&rtsp->video))
        return MR_OK;
    if (rtsp->over != MR_END && rtsp->over != MR_ERROR_IO)
        return mr_fail(rtsp->over, "%s", rtsp->words);
    mr_rtsp_video_remark(&rtsp->video, remark, sizeof remark);
    return rtsp->over == MR_END && !*remark ? MR_END : mr_fail(MR_ERROR_IO, "%s%s", rtsp->words, remark);
}

/* Whether opening is complete. */
static bool is_open(const mr_rtsp *rtsp) {
    const bool waits = rtsp->over_udp && rtsp->params.transport == MR_TRANSPORT_AUTO;
    return rtsp->plays && (!waits || mr_rtsp_video_counts(&rtsp->video).packets > 0);
}

int mr_rtsp_pump(mr_rtsp *rtsp, int64_t until_ns, bool opening) {
    for (bool last = false;;) {
        if (mr_rtsp_video_has_unit(&rtsp->video) || (opening && is_open(rtsp)))
            return MR_OK;
        if (mr_rtsp_video_advance(&rtsp->video, rtsp->now_ns))
            continue;
        if (rtsp->over)
            return ended(rtsp);
        if (mr_rtsp_video_stop_holding(&rtsp->video, rtsp->now_ns))
            continue;
        int status = take_next(rtsp);
        if (status == MR_ERROR_AGAIN && mr_rtsp_video_has_left(&rtsp->video))
            status = MR_END;
        if (status == MR_ERROR_AGAIN && last)
            return MR_ERROR_AGAIN;
        if (status == MR_ERROR_AGAIN)
            status = keep_up(rtsp);
        else if (!status)
            continue;
        if (!status)
            status = wait(rtsp, until_ns);
        if (status == MR_ERROR_CANCELLED)
            return status;
        if (status)
            end(rtsp, status);
        last = rtsp->now_ns >= until_ns;
    }
}

int mr_rtsp_read(mr_connection *connection, int64_t until_ns, mr_packet *packet) {
    mr_rtsp *rtsp = (mr_rtsp *)connection;
    const int status = mr_rtsp_pump(rtsp, until_ns, false);
    return status ? status : mr_rtsp_video_take(&rtsp->video, rtsp->now_ns, packet);
}

int mr_rtsp_survey(mr_connection *connection, mr_survey *survey) {
    mr_rtsp *rtsp = (mr_rtsp *)connection;
    const int64_t until_ns = mr_now_ns() + rtsp->params.open_timeout_ns;
    int status;
    while ((status = mr_rtsp_video_survey(&rtsp->video, survey)) == MR_ERROR_AGAIN) {
        status = mr_rtsp_pump(rtsp, until_ns, false);
        if (status == MR_END)
            return mr_fail(MR_ERROR_IO, "%s: ended before its first picture", rtsp->params.url);
        if (status)
            return status == MR_ERROR_AGAIN ? MR_OK : status;
    }
    return status;
}

void mr_rtsp_remark(const mr_connection *connection, char *text, size_t room) {
    mr_rtsp_video_remark(&((const mr_rtsp *)connection)->video, text, room);
}

/* Whether to use GET_PARAMETER for keep-alive. Some servers ignore OPTIONS for that and accept GET_PARAMETER without
 * listing it. They end the session after one or two timeouts. */
static bool wants_parameter(const mr_rtsp *rtsp) {
    const int64_t timeout_ns = 2 * rtsp->keep_alive_ns, lasted_ns = rtsp->begun_ns ? rtsp->now_ns - rtsp->begun_ns : 0;
    if (lasted_ns < timeout_ns || lasted_ns == 0)
        return false;
    return rtsp->params.by_parameter ? rtsp->has_get_parameter
                                     : !rtsp->has_get_parameter && lasted_ns < 2 * timeout_ns;
}

void mr_rtsp_count(const mr_connection *connection, mr_connection_counts *counts) {
    const mr_rtsp *rtsp = (const mr_rtsp *)connection;
    *counts = mr_rtsp_video_counts(&rtsp->video);
    counts->by_parameter = wants_parameter(rtsp);
    counts->transport = rtsp->over_udp ? MR_TRANSPORT_UDP : MR_TRANSPORT_TCP;
}
