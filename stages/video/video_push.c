#include "stages/video/video_push.h"

#include <libavutil/avstring.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/url.h"
#include "stages/media/media_input.h"

/* Limits an RTMP server's answers. */
enum { MOST_ANSWER = 65536 };

/* The protocols that a scheme's address may use. */
static const struct {
    const char *scheme, *protocols;
    mr_container container;
} schemes[] = {
    {"rtsp://", "rtsp,tcp", MR_CONTAINER_RTP}, {"rtmp://", "", MR_CONTAINER_FLV},
    {"srt://", "srt,udp", MR_CONTAINER_TS},    {"udp://", "udp", MR_CONTAINER_TS},
};

static size_t scheme_of(const char *url) {
    size_t i = 0;
    while (i < sizeof schemes / sizeof *schemes && !av_strstart(url, schemes[i].scheme, NULL))
        i++;
    return i;
}

int mr_video_push_container(const char *url, mr_container *container) {
    size_t i = scheme_of(url);
    if (i == sizeof schemes / sizeof *schemes)
        return mr_fail(MR_ERROR_CONFIG, "url must begin with rtsp://, rtmp://, srt:// or udp://");
    *container = schemes[i].container;
    return MR_OK;
}

/* User and password are never reported, nor path and query, which may be a key. */
static void show(mr_video_push *push) {
    mr_url url;
    if (!mr_url_split(push->given->url, &url))
        return;
    snprintf(push->shown, sizeof push->shown, "%.*s://%.*s%s%.*s", (int)url.scheme.bytes, url.scheme.text,
             (int)url.host.bytes, url.host.text, url.port.text ? ":" : "", (int)url.port.bytes,
             url.port.text ? url.port.text : "");
}

int mr_video_push_open(mr_video_push *push, mr_stage *self) {
    *push = (mr_video_push){.given = self->options, .self = self, .packet = av_packet_alloc()};
    if (!push->packet)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    show(push);
    avformat_network_init();
    push->pause_ns = push->given->retry_first;
    return mr_video_push_container(push->given->url, &push->container);
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static int interrupted(void *context) {
    const mr_video_push *push = context;
    return mr_stage_gives_up(push->self) || mr_now_ns() > push->deadline_ns;
}

static void free_format(mr_video_push *push) {
    if (push->format && push->container != MR_CONTAINER_RTP && push->container != MR_CONTAINER_FLV)
        avio_closep(&push->format->pb);
    mr_rtmp_close(&push->rtmp);
    avformat_free_context(push->format);
    push->format = NULL;
}

static void disconnect(mr_video_push *push, bool orderly) {
    if (!push->format)
        return;
    push->deadline_ns = mr_now_ns() + (orderly ? push->given->timeout : 0);
    av_write_trailer(push->format);
    free_format(push);
    mr_media_unref(&push->media);
}

/* Varies a pause by up to a fifth, so that many clients do not return at once. */
static int64_t jitter(int64_t pause_ns, uint64_t tries) {
    uint64_t draw = ((uint64_t)mr_now_ns() ^ tries) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
    return pause_ns + (int64_t)((double)pause_ns * 0.4 * ((double)draw / (1 << 24) - 0.5));
}

/* The message without the address it begins with. */
static const char *words_of(const mr_video_push *push) {
    const char *words = mr_message();
    return av_strstart(words, push->shown, &words) && av_strstart(words, ": ", &words) ? words : mr_message();
}

/* The first failure after a connection is a warning, later ones are information. */
static void lose(mr_video_push *push, const char *what, int error) {
    void (*say)(const mr_stage *, const char *, ...) = push->tries ? mr_stage_info : mr_stage_warn;
    bool late = error == AVERROR_EXIT || error == AVERROR(ETIMEDOUT);
    int64_t wait_ns = jitter(push->pause_ns, push->tries);
    say(push->self, "%s: %s %s: %s; next try in %.1f s", push->self->source_id, what, push->shown,
        late ? "it took too long" : push->refusal ? words_of(push) : mr_av_words(error), (double)wait_ns / 1e9);
    push->refusal = MR_OK;
    disconnect(push, false);
    push->tries++;
    push->try_ns = mr_now_ns() + wait_ns;
    push->pause_ns = 2 * push->pause_ns < push->given->retry_most ? 2 * push->pause_ns : push->given->retry_most;
}

static int open_rtmp(mr_video_push *push) {
    const mr_credentials *login = &push->given->login;
    const mr_rtmp_params params = {.url = push->given->url, .name = push->shown, .user = login->user,
                                   .password = login->password, .publishes = true, .most_bytes = MOST_ANSWER,
                                   .refusal = &push->refusal, .interrupt = {interrupted, push},
                                   .until_ns = push->deadline_ns};
    const int error = mr_rtmp_open(&push->rtmp, &params);
    push->format->pb = error ? NULL : mr_rtmp_flv(push->rtmp);
    return error;
}

static int open_format(mr_video_push *push, const mr_frame *key, AVDictionary **options) {
    const mr_credentials *login = &push->given->login;
    const AVIOInterruptCB callback = {interrupted, push};
    char url[4096];
    bool srt = mr_url_has_scheme(push->given->url, "srt");
    if (!mr_url_with_user(push->given->url, srt ? NULL : login->user, srt ? NULL : login->password, url, sizeof url))
        return AVERROR(EINVAL);
    int error = avformat_alloc_output_context2(&push->format, NULL, mr_container_format(push->container), url);
    if (error < 0)
        return error;
    if (srt && login->password)
        av_dict_set(options, "passphrase", login->password, 0);
    push->format->interrupt_callback = callback;
    push->format->flags |= AVFMT_FLAG_FLUSH_PACKETS | AVFMT_FLAG_BITEXACT;
    av_dict_set(options, "protocol_whitelist", schemes[scheme_of(url)].protocols, 0);
    if (mr_muxer_add_stream(push->format, key->media, key))
        return AVERROR_INVALIDDATA;
    if (push->container == MR_CONTAINER_FLV)
        error = open_rtmp(push);
    else if (push->container == MR_CONTAINER_RTP)
        av_dict_set(options, "rtsp_transport", "tcp", 0);
    else
        error = avio_open2(&push->format->pb, url, AVIO_FLAG_WRITE, &callback, options);
    return error < 0 ? error : avformat_write_header(push->format, options);
}

static bool connect_to(mr_video_push *push, const mr_frame *key) {
    AVDictionary *options = NULL;
    push->deadline_ns = mr_now_ns() + push->given->timeout;
    int error = open_format(push, key, &options);
    av_dict_free(&options);
    if (error < 0) {
        free_format(push); /* no header was written, so no trailer may be */
        lose(push, "no connection with", error);
        return false;
    }
    void (*say)(const mr_stage *, const char *, ...) = push->tries ? mr_stage_warn : mr_stage_info;
    say(push->self, "%s: sends to %s%s", push->self->source_id, push->shown, push->tries ? " again" : "");
    push->media = mr_media_ref(key->media);
    push->epoch = key->identity.epoch;
    push->times = (mr_muxer_times){0};
    push->sent = false;
    return true;
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

static int drop(mr_io *io, const mr_frame *frame, const char *reason) {
    mr_io_drop(io, frame, reason);
    return MR_DONE;
}

static int refuse(mr_video_push *push, mr_io *io, const mr_frame *frame) {
    if (!push->refused)
        mr_io_fail_source(io, frame->identity.source, MR_ERROR_DATA);
    push->refused = true;
    return drop(io, frame, "cannot be sent");
}

/* Whether there is a connection for this packet's stream. */
static bool ready(mr_video_push *push, const mr_frame *frame) {
    bool key = frame->flags & MR_FRAME_KEY;
    if (push->format && push->media->codec != frame->media->codec && key)
        disconnect(push, true);
    if (push->format)
        return push->media->codec == frame->media->codec;
    return key && mr_now_ns() >= push->try_ns && connect_to(push, frame);
}

static int send_packet(mr_video_push *push, mr_io *io, const mr_frame *frame) {
    /* A new epoch's times continue after the previous epoch. */
    if (frame->identity.epoch != push->epoch)
        mr_muxer_times_go_on(&push->times, frame);
    push->epoch = frame->identity.epoch;
    if (mr_muxer_fill(push->packet, push->container, frame, &push->times, push->format->streams[0]->time_base))
        return refuse(push, io, frame);
    push->deadline_ns = mr_now_ns() + push->given->timeout;
    int error = av_write_frame(push->format, push->packet);
    av_packet_unref(push->packet);
    if (error >= 0 && push->format->pb && push->format->pb->error < 0)
        error = push->format->pb->error;
    if (error < 0) {
        lose(push, "lost", error);
        return drop(io, frame, "no receiver");
    }
    if (!push->sent) {
        push->pause_ns = push->given->retry_first;
        push->tries = 0;
    }
    push->sent = true;
    return MR_DONE;
}

int mr_video_push_take(mr_video_push *push, mr_io *io) {
    const mr_frame *frame = mr_io_input(io);
    const AVCodecParameters *codec = frame->media ? frame->media->codec : NULL;
    if (!codec || push->refused)
        return drop(io, frame, "cannot be sent");
    if (mr_container_check(push->container, avcodec_get_name(codec->codec_id))) {
        mr_fail(MR_ERROR_DATA, "%s", mr_message());
        return refuse(push, io, frame);
    }
    if (!ready(push, frame))
        return drop(io, frame, push->format ? "no key frame" : "no receiver");
    return send_packet(push, io, frame);
}

void mr_video_push_close(mr_video_push *push) {
    if (!push->self)
        return;
    disconnect(push, true);
    av_packet_free(&push->packet);
}
