/* Reading: packets of the network become units, and those packets of a stream. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/memory.h"
#include "millrace/stage.h"
#include "millrace/status.h"
#include "stages/live/rtsp/rtsp.h"
#include "stages/live/rtsp/rtsp_media.h"
#include "stages/media/coded/alike.h"

static const int64_t second_ns = 1000000000, millisecond_ns = 1000000;
/* How long the first unit of a connection waits for the packet after it (mr_depacketizer_is_held). */
static const int64_t held_most_ns = 50000000;

/* ---- packets and messages ---------------------------------------------------------------------------------------- */

static void put_packet(mr_rtsp *rtsp, mr_rtp_packet *packet) {
    const mr_rtp_put put = mr_rtp_order_put(rtsp->order, packet, rtsp->now_ns);
    rtsp->counts.late += put == MR_RTP_LATE;
    rtsp->has_waiting = put == MR_RTP_FULL;
    if (rtsp->has_waiting)
        rtsp->waiting = *packet;
}

static void take_packet(mr_rtsp *rtsp, const uint8_t *data, size_t bytes) {
    mr_rtp_packet packet;
    if (!mr_rtp_parse(&packet, data, bytes))
        return;
    if (packet.type != rtsp->sdp.payload) {
        rtsp->foreign++;
        rtsp->foreign_type = packet.type;
        return;
    }
    rtsp->counts.packets++;
    rtsp->counts.bytes += bytes;
    mr_rtcp_came(&rtsp->rtcp, &packet, rtsp->now_ns);
    put_packet(rtsp, &packet);
}

static void take_report(mr_rtsp *rtsp, const uint8_t *data, size_t bytes) {
    struct timespec utc;
    clock_gettime(CLOCK_REALTIME, &utc);
    mr_rtcp_read(&rtsp->rtcp, data, bytes, rtsp->now_ns, utc.tv_sec * second_ns + utc.tv_nsec);
}

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
    /* Of keeping the session alive. */
    if (message->status == 454)
        return mr_fail(MR_ERROR_IO, "%s: 454 %s: the server has ended the session", rtsp->params.url, message->words);
    if (message->status == 401 && mr_rtsp_auth_read(&rtsp->talk.auth, message, rtsp->talk.digest_only))
        rtsp->next_keep_alive_ns = rtsp->now_ns + second_ns;
    else if (message->status >= 400)
        rtsp->has_get_parameter = false;
    return MR_OK;
}

/* Takes the next packet or message; MR_ERROR_AGAIN if all that was read was taken. */
static int take_next(mr_rtsp *rtsp) {
    const uint8_t *data;
    size_t bytes;
    mr_rtsp_event event;
    if (rtsp->over_udp && mr_rtsp_udp_next(&rtsp->udp, &data, &bytes)) {
        take_packet(rtsp, data, bytes);
        return MR_OK;
    }
    const int status = mr_rtsp_talk_next(&rtsp->talk, &event);
    if (status || !event.is_packet)
        return status ? status : take_message(rtsp, &event.message);
    if (!rtsp->over_udp && event.channel == rtsp->channels[0])
        take_packet(rtsp, event.data, event.bytes);
    else if (!rtsp->over_udp && event.channel == rtsp->channels[1])
        take_report(rtsp, event.data, event.bytes);
    return MR_OK;
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

/* Whether so many payloads are not understood that no picture will come. */
static int check_payloads(const mr_rtsp *rtsp) {
    enum { MOST_REFUSED = 500 };
    uint64_t refused;
    const char *kind = mr_depacketizer_refused(rtsp->units, &refused);
    if (!kind || refused < MOST_REFUSED || refused < rtsp->counts.packets / 2)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s: sends %s, which are not read", rtsp->params.url, kind);
}

static int send_report(mr_rtsp *rtsp) {
    uint8_t report[MR_RTCP_BYTES];
    uint32_t random = (uint32_t)rtsp->now_ns * 2654435761u;
    /* RFC 3550, 6.3.1: between half and one and a half of 5 s. */
    rtsp->next_report_ns = rtsp->now_ns + 5 * second_ns / 2 + (int64_t)(random % 5000) * millisecond_ns;
    const size_t bytes = mr_rtcp_write(&rtsp->rtcp, report, rtsp->now_ns);
    if (!bytes)
        return MR_OK;
    if (!rtsp->over_udp)
        return mr_rtsp_talk_send_packet(&rtsp->talk, rtsp->channels[1], report, bytes);
    mr_rtsp_udp_send(&rtsp->udp, true, report, bytes);
    return MR_OK;
}

/* Checks, reports, and keeping the session alive, if it is time for them. */
static int keep_up(mr_rtsp *rtsp) {
    int status = check_payloads(rtsp);
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

/* Reads the sockets that have something. */
static int fill(mr_rtsp *rtsp, bool talk, bool rtp, bool rtcp) {
    uint8_t report[2048];
    size_t bytes;
    int status = MR_OK;
    rtsp->now_ns = mr_live_now_ns();
    if (rtp)
        mr_rtsp_udp_fill(&rtsp->udp);
    for (int i = 0; rtcp && i < 16 && mr_rtsp_udp_report(&rtsp->udp, report, sizeof report, &bytes); i++)
        take_report(rtsp, report, bytes);
    if (talk && !(status = mr_rtsp_talk_flush(&rtsp->talk)))
        status = mr_rtsp_talk_fill(&rtsp->talk);
    if (status == MR_END)
        return mr_fail(MR_ERROR_IO, "%s: the server closed the connection", rtsp->params.url);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

/* The packets of a picture come close together. To wake once for all of them costs less than once for each: while a
 * picture is not complete its next packets are read a little later, without polling. Where that gains nothing, since a
 * sender spreads its packets, it is not done for a while.
 *
 * SO_RCVLOWAT, even of 19 bytes to sleep through an access unit delimiter, saves two wake-ups of three and gives
 * pictures 42 ms later: bytes that are not read are acknowledged after 40 ms, and until then a sender that waits for
 * that (Nagle's algorithm) keeps the rest of the picture. */
static bool gathers(mr_rtsp *rtsp) {
    enum { PAUSE = 16, LEAST_GAIN = 2 };
    if (rtsp->gathered && rtsp->counts.packets - rtsp->gathered_from < LEAST_GAIN)
        rtsp->gather_pause = PAUSE;
    rtsp->gathered = false;
    if (rtsp->gather_pause > 0)
        rtsp->gather_pause--;
    else
        rtsp->gathered = mr_depacketizer_is_open(rtsp->units);
    return rtsp->gathered;
}

static int gather(mr_rtsp *rtsp) {
    const int status = mr_live_wait(NULL, 0, rtsp->params.wake, mr_live_now_ns() + millisecond_ns);
    rtsp->gathered_from = rtsp->counts.packets;
    return status == MR_ERROR_AGAIN ? fill(rtsp, !rtsp->over_udp, rtsp->over_udp, false) : status;
}

/* Waits until there is something to read, or to do. */
static int wait(mr_rtsp *rtsp, int64_t until_ns) {
    struct pollfd fds[3] = {{.fd = rtsp->talk.socket.fd, .events = mr_rtsp_talk_events(&rtsp->talk)},
                            {.fd = rtsp->over_udp ? rtsp->udp.rtp : -1, .events = POLLIN},
                            {.fd = rtsp->over_udp ? rtsp->udp.rtcp : -1, .events = POLLIN}};
    if (mr_rtsp_socket_pending(&rtsp->talk.socket))
        return fill(rtsp, true, false, false);
    if (gathers(rtsp))
        return gather(rtsp);
    until_ns = sooner(sooner(until_ns, mr_rtp_order_due_ns(rtsp->order)),
                      sooner(rtsp->next_keep_alive_ns, rtsp->next_report_ns));
    until_ns = rtsp->held_ns ? sooner(until_ns, rtsp->held_ns) : until_ns;
    const int status = mr_live_wait(fds, 3, rtsp->params.wake, until_ns);
    if (status && status != MR_ERROR_AGAIN)
        return status;
    return fill(rtsp, fds[0].revents && !status, fds[1].revents && !status, fds[2].revents && !status);
}

/* ---- units ------------------------------------------------------------------------------------------------------- */

/* Puts the next packet in order into its unit; false if there is none. */
static bool advance(mr_rtsp *rtsp) {
    mr_rtp_packet packet;
    if (mr_rtp_order_take(rtsp->order, &packet, rtsp->now_ns)) {
        rtsp->counts.lost += packet.lost;
        mr_depacketizer_put(rtsp->units, &packet);
        return true;
    }
    if (!rtsp->has_waiting)
        return false;
    put_packet(rtsp, &rtsp->waiting);
    return true;
}

static bool has_unit(mr_rtsp *rtsp) {
    if (!rtsp->has_unit) {
        rtsp->has_unit = mr_depacketizer_take(rtsp->units, &rtsp->unit);
        rtsp->given += rtsp->has_unit;
    }
    return rtsp->has_unit;
}

/* A unit that is held for the next packet is given without it after a while. True: it was. */
static bool stop_holding(mr_rtsp *rtsp) {
    if (!mr_depacketizer_is_held(rtsp->units)) {
        rtsp->held_ns = 0;
        return false;
    }
    rtsp->held_ns = rtsp->held_ns ? rtsp->held_ns : rtsp->now_ns + held_most_ns;
    if (rtsp->now_ns < rtsp->held_ns)
        return false;
    mr_depacketizer_release(rtsp->units);
    return true;
}

void mr_rtsp_remark(const mr_connection *connection, char *text, size_t room) {
    const mr_rtsp *rtsp = (const mr_rtsp *)connection;
    uint64_t refused = 0;
    const char *kind = mr_depacketizer_refused(rtsp->units, &refused);
    *text = '\0';
    if (rtsp->given)
        return;
    if (rtsp->foreign && !rtsp->counts.packets)
        snprintf(text, room, ": packets of payload type %d arrive, the session description names %d",
                 rtsp->foreign_type, rtsp->sdp.payload);
    else if (kind)
        snprintf(text, room, ": it sends %s, which are not read", kind);
    else if (rtsp->counts.packets)
        snprintf(text, room, ": %" PRIu64 " packets came, and no picture was complete", rtsp->counts.packets);
    else
        snprintf(text, room, ": no packet of its video came");
}

/* No packet will come: those that are here are given first. */
static void end(mr_rtsp *rtsp, int status) {
    rtsp->over = status;
    if (status == MR_END)
        snprintf(rtsp->words, sizeof rtsp->words, "%s: the server has ended the stream", rtsp->params.url);
    else
        snprintf(rtsp->words, sizeof rtsp->words, "%s", mr_message());
    mr_rtp_order_release(rtsp->order);
}

static int ended(mr_rtsp *rtsp) {
    char remark[256];
    mr_depacketizer_end(rtsp->units);
    if (has_unit(rtsp))
        return MR_OK;
    if (rtsp->over != MR_END && rtsp->over != MR_ERROR_IO)
        return mr_fail(rtsp->over, "%s", rtsp->words);
    mr_rtsp_remark(&rtsp->base, remark, sizeof remark);
    return rtsp->over == MR_END && !*remark ? MR_END : mr_fail(MR_ERROR_IO, "%s%s", rtsp->words, remark);
}

/* Whether opening has come to its end. */
static bool is_open(const mr_rtsp *rtsp) {
    return rtsp->plays && (!rtsp->over_udp || rtsp->params.transport != MR_TRANSPORT_AUTO || rtsp->counts.packets > 0);
}

int mr_rtsp_pump(mr_rtsp *rtsp, int64_t until_ns, bool opening) {
    for (bool last = false;;) {
        if (has_unit(rtsp) || (opening && is_open(rtsp)))
            return MR_OK;
        if (advance(rtsp))
            continue;
        if (rtsp->over)
            return ended(rtsp);
        if (stop_holding(rtsp))
            continue;
        int status = take_next(rtsp);
        if (status == MR_ERROR_AGAIN && rtsp->rtcp.bye)
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

/* ---- media ------------------------------------------------------------------------------------------------------- */

int mr_rtsp_renew_media(mr_rtsp *rtsp, const mr_rtp_unit *unit) {
    size_t bytes;
    mr_media *media;
    const uint8_t *sets = mr_depacketizer_sets(rtsp->units, &bytes, &rtsp->version);
    rtsp->width = unit ? unit->width : rtsp->sdp.width;
    rtsp->height = unit ? unit->height : rtsp->sdp.height;
    const mr_rtsp_facts facts = {.codec = rtsp->sdp.codec, .sets = sets, .sets_bytes = bytes,
                                 .unit = unit ? unit->data : NULL, .unit_bytes = unit ? unit->bytes : 0,
                                 .width = rtsp->sdp.codec == MR_RTP_JPEG ? rtsp->width : 0,
                                 .height = rtsp->sdp.codec == MR_RTP_JPEG ? rtsp->height : 0,
                                 .rate = rtsp->sdp.framerate};
    const int status = mr_rtsp_describe(&media, &rtsp->survey, &facts, &rtsp->params.media);
    if (status)
        return status;
    /* A new media begins new files and decoders. */
    if (rtsp->media && mr_codecs_are_alike(rtsp->media->codec, media->codec, true)) {
        mr_media_unref(&media);
        media = mr_media_ref(rtsp->media);
    }
    mr_media_unref(&rtsp->media);
    rtsp->media = media;
    rtsp->described = unit || rtsp->survey.mean_pixels > 0;
    return MR_OK;
}

/* Sizes and parameter sets change with keys. */
static bool is_other(mr_rtsp *rtsp, const mr_rtp_unit *unit) {
    size_t bytes;
    uint64_t version;
    if (!unit->key)
        return false;
    if (!rtsp->described)
        return true;
    if (rtsp->sdp.codec == MR_RTP_JPEG)
        return unit->width != rtsp->width || unit->height != rtsp->height;
    mr_depacketizer_sets(rtsp->units, &bytes, &version);
    return version != rtsp->version;
}

/* Only a sender that makes its times up goes beyond the bounds. */
static int64_t ns_of(const mr_rtsp *rtsp, int64_t time) {
    const int64_t rate = rtsp->sdp.rate;
    return mr_time_step(time % rate * second_ns / rate, time / rate, second_ns);
}

/* A clock that runs many times slower or faster than announced, such as one of 1 kHz that is announced as 90 kHz. */
static void check_clock(mr_rtsp *rtsp, const mr_packet *packet) {
    enum { LEAST_S = 3, RATIO = 10 };
    const mr_stage *stage = rtsp->params.media.stage;
    if (rtsp->given == 1) {
        rtsp->first_time_ns = packet->pts_ns;
        rtsp->first_arrived_ns = packet->arrived_ns;
    }
    const int64_t came_ns = packet->arrived_ns - rtsp->first_arrived_ns;
    if (rtsp->clock_told || !stage || rtsp->params.clock_is_unused || packet->pts_ns == MR_NO_TIME ||
        rtsp->first_time_ns == MR_NO_TIME || came_ns < LEAST_S * second_ns)
        return;
    const double rate = ((double)packet->pts_ns - (double)rtsp->first_time_ns) / (double)came_ns;
    if (rate < 0 || (rate > 1.0 / RATIO && rate < RATIO))
        return;
    mr_stage_warn(stage, "%s: times of its pictures run at %.3g of the real rate, so its clock is not one of %" PRIu32
                         " Hz: clock: arrival takes the times of arrival instead", rtsp->params.url, rate,
                  rtsp->sdp.rate);
    rtsp->clock_told = true;
}

static int make_packet(mr_rtsp *rtsp, mr_packet *packet) {
    const mr_rtp_unit *unit = &rtsp->unit;
    const size_t room = unit->bytes + MR_RTP_PADDING;
    if (is_other(rtsp, unit)) {
        const int status = mr_rtsp_renew_media(rtsp, unit);
        if (status)
            return status;
    }
    uint8_t *data = mr_alloc(room);
    *packet = (mr_packet){.buffer = data ? mr_buffer_wrap(data, room, mr_free, data) : NULL, .data = data,
                          .bytes = unit->bytes};
    if (!packet->buffer) {
        mr_free(data);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    memcpy(data, unit->data, room);
    packet->media = mr_media_ref(rtsp->media);
    packet->pts_ns = ns_of(rtsp, unit->time);
    packet->dts_ns = MR_NO_TIME;
    packet->captured_ns = mr_rtcp_captured_ns(&rtsp->rtcp, unit->timestamp, rtsp->now_ns);
    packet->arrived_ns = rtsp->now_ns;
    packet->flags = (unit->key ? MR_FRAME_KEY : 0) | (unit->gap ? MR_FRAME_SEAM : 0) |
                    (unit->damaged ? MR_FRAME_CORRUPT : 0) |
                    (unit->disposable && !unit->damaged ? MR_FRAME_DISPOSABLE : 0);
    check_clock(rtsp, packet);
    rtsp->has_unit = false;
    return MR_OK;
}

int mr_rtsp_read(mr_connection *connection, int64_t until_ns, mr_packet *packet) {
    mr_rtsp *rtsp = (mr_rtsp *)connection;
    const int status = mr_rtsp_pump(rtsp, until_ns, false);
    return status ? status : make_packet(rtsp, packet);
}

int mr_rtsp_survey(mr_connection *connection, mr_survey *survey) {
    mr_rtsp *rtsp = (mr_rtsp *)connection;
    const int64_t until_ns = mr_live_now_ns() + rtsp->params.open_timeout_ns;
    bool dropped = false;
    while (!rtsp->described) {
        const int status = mr_rtsp_pump(rtsp, until_ns, false);
        if (status == MR_ERROR_AGAIN)
            break;
        if (status == MR_END)
            return mr_fail(MR_ERROR_IO, "%s: ended before its first picture", rtsp->params.url);
        if (status)
            return status;
        if (rtsp->unit.key) {
            const int renewed = mr_rtsp_renew_media(rtsp, &rtsp->unit);
            if (renewed)
                return renewed;
        } else {
            rtsp->has_unit = false;
            dropped = true;
        }
    }
    rtsp->unit.gap = rtsp->unit.gap || (dropped && rtsp->has_unit);
    *survey = rtsp->survey;
    return MR_OK;
}

/* Some servers take OPTIONS for no sign of life, and do not name GET_PARAMETER though they take that for one. They end
 * the session when its time is over, or up to as long again after it. */
static bool wants_parameter(const mr_rtsp *rtsp) {
    const int64_t timeout_ns = 2 * rtsp->keep_alive_ns, lasted_ns = rtsp->begun_ns ? rtsp->now_ns - rtsp->begun_ns : 0;
    if (lasted_ns < timeout_ns || lasted_ns == 0)
        return false;
    return rtsp->params.by_parameter ? rtsp->has_get_parameter
                                     : !rtsp->has_get_parameter && lasted_ns < 2 * timeout_ns;
}

void mr_rtsp_count(const mr_connection *connection, mr_connection_counts *counts) {
    const mr_rtsp *rtsp = (const mr_rtsp *)connection;
    *counts = rtsp->counts;
    counts->jitter_ns = mr_rtcp_jitter_ns(&rtsp->rtcp);
    counts->by_parameter = wants_parameter(rtsp);
    counts->transport = rtsp->over_udp ? MR_TRANSPORT_UDP : MR_TRANSPORT_TCP;
}
