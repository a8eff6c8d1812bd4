#include "stages/live/rtmp/rtmp.h"

#include <errno.h>
#include <libavutil/error.h>
#include <libavutil/intreadwrite.h>
#include <libavutil/mem.h>
#include <libavutil/random_seed.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "millrace/status.h"
#include "stages/live/rtmp/amf.h"
#include "stages/live/rtmp/chunks.h"
#include "stages/live/rtmp/password.h"

enum { CONNECT = 1, CREATE, PLAY, CHECK }; /* our command numbers; the last command may fail */
enum { FLV_HEADER = 13, TAG_HEADER = 11, TAG_END = 4, MOST_CONNECTIONS = 3, TEXT = 512 };
enum { PING = 6, PONG, BUFFER = 3, BUFFER_MS = 3000, WINDOW_BYTES = 2500000, OWN_CHUNK = 4096 };
enum { ASKED = 1 }; /* no AVERROR: the server asks for a password */

struct mr_rtmp {
    mr_rtmp_params params;
    AVIOContext *flv;
    mr_rtmp_chunks chunks;
    char app[MR_URL_BYTES], stream[MR_URL_BYTES];
    size_t rest_bytes;           /* URL length after host and port */
    char query[TEXT];            /* the application's query, with user and password */
    bool ready;                  /* it plays, or may publish */
    uint32_t number;             /* the server's stream number */
    int connections;
    int64_t before;              /* bytes from earlier connections */
    int error;                   /* nonzero once reading has ended */
    mr_rtmp_message message;     /* played: the tag's data, between `head` and `tail` */
    uint8_t head[FLV_HEADER], tail[TAG_END];
    size_t head_bytes, tail_bytes, given;
    uint8_t *tag;                /* published: an incoming tag, or the header before the first */
    size_t filled, room;
    bool begun;                  /* the header was given */
};

/* ---- the address ------------------------------------------------------------------------------------------------- */

/* Splits the path as Adobe's clients do; the application "ondemand" always has one component. */
static void cut_path(mr_rtmp *rtmp, mr_url_part rest) {
    static const char *const mp4[] = {".mp4", ".f4v"};
    char path[MR_URL_BYTES];
    const bool slash = rest.bytes && *rest.text == '/';
    snprintf(path, sizeof path, "%.*s", (int)rest.bytes - slash, slash ? rest.text + 1 : rest.bytes ? rest.text : "");
    char *first = strchr(path, '/'), *second = first ? strchr(first + 1, '/') : NULL;
    const char *colon = first ? strchr(first + 1, ':') : NULL;
    char *cut = !second || (colon && colon < second) || strncmp(path, "ondemand/", 9) == 0 ? first : second;
    const char *name = cut ? cut + 1 : "", *prefix = "";
    if (cut)
        *cut = '\0';
    size_t bytes = strlen(name);
    for (int i = 0; i < 2 && bytes > 4 && !strchr(name, ':'); i++)
        if (strcmp(name + bytes - 4, mp4[i]) == 0)
            prefix = "mp4:";
    bytes -= !*prefix && bytes > 4 && strcmp(name + bytes - 4, ".flv") == 0 ? 4 : 0;
    snprintf(rtmp->app, sizeof rtmp->app, "%s", path);
    snprintf(rtmp->stream, sizeof rtmp->stream, "%s%.*s", prefix, (int)bytes, name);
}

/* ---- commands ---------------------------------------------------------------------------------------------------- */

static void begin_command(mr_amf_out *out, const char *name, double number) {
    out->bytes = 0;
    out->full = false;
    mr_amf_put_string(out, name);
    mr_amf_put_number(out, number);
}

static int send_command(mr_rtmp *rtmp, mr_amf_out *out, uint32_t stream) {
    const mr_rtmp_message message = {.type = MR_RTMP_COMMAND, .stream = stream, .data = out->data, .bytes = out->bytes};
    return out->full ? AVERROR(ENAMETOOLONG) : mr_rtmp_chunks_write(&rtmp->chunks, &message);
}

/* `text`: the only argument; NULL: none. */
static int send_simple(mr_rtmp *rtmp, const char *name, double number, const char *text) {
    mr_amf_out out;
    begin_command(&out, name, number);
    mr_amf_put_null(&out);
    if (text)
        mr_amf_put_string(&out, text);
    return send_command(rtmp, &out, 0);
}

static int send_connect(mr_rtmp *rtmp) {
    const char *whole = rtmp->params.url;
    char text[2 * MR_URL_BYTES];
    mr_amf_out out;
    begin_command(&out, "connect", CONNECT);
    mr_amf_begin(&out);
    mr_amf_put_name(&out, "app");
    snprintf(text, sizeof text, "%s%s", rtmp->app, rtmp->query);
    mr_amf_put_string(&out, text);
    mr_amf_put_name(&out, "flashVer");
    mr_amf_put_string(&out, rtmp->params.publishes ? "FMLE/3.0 (compatible; millrace)" : "LNX 9,0,124,2");
    mr_amf_put_name(&out, "type");
    mr_amf_put_string(&out, "nonprivate");
    mr_amf_put_name(&out, "tcUrl");
    snprintf(text, sizeof text, "%.*s/%s%s", (int)(strlen(whole) - rtmp->rest_bytes), whole, rtmp->app, rtmp->query);
    mr_amf_put_string(&out, text);
    mr_amf_put_name(&out, "capabilities");
    mr_amf_put_number(&out, 15);
    mr_amf_put_name(&out, "audioCodecs");
    mr_amf_put_number(&out, 4071);
    mr_amf_put_name(&out, "videoCodecs");
    mr_amf_put_number(&out, 252);
    mr_amf_put_name(&out, "videoFunction");
    mr_amf_put_number(&out, 1);
    mr_amf_end(&out);
    return send_command(rtmp, &out, 0);
}

/* Plays live streams and recordings: a start at -2 s allows both. */
static int send_play(mr_rtmp *rtmp) {
    uint8_t buffer[10] = {0, BUFFER};
    mr_amf_out out;
    begin_command(&out, "play", PLAY);
    mr_amf_put_null(&out);
    mr_amf_put_string(&out, rtmp->stream);
    mr_amf_put_number(&out, -2000);
    AV_WB32(buffer + 2, rtmp->number);
    AV_WB32(buffer + 6, BUFFER_MS);
    const mr_rtmp_message wish = {.type = MR_RTMP_CONTROL, .data = buffer, .bytes = sizeof buffer};
    const int error = send_command(rtmp, &out, rtmp->number);
    rtmp->ready = !error;
    return error ? error : mr_rtmp_chunks_write(&rtmp->chunks, &wish);
}

static int send_publish(mr_rtmp *rtmp) {
    mr_amf_out out;
    begin_command(&out, "publish", PLAY);
    mr_amf_put_null(&out);
    mr_amf_put_string(&out, rtmp->stream);
    mr_amf_put_string(&out, "live");
    return send_command(rtmp, &out, rtmp->number);
}

/* Some servers need an announcement before a stream is published. */
static int send_create(mr_rtmp *rtmp) {
    int error = mr_rtmp_chunks_number(&rtmp->chunks, MR_RTMP_WINDOW, WINDOW_BYTES);
    if (!error && rtmp->params.publishes)
        error = mr_rtmp_chunks_number(&rtmp->chunks, MR_RTMP_SIZE, OWN_CHUNK);
    if (!error && rtmp->params.publishes)
        error = send_simple(rtmp, "releaseStream", CHECK, rtmp->stream);
    if (!error && rtmp->params.publishes)
        error = send_simple(rtmp, "FCPublish", CHECK, rtmp->stream);
    return error ? error : send_simple(rtmp, "createStream", CREATE, NULL);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* With the server's words. */
static int refuse(mr_rtmp *rtmp, mr_amf amf, const char *code) {
    const mr_rtmp_params *params = &rtmp->params;
    char words[TEXT] = "";
    mr_amf_property(&amf, "description", words, sizeof words);
    const bool password = strstr(words, "authmod=") != NULL;
    if (!rtmp->ready && rtmp->connections < MOST_CONNECTIONS && params->user && params->password &&
        mr_rtmp_answer(words, params->user, params->password, av_get_random_seed(), rtmp->query, sizeof rtmp->query))
        return ASKED;
    *params->refusal = mr_fail(password ? MR_ERROR_PERMISSION : MR_ERROR_IO, "%s: the server refuses it: %s%s%s",
                               params->name, code, *code && *words ? ": " : "", words);
    return AVERROR(EPROTO);
}

static int take_status(mr_rtmp *rtmp, mr_amf amf) {
    char level[TEXT] = "", code[TEXT] = "";
    mr_amf_skip(&amf);
    mr_amf_property(&amf, "level", level, sizeof level);
    mr_amf_property(&amf, "code", code, sizeof code);
    if (strcmp(level, "error") == 0)
        return refuse(rtmp, amf, code);
    rtmp->ready |= strcmp(code, "NetStream.Publish.Start") == 0;
    const bool over = strcmp(code, "NetStream.Play.Stop") == 0 || strcmp(code, "NetStream.Play.UnpublishNotify") == 0;
    return over ? AVERROR_EOF : 0;
}

static int take_result(mr_rtmp *rtmp, mr_amf amf, double number) {
    double stream;
    if (number == CONNECT)
        return send_create(rtmp);
    if (number != CREATE || rtmp->ready)
        return 0;
    const bool known = mr_amf_skip(&amf) && mr_amf_number(&amf, &stream) && stream >= 0 && stream <= UINT32_MAX;
    rtmp->number = known ? (uint32_t)stream : 0;
    return !known ? AVERROR_INVALIDDATA : rtmp->params.publishes ? send_publish(rtmp) : send_play(rtmp);
}

static int take_command(mr_rtmp *rtmp, const mr_rtmp_message *message) {
    const bool third = message->type == MR_RTMP_COMMAND3 && message->bytes; /* AMF3 puts a zero first */
    mr_amf amf = {message->data + third, message->data + message->bytes};
    char name[64], code[TEXT] = "";
    double number;
    if (!mr_amf_string(&amf, name, sizeof name) || !mr_amf_number(&amf, &number))
        return 0;
    if (strcmp(name, "_result") == 0)
        return take_result(rtmp, amf, number);
    if (strcmp(name, "onStatus") == 0)
        return take_status(rtmp, amf);
    if (strcmp(name, "onBWDone") == 0)
        return send_simple(rtmp, "_checkbw", CHECK, NULL);
    if (strcmp(name, "_error") != 0 || number > PLAY)
        return 0;
    mr_amf_skip(&amf);
    mr_amf_property(&amf, "code", code, sizeof code);
    return refuse(rtmp, amf, code);
}

/* ---- FLV --------------------------------------------------------------------------------------------------------- */

static void write_time(uint8_t *tag, uint32_t time_ms) {
    mr_put24(tag + 4, time_ms);
    tag[7] = (uint8_t)(time_ms >> 24);
}

/* The data becomes `rtmp`'s. */
static void give_tag(mr_rtmp *rtmp, mr_rtmp_message *message) {
    rtmp->message = *message;
    memset(rtmp->head, 0, sizeof rtmp->head);
    rtmp->head[0] = message->type;
    mr_put24(rtmp->head + 1, message->bytes);
    write_time(rtmp->head, message->time_ms);
    AV_WB32(rtmp->tail, (uint32_t)(TAG_HEADER + message->bytes));
    rtmp->head_bytes = TAG_HEADER;
    rtmp->tail_bytes = TAG_END;
    message->data = NULL;
}

/* Takes all complete FLV tags from a message. Their times count from the message's time. */
static void give_tags(mr_rtmp *rtmp, mr_rtmp_message *message) {
    size_t at = 0;
    uint32_t shift = 0;
    while (message->bytes - at >= TAG_HEADER + TAG_END) {
        uint8_t *tag = message->data + at;
        const size_t bytes = TAG_HEADER + (uint32_t)AV_RB24(tag + 1) + TAG_END;
        const uint32_t time_ms = (uint32_t)AV_RB24(tag + 4) | (uint32_t)tag[7] << 24;
        if (bytes > message->bytes - at)
            break;
        shift = at ? shift : message->time_ms - time_ms;
        write_time(tag, time_ms + shift);
        at += bytes;
    }
    rtmp->message = *message;
    rtmp->message.bytes = at;
    message->data = NULL;
}

static int take_control(mr_rtmp *rtmp, mr_rtmp_message *message) {
    if (message->bytes < 6 || AV_RB16(message->data) != PING)
        return 0;
    message->data[1] = PONG;
    return mr_rtmp_chunks_write(&rtmp->chunks, &(mr_rtmp_message){.type = MR_RTMP_CONTROL, .data = message->data,
                                                                  .bytes = 6});
}

static int take_message(mr_rtmp *rtmp, mr_rtmp_message *message) {
    switch (message->type) {
    case MR_RTMP_CONTROL:
        return take_control(rtmp, message);
    case MR_RTMP_BANDWIDTH:
        return mr_rtmp_chunks_number(&rtmp->chunks, MR_RTMP_WINDOW, WINDOW_BYTES);
    case MR_RTMP_COMMAND:
    case MR_RTMP_COMMAND3:
        return take_command(rtmp, message);
    case MR_RTMP_AUDIO:
    case MR_RTMP_VIDEO:
    case MR_RTMP_DATA:
        if (rtmp->ready && !rtmp->params.publishes)
            give_tag(rtmp, message);
        return 0;
    case MR_RTMP_AGGREGATE:
        if (rtmp->ready && !rtmp->params.publishes)
            give_tags(rtmp, message);
        return 0;
    default:
        return 0;
    }
}

/* Reads a message: 0, ASKED or an AVERROR. */
static int step(mr_rtmp *rtmp) {
    mr_rtmp_message message;
    int error = mr_rtmp_chunks_read(&rtmp->chunks, &message);
    if (error)
        return error;
    error = take_message(rtmp, &message);
    mr_free(message.data);
    return error;
}

/* Copies the tag's next bytes; 0: all were given. */
static size_t give(mr_rtmp *rtmp, uint8_t *to, size_t room) {
    const struct { const uint8_t *data; size_t bytes; } parts[] = {
        {rtmp->head, rtmp->head_bytes}, {rtmp->message.data, rtmp->message.bytes}, {rtmp->tail, rtmp->tail_bytes}};
    size_t at = rtmp->given;
    for (int i = 0; i < 3; i++) {
        if (at < parts[i].bytes) {
            const size_t left = parts[i].bytes - at, bytes = left < room ? left : room;
            memcpy(to, parts[i].data + at, bytes);
            rtmp->given += bytes;
            return bytes;
        }
        at -= parts[i].bytes;
    }
    return 0;
}

static int read_flv(void *context, uint8_t *to, int room) {
    mr_rtmp *rtmp = context;
    size_t bytes = 0;
    while (!rtmp->error && !(bytes = give(rtmp, to, (size_t)room))) {
        mr_free(rtmp->message.data);
        rtmp->message = (mr_rtmp_message){0};
        rtmp->head_bytes = rtmp->tail_bytes = rtmp->given = 0;
        rtmp->error = step(rtmp);
    }
    return rtmp->error ? rtmp->error : (int)bytes;
}

/* ---- publishing -------------------------------------------------------------------------------------------------- */

/* Metadata is wrapped in a command that makes the server keep it for later players. */
static int send_metadata(mr_rtmp *rtmp, mr_rtmp_message *message) {
    mr_amf_out out = {0};
    mr_amf_put_string(&out, "@setDataFrame");
    uint8_t *data = mr_alloc(out.bytes + message->bytes);
    if (!data)
        return AVERROR(ENOMEM);
    memcpy(data, out.data, out.bytes);
    memcpy(data + out.bytes, message->data, message->bytes);
    message->data = data;
    message->bytes += out.bytes;
    const int error = mr_rtmp_chunks_write(&rtmp->chunks, message);
    mr_free(data);
    return error;
}

/* Reads a message that has arrived from the server, such as a ping. */
static int read_meanwhile(mr_rtmp *rtmp) {
    return mr_rtmp_chunks_wait(&rtmp->chunks) ? step(rtmp) : 0;
}

/* Sends the first tag, or passes the header before it, if that is complete. *sent: its size, else 0. */
static int send_tag(mr_rtmp *rtmp, size_t *sent) {
    const uint8_t *tag = rtmp->tag;
    const size_t whole = rtmp->begun && rtmp->filled > TAG_HEADER ? TAG_HEADER + (uint32_t)AV_RB24(tag + 1) + TAG_END
                                                                 : FLV_HEADER;
    *sent = rtmp->filled < whole ? 0 : whole;
    if (!*sent || !rtmp->begun) {
        rtmp->begun |= *sent > 0;
        return 0;
    }
    mr_rtmp_message message = {.type = tag[0] & 31, .time_ms = (uint32_t)AV_RB24(tag + 4) | (uint32_t)tag[7] << 24,
                               .stream = rtmp->number, .data = rtmp->tag + TAG_HEADER,
                               .bytes = whole - TAG_HEADER - TAG_END};
    const int error = message.type == MR_RTMP_DATA ? send_metadata(rtmp, &message)
                                                   : mr_rtmp_chunks_write(&rtmp->chunks, &message);
    return error ? error : read_meanwhile(rtmp);
}

static int write_flv(void *context, uint8_t *data, int bytes) {
    mr_rtmp *rtmp = context;
    const size_t needed = rtmp->filled + (size_t)bytes;
    size_t sent = 1;
    if (!mr_grow_bytes((void **)&rtmp->tag, &rtmp->room, needed))
        return AVERROR(ENOMEM);
    memcpy(rtmp->tag + rtmp->filled, data, (size_t)bytes);
    rtmp->filled = needed;
    while (sent && !rtmp->error) {
        rtmp->error = send_tag(rtmp, &sent);
        rtmp->filled -= sent;
        memmove(rtmp->tag, rtmp->tag + sent, rtmp->filled);
    }
    return rtmp->error ? rtmp->error : bytes;
}

static void end_publishing(mr_rtmp *rtmp) {
    mr_amf_out out;
    begin_command(&out, "deleteStream", CHECK);
    mr_amf_put_null(&out);
    mr_amf_put_number(&out, rtmp->number);
    int error = send_simple(rtmp, "FCUnpublish", CHECK, rtmp->stream);
    if (!error)
        error = send_command(rtmp, &out, 0);
    /* If a socket is closed with unread data, the system discards what the server has not read yet. */
    while (!error && mr_rtmp_chunks_wait(&rtmp->chunks))
        error = step(rtmp);
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static void hang_up(mr_rtmp *rtmp) {
    const mr_rtmp_params *params = &rtmp->params;
    rtmp->before += (int64_t)rtmp->chunks.read;
    mr_rtmp_chunks_end(&rtmp->chunks);
    rtmp->chunks = (mr_rtmp_chunks){.url = params->name, .refusal = params->refusal, .most_bytes = params->most_bytes,
                                    .interrupt = params->interrupt, .socket.fd = -1};
}

/* Connecting cannot be interrupted. It is therefore done in tries, each twice as long as the last, and asks between
 * them. */
static int connect_to(mr_rtmp *rtmp) {
    const mr_rtmp_params *from = &rtmp->params;
    mr_url url;
    char host[MR_URL_HOST], port[16] = "";
    const bool tls = mr_url_has_scheme(from->url, "rtmps");
    if (!mr_url_split(from->url, &url) || !mr_url_decode(url.host, host, sizeof host) ||
        (url.port.bytes && !mr_url_decode(url.port, port, sizeof port)))
        return AVERROR(EINVAL);
    mr_tcp_params params = {.host = host, .port = *port ? port : tls ? "443" : "1935", .tls = tls,
                                    .ca_file = from->ca_file, .name = from->name, .wake = -1};
    int64_t slice_ns = 1000000000;
    int status;
    bool more;
    do {
        const int64_t now_ns = mr_now_ns(), left_ns = from->until_ns - now_ns;
        params.until_ns = now_ns + (left_ns < slice_ns ? left_ns : slice_ns);
        status = mr_tcp_open(&rtmp->chunks.socket, &params);
        more = status == MR_ERROR_IO && left_ns > slice_ns && mr_now_ns() >= params.until_ns;
        slice_ns *= 2;
    } while (more && !from->interrupt.callback(from->interrupt.opaque));
    *from->refusal = status; /* not before: it interrupts */
    return status ? AVERROR(EIO) : 0;
}

/* Opens a connection and performs all steps up to play or publish. */
static int ask(mr_rtmp *rtmp) {
    hang_up(rtmp);
    rtmp->connections++;
    int error = rtmp->params.connect ? rtmp->params.connect(&rtmp->chunks.socket) : connect_to(rtmp);
    if (!error)
        error = mr_rtmp_chunks_begin(&rtmp->chunks);
    if (!error)
        error = send_connect(rtmp);
    while (!error && !rtmp->ready)
        error = step(rtmp);
    return error;
}

static bool make_flv(mr_rtmp *rtmp) {
    static const uint8_t header[FLV_HEADER] = {'F', 'L', 'V', 1, 5, 0, 0, 0, 9};
    const bool out = rtmp->params.publishes;
    uint8_t *buffer = av_malloc(MR_RTMP_BUFFER);
    rtmp->flv = buffer ? avio_alloc_context(buffer, MR_RTMP_BUFFER, out, rtmp, out ? NULL : read_flv,
                                            out ? write_flv : NULL, NULL)
                       : NULL;
    if (!rtmp->flv)
        av_free(buffer);
    memcpy(rtmp->head, header, sizeof header);
    rtmp->head_bytes = sizeof header;
    return rtmp->flv;
}

int mr_rtmp_open(mr_rtmp **made, const mr_rtmp_params *params) {
    mr_url url;
    mr_rtmp *rtmp = *made = mr_calloc(1, sizeof *rtmp);
    if (!rtmp)
        return AVERROR(ENOMEM);
    rtmp->params = *params;
    rtmp->chunks.socket.fd = -1;
    if (!make_flv(rtmp))
        return AVERROR(ENOMEM);
    if (!mr_url_split(params->url, &url))
        return AVERROR(EINVAL);
    rtmp->rest_bytes = url.rest.bytes;
    cut_path(rtmp, url.rest);
    int error;
    do
        error = ask(rtmp);
    while (error == ASKED);
    return error;
}

void mr_rtmp_close(mr_rtmp **rtmp) {
    mr_rtmp *at = *rtmp;
    *rtmp = NULL;
    if (!at)
        return;
    if (at->params.publishes && at->ready && !at->error)
        end_publishing(at);
    hang_up(at);
    if (at->flv)
        av_free(at->flv->buffer);
    avio_context_free(&at->flv);
    mr_free(at->message.data);
    mr_free(at->tag);
    mr_free(at);
}

AVIOContext *mr_rtmp_flv(mr_rtmp *rtmp) {
    return rtmp->flv;
}

int64_t mr_rtmp_bytes(const mr_rtmp *rtmp) {
    return rtmp->before + (int64_t)rtmp->chunks.read;
}
