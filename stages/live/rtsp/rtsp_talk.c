#include "stages/live/rtsp/rtsp_talk.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "millrace/log.h"
#include "millrace/stage.h"
#include "millrace/status.h"
#include "millrace/version.h"

/* Room for the longest message and packet, and for more than one read. */
enum { IN_BYTES = 1 << 17, LEAST_READ = 1 << 15, PACKET_HEADER = 4 };
_Static_assert(IN_BYTES - LEAST_READ >= MR_RTSP_MOST_HEAD + MR_RTSP_MOST_BODY, "a message fits");

int mr_rtsp_talk_open(mr_rtsp_talk *talk, const mr_tcp_params *params, const char *user, const char *password) {
    *talk = (mr_rtsp_talk){.socket.fd = -1, .name = params->name, .user = user, .password = password,
                           .wake = params->wake, .in = mr_alloc(IN_BYTES)};
    return talk->in ? mr_tcp_open(&talk->socket, params) : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

void mr_rtsp_talk_close(mr_rtsp_talk *talk) {
    if (talk->in)
        mr_tcp_close(&talk->socket);
    mr_free(talk->in);
    talk->in = NULL;
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* Prefixes a socket's message with the name. */
static int named(const mr_rtsp_talk *talk, int status) {
    if (status != MR_ERROR_IO)
        return status;
    char words[256];
    snprintf(words, sizeof words, "%s", mr_message());
    return mr_fail(status, "%s: the connection broke: %s", talk->name, words);
}

int mr_rtsp_talk_flush(mr_rtsp_talk *talk) {
    while (talk->out_bytes) {
        size_t sent;
        const int status = mr_tcp_write(&talk->socket, talk->out, talk->out_bytes, &sent);
        if (status == MR_ERROR_AGAIN)
            return MR_OK;
        if (status)
            return named(talk, status);
        memmove(talk->out, talk->out + sent, talk->out_bytes - sent);
        talk->out_bytes -= sent;
    }
    return MR_OK;
}

static int add_out(mr_rtsp_talk *talk, const void *data, size_t bytes) {
    if (bytes > sizeof talk->out - talk->out_bytes)
        return mr_fail(MR_ERROR_IO, "%s: the server does not read requests", talk->name);
    memcpy(talk->out + talk->out_bytes, data, bytes);
    talk->out_bytes += bytes;
    return mr_rtsp_talk_flush(talk);
}

int mr_rtsp_talk_send(mr_rtsp_talk *talk, const char *method, const char *url, const char *headers) {
    char text[8192], who[3072], session[300] = "";
    if (!mr_rtsp_auth_write(&talk->auth, who, sizeof who, talk->user, talk->password, method, url))
        return mr_fail(MR_ERROR_CONFIG, "%s: user or password is too long, or has characters that cannot be sent",
                       talk->name);
    if (*talk->session)
        snprintf(session, sizeof session, "Session: %s\r\n", talk->session);
    const int bytes = snprintf(text, sizeof text, "%s %s RTSP/1.0\r\nCSeq: %u\r\nUser-Agent: millrace/" MILLRACE_VERSION
                                                  "\r\n%s%s%s\r\n",
                               method, url, ++talk->sequence, session, who, headers);
    if (bytes < 0 || (size_t)bytes >= sizeof text)
        return mr_fail(MR_ERROR_CONFIG, "%s: the URL is too long", talk->name);
    return add_out(talk, text, (size_t)bytes);
}

int mr_rtsp_talk_answer(mr_rtsp_talk *talk, const mr_rtsp_message *request) {
    static const char *const known[] = {"OPTIONS", "GET_PARAMETER", "SET_PARAMETER", "ANNOUNCE", "TEARDOWN"};
    const char *words = "501 Not Implemented";
    char text[128];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(request->words, known[i]) == 0)
            words = "200 OK";
    const int bytes = snprintf(text, sizeof text, "RTSP/1.0 %s\r\nCSeq: %ld\r\n\r\n", words,
                               mr_rtsp_header_number(request, "CSeq", INT32_MAX, 0));
    return add_out(talk, text, (size_t)bytes);
}

int mr_rtsp_talk_send_packet(mr_rtsp_talk *talk, int channel, const uint8_t *data, size_t bytes) {
    uint8_t packet[PACKET_HEADER + 1024];
    if (bytes > sizeof packet - PACKET_HEADER)
        return mr_fail(MR_ERROR_INTERNAL, "a report of %zu bytes", bytes);
    packet[0] = '$';
    packet[1] = (uint8_t)channel;
    packet[2] = (uint8_t)(bytes >> 8);
    packet[3] = (uint8_t)bytes;
    memcpy(packet + PACKET_HEADER, data, bytes);
    return add_out(talk, packet, PACKET_HEADER + bytes);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

short mr_rtsp_talk_events(const mr_rtsp_talk *talk) {
    return talk->out_bytes ? POLLIN | POLLOUT : POLLIN;
}

static void use(mr_rtsp_talk *talk, size_t bytes) {
    talk->begin += bytes;
    if (talk->begin == talk->end)
        talk->begin = talk->end = 0;
}

int mr_rtsp_talk_fill(mr_rtsp_talk *talk) {
    size_t got;
    use(talk, talk->used);
    talk->used = 0;
    if (IN_BYTES - talk->end < LEAST_READ) {
        memmove(talk->in, talk->in + talk->begin, talk->end - talk->begin);
        talk->end -= talk->begin;
        talk->begin = 0;
    }
    const int status = mr_tcp_read(&talk->socket, talk->in + talk->end, IN_BYTES - talk->end, &got);
    talk->end += got;
    return named(talk, status);
}

/* Skips bytes up to one that may begin a packet or message: some servers pad packets. */
static int skip(mr_rtsp_talk *talk) {
    enum { MOST_SKIPPED = 1 << 16 };
    while (talk->begin < talk->end && talk->in[talk->begin] != '$' && !isupper(talk->in[talk->begin])) {
        talk->skipped++;
        use(talk, 1);
    }
    if (talk->skipped > MOST_SKIPPED)
        return mr_fail(MR_ERROR_DATA, "%s: sends neither RTSP nor packets: is this the port of an RTSP server?",
                       talk->name);
    return MR_OK;
}

/* Bytes up to the end of a line, or to a byte that may begin a packet. */
static size_t length_of_line(const uint8_t *at, size_t bytes) {
    size_t count = 0;
    while (count < bytes && at[count] != '$' && at[count] != '\n')
        count++;
    return count;
}

static int next_packet(mr_rtsp_talk *talk, mr_rtsp_event *event, const uint8_t *at, size_t left) {
    if (left < PACKET_HEADER)
        return MR_ERROR_AGAIN;
    const size_t bytes = (size_t)at[2] << 8 | at[3];
    if (left < PACKET_HEADER + bytes)
        return MR_ERROR_AGAIN;
    *event = (mr_rtsp_event){.is_packet = true, .channel = at[1], .data = at + PACKET_HEADER, .bytes = bytes};
    talk->used = PACKET_HEADER + bytes;
    return MR_OK;
}

int mr_rtsp_talk_next(mr_rtsp_talk *talk, mr_rtsp_event *event) {
    use(talk, talk->used);
    talk->used = 0;
    for (;;) {
        int status = skip(talk);
        const uint8_t *at = talk->in + talk->begin;
        const size_t left = talk->end - talk->begin;
        if (status || !left)
            return status ? status : MR_ERROR_AGAIN;
        if (*at == '$') {
            status = next_packet(talk, event, at, left);
        } else {
            event->is_packet = false;
            status = mr_rtsp_message_read(&event->message, (const char *)at, left);
            talk->used = status ? 0 : event->message.bytes;
        }
        if (!status)
            talk->skipped = 0;
        if (status != MR_ERROR_DATA)
            return status;
        /* Not a message: the next line may begin one, or a packet may come first. */
        const size_t line = length_of_line(at + 1, left - 1);
        talk->skipped += 1 + line;
        use(talk, 1 + line);
    }
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* Waits until more can be read or written. */
static int wait_for_more(mr_rtsp_talk *talk, const char *method, int64_t until_ns) {
    struct pollfd ready = {.fd = talk->socket.fd, .events = mr_rtsp_talk_events(talk)};
    int status = mr_tcp_pending(&talk->socket) ? MR_OK : mr_live_wait(&ready, 1, talk->wake, until_ns);
    if (status == MR_ERROR_AGAIN)
        return mr_fail(MR_ERROR_IO, "%s: no answer to %s in time", talk->name, method);
    if (!status)
        status = mr_rtsp_talk_flush(talk);
    if (!status)
        status = mr_rtsp_talk_fill(talk);
    talk->closed = status == MR_END || status == MR_ERROR_IO;
    if (status == MR_END)
        return mr_fail(MR_ERROR_IO, "%s: the server closed the connection before it answered %s", talk->name, method);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

bool mr_rtsp_talk_is_answer(mr_rtsp_talk *talk, const mr_rtsp_message *message, uint32_t sequence) {
    const long count = mr_rtsp_header_number(message, "CSeq", UINT32_MAX, sequence);
    if (message->status < 200 || (count != (long)sequence && talk->answered && count <= (long)talk->answered))
        return false;
    if (count == (long)sequence) {
        talk->answered = sequence;
    } else if (!talk->other_count) {
        mr_log(MR_LOG_INFO, "%s: an answer has CSeq %ld, its request has %u: taken all the same", talk->name, count,
               sequence);
        talk->other_count = true;
    }
    return true;
}

/* Waits for the answer to the last request. */
static int wait_for_answer(mr_rtsp_talk *talk, const char *method, int64_t until_ns, mr_rtsp_message *answer) {
    for (;;) {
        mr_rtsp_event event;
        int status = mr_rtsp_talk_next(talk, &event);
        if (status == MR_ERROR_AGAIN)
            status = mr_now_ns() >= until_ns ? MR_ERROR_AGAIN : wait_for_more(talk, method, until_ns);
        else if (!status && !event.is_packet && event.message.status == 0)
            status = mr_rtsp_talk_answer(talk, &event.message);
        else if (!status && !event.is_packet && mr_rtsp_talk_is_answer(talk, &event.message, talk->sequence)) {
            *answer = event.message;
            return MR_OK;
        }
        if (status == MR_ERROR_AGAIN)
            return mr_fail(MR_ERROR_IO, "%s: no answer to %s in time", talk->name, method);
        if (status)
            return status;
    }
}

int mr_rtsp_talk_ask(mr_rtsp_talk *talk, const char *method, const char *url, const char *headers, int64_t until_ns,
                     mr_rtsp_message *answer) {
    enum { MOST_TRIES = 3 };
    bool told = talk->auth.scheme != MR_RTSP_OPEN;
    for (int tries = 1;; tries++) {
        int status = mr_rtsp_talk_send(talk, method, url, headers);
        if (!status)
            status = wait_for_answer(talk, method, until_ns, answer);
        if (status || answer->status != 401 || !talk->user || tries == MOST_TRIES)
            return status;
        /* Authenticate again only if this is the first time, or the nonce had expired. */
        if (!mr_rtsp_auth_read(&talk->auth, answer, talk->digest_only) || (told && !talk->auth.stale && tries > 1))
            return MR_OK;
        told = true;
    }
}
