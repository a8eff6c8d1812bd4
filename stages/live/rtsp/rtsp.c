#include "stages/live/rtsp/rtsp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "millrace/stage.h"
#include "millrace/status.h"
#include "stages/live/connection/address.h"

static const int64_t second_ns = 1000000000;

/* ---- answers ----------------------------------------------------------------------------------------------------- */

int mr_rtsp_refused(const mr_rtsp *rtsp, const char *method, const mr_rtsp_message *answer) {
    const char *name = rtsp->params.url;
    const int code = answer->status;
    if (code == 401 && rtsp->params.user && !rtsp->talk.user)
        return mr_fail(MR_ERROR_PERMISSION, "%s: 401 %s: it leads to %s:%s, which is not given the password", name,
                       answer->words, rtsp->url.host, rtsp->url.port);
    if (code == 401 && rtsp->params.user && rtsp->talk.auth.scheme == MR_RTSP_OPEN)
        return mr_fail(MR_ERROR_PERMISSION, "%s: 401 %s: it takes a password in a way that is not used here%s", name,
                       answer->words, rtsp->params.digest_only ? " (auth: digest)" : "");
    if (code == 401)
        return mr_fail(MR_ERROR_PERMISSION, "%s: 401 %s: %s", name, answer->words,
                       rtsp->params.user ? "its user or password is wrong" : "it needs a user and a password");
    if (code == 403)
        return mr_fail(MR_ERROR_PERMISSION, "%s: 403 %s: this user may not see it", name, answer->words);
    if (code == 404 || code == 410)
        return mr_fail(MR_ERROR_NO_INPUT, "%s: %d %s: the server has no such stream: is the path right?", name, code,
                       answer->words);
    if (code == 461)
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s: 461 %s: the server does not send RTP over %s: set transport to auto",
                       name, answer->words, rtsp->over_udp ? "UDP" : "TCP");
    if (code >= 500 || code == 453 || code == 454 || code == 455 || code == 408)
        return mr_fail(MR_ERROR_IO, "%s: %d %s (%s): the server cannot serve it now", name, code, answer->words,
                       method);
    return mr_fail(MR_ERROR_DATA, "%s: %d %s: the server refuses %s", name, code, answer->words, method);
}

static int ask(mr_rtsp *rtsp, const char *method, const char *url, const char *headers, mr_rtsp_message *answer) {
    return mr_rtsp_talk_ask(&rtsp->talk, method, url, headers, rtsp->until_ns, answer);
}

/* ---- DESCRIBE ---------------------------------------------------------------------------------------------------- */

static bool redirects(int status) {
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Follows a redirection; its target must be allowed. */
static int follow(mr_rtsp *rtsp, const mr_rtsp_message *answer) {
    char place[MR_RTSP_MOST_URL];
    mr_rtsp_url next;
    const char *name = rtsp->params.url;
    if (!mr_rtsp_header(answer, "Location", 0, place, sizeof place) || mr_rtsp_url_read(&next, place))
        return mr_fail(MR_ERROR_DATA, "%s: leads to another place that is not a URL of RTSP", name);
    if (!mr_host_is_allowed(rtsp->params.allow_hosts, next.host))
        return mr_fail(MR_ERROR_PERMISSION, "%s: leads to host %s, which allow_hosts does not have", name, next.host);
    if (rtsp->url.tls && !next.tls)
        return mr_fail(MR_ERROR_PERMISSION, "%s: leads from rtsps to rtsp, which is not followed", name);
    rtsp->url = next;
    return MR_OK;
}

static int read_description(mr_rtsp *rtsp, const mr_rtsp_message *answer) {
    static const char *const headers[] = {"Content-Base", "Content-Location"};
    char base[MR_RTSP_MOST_URL];
    snprintf(base, sizeof base, "%s", rtsp->url.text);
    for (size_t i = 0; i < 2; i++) {
        mr_rtsp_url named;
        char text[MR_RTSP_MOST_URL];
        if (mr_rtsp_header(answer, headers[i], 0, text, sizeof text) && !mr_rtsp_url_read(&named, text)) {
            snprintf(base, sizeof base, "%s", named.text);
            break;
        }
    }
    const int status = mr_sdp_read(&rtsp->sdp, answer->body, answer->body_bytes, rtsp->params.url);
    if (status)
        return status;
    if (!mr_rtsp_url_join(rtsp->control, sizeof rtsp->control, base, rtsp->sdp.session_control) ||
        !mr_rtsp_url_join(rtsp->stream, sizeof rtsp->stream, rtsp->control, rtsp->sdp.control))
        return mr_fail(MR_ERROR_DATA, "%s: the URLs in its description are not URLs", rtsp->params.url);
    return MR_OK;
}

/* Connects to the current URL. */
static int open_talk(mr_rtsp *rtsp) {
    const mr_connection_params *params = &rtsp->params;
    const mr_tcp_params to = {.host = rtsp->url.host, .port = rtsp->url.port, .tls = rtsp->url.tls,
                                      .ca_file = params->ca_file, .name = params->url, .wake = params->wake,
                                      .until_ns = rtsp->until_ns};
    mr_rtsp_url first;
    const bool trusted = !mr_rtsp_url_read(&first, params->url) && mr_rtsp_url_is_trusted(&first, &rtsp->url);
    const int status = mr_rtsp_talk_open(&rtsp->talk, &to, trusted ? params->user : NULL,
                                         trusted ? params->password : NULL);
    rtsp->talk.digest_only = params->digest_only;
    return status;
}

/* Some servers close the connection when asked for OPTIONS. The next connection then must not ask. */
static int ask_for_options(mr_rtsp *rtsp) {
    mr_rtsp_message answer;
    char methods[512];
    int status = rtsp->has_no_options ? MR_OK : ask(rtsp, "OPTIONS", rtsp->url.text, "", &answer);
    if (status == MR_ERROR_IO && rtsp->talk.closed) {
        rtsp->has_no_options = true;
        mr_rtsp_talk_close(&rtsp->talk);
        status = open_talk(rtsp);
    }
    rtsp->has_get_parameter = rtsp->has_no_options || rtsp->params.by_parameter ||
                              (!status && mr_rtsp_header(&answer, "Public", 0, methods, sizeof methods) &&
                               strstr(methods, "GET_PARAMETER"));
    return status;
}

/* Connects and requests the description; MR_ERROR_AGAIN: redirected. */
static int describe(mr_rtsp *rtsp) {
    mr_rtsp_message answer;
    int status = open_talk(rtsp);
    if (!status)
        status = ask_for_options(rtsp);
    if (!status)
        status = ask(rtsp, "DESCRIBE", rtsp->url.text, "Accept: application/sdp\r\n", &answer);
    if (status)
        return status;
    if (redirects(answer.status)) {
        status = follow(rtsp, &answer);
        return status ? status : MR_ERROR_AGAIN;
    }
    return answer.status == 200 ? read_description(rtsp, &answer) : mr_rtsp_refused(rtsp, "DESCRIBE", &answer);
}

static int find(mr_rtsp *rtsp) {
    enum { MOST_REDIRECTIONS = 5 };
    for (int i = 0; i <= MOST_REDIRECTIONS; i++) {
        const int status = describe(rtsp);
        if (status != MR_ERROR_AGAIN)
            return status;
        mr_rtsp_talk_close(&rtsp->talk);
    }
    return mr_fail(MR_ERROR_DATA, "%s: leads to other places, and on, more than %d times", rtsp->params.url,
                   MOST_REDIRECTIONS);
}

/* ---- SETUP ------------------------------------------------------------------------------------------------------- */

/* "5000-5001", "5000" */
static void read_pair(const char *text, int pair[2], int most) {
    char *end;
    const long first = strtol(text, &end, 10), second = *end == '-' ? strtol(end + 1, NULL, 10) : first + 1;
    if (end != text && first >= 0 && first <= most && second >= 0 && second <= most) {
        pair[0] = (int)first;
        pair[1] = (int)second;
    }
}

/* Reads the transport that the server chose. Some servers do not say that it is TCP, or send no header. False: an
 * unsuitable transport. */
static bool read_transport(mr_rtsp *rtsp, const mr_rtsp_message *answer) {
    char transport[1024] = "", pair[64];
    mr_rtsp_header(answer, "Transport", 0, transport, sizeof transport);
    const bool tcp = strcasestr(transport, "/TCP") || mr_rtsp_field(transport, "interleaved", pair, sizeof pair);
    if ((*transport && tcp == rtsp->over_udp) || strcasestr(transport, "multicast"))
        return false;
    rtsp->channels[0] = 0;
    rtsp->channels[1] = 1;
    if (!rtsp->over_udp && mr_rtsp_field(transport, "interleaved", pair, sizeof pair))
        read_pair(pair, rtsp->channels, 255);
    if (rtsp->over_udp && mr_rtsp_field(transport, "server_port", pair, sizeof pair))
        read_pair(pair, rtsp->udp.server_ports, 65535);
    return true;
}

static void read_session(mr_rtsp *rtsp, const mr_rtsp_message *answer) {
    enum { USUAL_S = 60, LEAST_S = 2, MOST_S = 3600 };
    char session[256] = "", seconds[16] = "";
    long timeout = USUAL_S;
    mr_rtsp_header(answer, "Session", 0, session, sizeof session);
    if (mr_rtsp_field(session, "timeout", seconds, sizeof seconds) && atol(seconds) > 0)
        timeout = atol(seconds);
    timeout = timeout < LEAST_S ? LEAST_S : timeout > MOST_S ? MOST_S : timeout;
    session[strcspn(session, "; \t")] = '\0';
    snprintf(rtsp->talk.session, sizeof rtsp->talk.session, "%s", session);
    rtsp->keep_alive_ns = timeout * second_ns / 2;
}

/* MR_ERROR_AGAIN: not over UDP. */
static int set_up(mr_rtsp *rtsp) {
    char headers[256] = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    mr_rtsp_message answer;
    int status = MR_OK;
    if (rtsp->over_udp) {
        status = mr_rtsp_udp_open(&rtsp->udp, &rtsp->talk.socket.own, &rtsp->talk.socket.peer, rtsp->params.url);
        snprintf(headers, sizeof headers, "Transport: RTP/AVP;unicast;client_port=%d-%d\r\n", rtsp->udp.port,
                 rtsp->udp.port + 1);
    }
    if (!status)
        status = ask(rtsp, "SETUP", rtsp->stream, headers, &answer);
    if (status)
        return status;
    if (answer.status == 200 && read_transport(rtsp, &answer)) {
        read_session(rtsp, &answer);
        return MR_OK;
    }
    if (rtsp->over_udp && rtsp->params.transport == MR_TRANSPORT_AUTO && (answer.status == 461 || answer.status == 200))
        return MR_ERROR_AGAIN;
    if (answer.status != 200)
        return mr_rtsp_refused(rtsp, "SETUP", &answer);
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "%s: the server chose another transport than RTP over %s: set transport to auto",
                   rtsp->params.url, rtsp->over_udp ? "UDP" : "TCP");
}

/* ---- PLAY -------------------------------------------------------------------------------------------------------- */

/* Sends packets to open a path for the server's, in case addresses are translated. */
static void open_way(mr_rtsp *rtsp) {
    static const uint8_t rtp[12] = {0x80}, rtcp[8] = {0x80, 201, 0, 1};
    if (!rtsp->over_udp)
        return;
    mr_rtsp_udp_send(&rtsp->udp, false, rtp, sizeof rtp);
    mr_rtsp_udp_send(&rtsp->udp, true, rtcp, sizeof rtcp);
}

int mr_rtsp_play(mr_rtsp *rtsp) {
    const char *range = !rtsp->sdp.timed ? "" : rtsp->sdp.live ? "Range: npt=now-\r\n" : "Range: npt=0.000-\r\n";
    const int status = mr_rtsp_talk_send(&rtsp->talk, "PLAY", rtsp->control, range);
    rtsp->play = rtsp->talk.sequence;
    return status;
}

/* MR_ERROR_AGAIN: no packet comes over UDP. */
static int begin(mr_rtsp *rtsp) {
    enum { UDP_MS = 2500 };
    int status = mr_rtsp_video_open(&rtsp->video, &rtsp->params, &rtsp->sdp,
                                    rtsp->over_udp ? rtsp->params.latency_ns : 0);
    if (!status)
        status = mr_rtsp_play(rtsp);
    if (status)
        return status;
    open_way(rtsp);
    rtsp->now_ns = mr_now_ns();
    rtsp->begun_ns = rtsp->now_ns;
    rtsp->next_keep_alive_ns = rtsp->now_ns + rtsp->keep_alive_ns;
    rtsp->next_report_ns = rtsp->now_ns + second_ns;
    int64_t until_ns = rtsp->until_ns;
    if (rtsp->over_udp && rtsp->params.transport == MR_TRANSPORT_AUTO) {
        const int64_t half_ns = (until_ns - rtsp->now_ns) / 2, most_ns = UDP_MS * (second_ns / 1000);
        until_ns = rtsp->now_ns + (half_ns < most_ns ? half_ns : most_ns);
    }
    status = mr_rtsp_pump(rtsp, until_ns, true);
    if (status == MR_ERROR_AGAIN && (until_ns == rtsp->until_ns || !rtsp->plays))
        return mr_fail(MR_ERROR_IO, "%s: no answer to PLAY in time", rtsp->params.url);
    return status;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

/* Ends the session and releases everything made for it. The server may be gone: this does not wait. */
static void end_session(mr_rtsp *rtsp) {
    if (rtsp->talk.in && rtsp->talk.socket.fd >= 0 && *rtsp->talk.session && rtsp->over != MR_ERROR_IO)
        (void)mr_rtsp_talk_send(&rtsp->talk, "TEARDOWN", rtsp->control, "");
    mr_rtsp_talk_close(&rtsp->talk);
    mr_rtsp_udp_close(&rtsp->udp);
    mr_rtsp_video_close(&rtsp->video);
    rtsp->plays = rtsp->played_again = false;
    rtsp->over = MR_OK;
}

/* MR_ERROR_AGAIN: UDP does not work. */
static int establish(mr_rtsp *rtsp, bool over_udp) {
    rtsp->over_udp = over_udp;
    int status = find(rtsp);
    if (!status && rtsp->url.tls)
        rtsp->over_udp = false;
    if (!status)
        status = set_up(rtsp);
    if (status == MR_ERROR_AGAIN) { /* the server has refused */
        mr_rtsp_udp_close(&rtsp->udp);
        rtsp->over_udp = false;
        status = set_up(rtsp);
    }
    return status ? status : begin(rtsp);
}

static int open_transport(mr_rtsp *rtsp) {
    const mr_transport wanted = rtsp->params.transport;
    const char *name = rtsp->params.url;
    int status = mr_rtsp_url_read(&rtsp->url, name);
    if (status) {
        char words[256];
        snprintf(words, sizeof words, "%s", mr_message());
        return mr_fail(status, "%.300s: %s", name, words);
    }
    if (!mr_host_is_allowed(rtsp->params.allow_hosts, rtsp->url.host))
        return mr_fail(MR_ERROR_PERMISSION, "%s: allow_hosts does not have host %s", name, rtsp->url.host);
    if (wanted == MR_TRANSPORT_UDP && rtsp->url.tls)
        return mr_fail(MR_ERROR_CONFIG, "%s: rtsps carries RTP over TCP: set transport to auto or tcp", name);
    status = establish(rtsp, wanted != MR_TRANSPORT_TCP);
    if (status == MR_ERROR_AGAIN) {
        end_session(rtsp);
        mr_rtsp_url_read(&rtsp->url, name);
        status = establish(rtsp, false);
    }
    return status;
}

/* Lists the string fields in the parameters, with a pointer to each. */
static const char **strings_of(mr_rtsp *rtsp, int index) {
    mr_connection_params *params = &rtsp->params;
    const char **const all[] = {&params->url, &params->user, &params->password, &params->ca_file, &params->allow_hosts,
                                &params->media.uri};
    return index < (int)(sizeof all / sizeof *all) ? all[index] : NULL;
}

static void close_rtsp(mr_connection *connection) {
    mr_rtsp *rtsp = (mr_rtsp *)connection;
    const char **string;
    end_session(rtsp);
    for (int i = 0; (string = strings_of(rtsp, i)); i++)
        mr_free((char *)(uintptr_t)*string);
    mr_free(rtsp);
}

static const mr_connection_type type = {.name = "rtsp", .survey = mr_rtsp_survey, .read = mr_rtsp_read,
                                        .remark = mr_rtsp_remark, .count = mr_rtsp_count, .close = close_rtsp};

int mr_connection_open_rtsp(mr_connection **connection, const mr_connection_params *params) {
    mr_rtsp *rtsp = mr_calloc(1, sizeof *rtsp);
    const char **string;
    bool copied = true;
    if (!rtsp)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    rtsp->base.type = &type;
    rtsp->params = *params;
    rtsp->until_ns = mr_now_ns() + params->open_timeout_ns;
    for (int i = 0; (string = strings_of(rtsp, i)); i++) {
        const char *from = *string;
        *string = from ? mr_strdup(from) : NULL;
        copied = copied && (!from || *string);
    }
    const int status = copied ? open_transport(rtsp) : mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (status) {
        char words[1024];
        snprintf(words, sizeof words, "%s", mr_message());
        close_rtsp(&rtsp->base);
        return mr_fail(status, "%s", words);
    }
    *connection = &rtsp->base;
    return MR_OK;
}
