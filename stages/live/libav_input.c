#include "stages/live/libav_input.h"

#include <inttypes.h>
#include <libavutil/avstring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/url.h"
#include "stages/live/address.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_probe.h"

/* Packets are looked at for so long to find streams and sizes (microseconds, of the stream's time) and so many
 * bytes. */
static const char analyze_us[] = "500000", probe_bytes[] = "2000000";

/* Pictures that are further apart do not tell how long one lasts. */
static const int64_t most_step_ns = INT64_C(10000000000);

static const AVRational nanoseconds = {1, 1000000000};

/* ---- where a scheme may lead to ---------------------------------------------------------------------------------- */

#define WEB "mpjpeg,mjpeg,mov,mp4,matroska,webm,mpegts,flv,avi,ogg,asf,h264,hevc,ivf,gif,mpeg,mpegvideo,nut," \
            "jpeg_pipe,png_pipe,webp_pipe,aac,webvtt"

static const struct scheme {
    const char *name, *protocols, *formats;
} schemes[] = {
    {"http", "", WEB}, /* web/web.h */
    {"https", "", WEB},
    {"rtmp", "rtmp,tcp", "flv"},
    {"rtmps", "rtmps,tls,tcp", "flv"},
    {"srt", "srt", "mpegts"},
    {"udp", "udp", "mpegts,h264,hevc,mpegvideo"},
    {"rtp", "rtp,udp", "rtp,sdp,mpegts"},
    {"sdp", "rtp,udp", "sdp,mpegts"},
};

static const struct scheme *scheme_of(const char *url) {
    size_t count = sizeof schemes / sizeof schemes[0];
    for (size_t i = 0; i < count; i++)
        if (mr_url_has_scheme(url, schemes[i].name))
            return &schemes[i];
    return &schemes[count - 1];
}

/* Their streams end with the connection, and what came of one then may be too little to be understood. */
static bool may_be_cut_off(const char *url) {
    return mr_url_has_scheme(url, "srt") || mr_url_has_scheme(url, "rtmp") || mr_url_has_scheme(url, "rtmps");
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static int status_of(const mr_libav_input *input, int error) {
    switch (error) {
    case AVERROR_HTTP_UNAUTHORIZED:
    case AVERROR_HTTP_FORBIDDEN:
        return MR_ERROR_PERMISSION;
    case AVERROR_HTTP_NOT_FOUND:
    case AVERROR_STREAM_NOT_FOUND:
        return MR_ERROR_NO_INPUT;
    case AVERROR_INVALIDDATA:
    case AVERROR_DEMUXER_NOT_FOUND:
        return may_be_cut_off(input->params->url) ? MR_ERROR_IO : MR_ERROR_DATA;
    case AVERROR(EINVAL):
        return MR_ERROR_DATA;
    case AVERROR(ENOMEM):
        return MR_ERROR_MEMORY;
    default:
        return strstr(mr_av_complaint(), "certificate") ? MR_ERROR_PERMISSION : MR_ERROR_IO;
    }
}

/* The words of libavformat, and its first complaint, without user and password. */
static int fail(mr_libav_input *input, int error, const char *step) {
    char text[768], complaint[300];
    if (atomic_load(input->web.cancelled))
        return mr_fail(MR_ERROR_CANCELLED, "stopped");
    if (input->web.refusal)
        return input->web.refusal;
    if (input->web.ran_out)
        return mr_fail(MR_ERROR_IO, "%s: it was not open within %.3g s (open_timeout)", input->params->url,
                       (double)input->params->open_timeout_ns / 1e9);
    int status = status_of(input, error);
    snprintf(complaint, sizeof complaint, "%s", mr_av_complaint());
    if (strstr(complaint, "Format not on whitelist"))
        return mr_fail(MR_ERROR_DATA, "%s: its format is not read", input->params->url);
    const char *advice = strstr(complaint, "certificate failed") ? "; ca_file names authorities to trust" : "";
    snprintf(text, sizeof text, "%s: %s: %s%s%s%s%s", input->params->url, step, mr_av_words(error),
             *complaint ? " (" : "", complaint, advice, *complaint ? ")" : "");
    mr_url_hide(text);
    return mr_fail(status, "%s", text);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void set_protocol(const mr_libav_input *input, AVDictionary **options) {
    const mr_connection_params *params = input->params;
    const char *url = params->url;
    int64_t latency_us = params->latency_ns / 1000;
    mr_url parts;
    av_dict_set_int(options, "max_delay", latency_us, 0);
    if (mr_url_has_scheme(url, "srt")) {
        if (mr_url_split(url, &parts) && !mr_url_query(&parts, "latency").text)
            av_dict_set_int(options, "latency", latency_us, 0);
        av_dict_set_int(options, "connect_timeout", params->open_timeout_ns / 1000000, 0);
        if (params->password)
            av_dict_set(options, "passphrase", params->password, 0);
    } else if (!mr_web_is_address(url)) {
        mr_web_set_tls(&input->web, options);
        /* Of UDP: packets that find no room are lost, and the stream goes on. */
        av_dict_set(options, "overrun_nonfatal", "1", 0);
        av_dict_set(options, "buffer_size", "4194304", 0);
    }
}

/* The URL with user and password, as libavformat takes them. */
static bool address_of(const mr_connection_params *params, char *text, size_t bytes) {
    bool plain = mr_url_has_scheme(params->url, "srt") || mr_web_is_address(params->url);
    return mr_url_with_user(params->url, plain ? NULL : params->user, plain ? NULL : params->password, text, bytes);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Nothing ever comes to a port that is none. */
static int check_ports(const mr_libav_input *input) {
    static const char media[] = "\nm=video ";
    char text[16384] = "\n";
    ssize_t bytes = pread(input->file.fd, text + 1, sizeof text - 2, 0);
    text[bytes > 0 ? bytes + 1 : 1] = '\0';
    for (const char *at = text; (at = strstr(at, media));) {
        at += sizeof media - 1;
        long port = strtol(at, NULL, 10);
        if (port < 1 || port > 65535)
            return mr_fail(MR_ERROR_DATA, "%s: %.*s is not a port that video could come to", input->params->url,
                           (int)strcspn(at, " \r\n/"), at);
    }
    return MR_OK;
}

static bool is_description(const char *url) {
    return !strstr(url, "://");
}

/* A session description is a file here, whose streams come from the network. */
static int open_description(mr_libav_input *input) {
    int status = mr_input_open(&input->file, input->params->url, NULL);
    if (!status)
        status = check_ports(input);
    if (!status)
        status = mr_input_avio(&input->file);
    if (!status)
        input->format->pb = input->file.avio;
    return status;
}

/* Nothing that is read over HTTP may open anything else. */
static int open_part(AVFormatContext *format, AVIOContext **io, const char *url, int flags, AVDictionary **options) {
    (void)format, (void)io, (void)url, (void)flags, (void)options;
    return AVERROR(EPERM);
}

static int open_list(mr_libav_input *input) {
    const mr_connection_params *params = input->params;
    const mr_hls_params hls = {.web = &input->web, .max_pixels = params->media.max_pixels,
                               .stream = params->media.stream, .place = params->place};
    int error = mr_hls_open(&input->hls, &hls, input->io);
    avio_closep(&input->io);
    if (error)
        return fail(input, error, "its playlist cannot be read");
    input->wanted = mr_hls_is_variant(input->hls) ? -1 : input->wanted;
    return MR_OK;
}

static int open_address(mr_libav_input *input) {
    char text[MR_WEB_LOOK];
    int error = mr_web_open(&input->web, &input->io, input->params->url, NULL);
    if (error)
        return fail(input, error, "it cannot be opened");
    size_t bytes = mr_web_look(input->io, text);
    if (mr_web_is_manifest(text))
        return mr_web_refuse_manifest(input->params->url);
    return mr_playlist_may_be(text, bytes) ? open_list(input) : MR_OK;
}

/* What the demuxer reads, unless it opens the address itself. */
static int open_bytes(mr_libav_input *input) {
    if (!input->hls && !input->io)
        return is_description(input->params->url) ? open_description(input) : MR_OK;
    input->format->io_open = open_part;
    input->format->pb = input->io;
    int error = input->hls ? mr_hls_begin(input->hls, &input->format->pb) : 0;
    return error == AVERROR_EOF ? MR_END : error ? fail(input, error, "its playlist cannot be read") : MR_OK;
}

static int open_format(mr_libav_input *input) {
    const mr_connection_params *params = input->params;
    const struct scheme *scheme = scheme_of(params->url);
    const char *formats = input->hls ? "mpegts,mov" : scheme->formats;
    char url[MR_URL_BYTES];
    AVDictionary *options = NULL;
    input->format = avformat_alloc_context();
    if (!input->format)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!address_of(params, url, sizeof url))
        return mr_fail(MR_ERROR_CONFIG, "%s: URL, user and password are too long together", params->url);
    input->format->interrupt_callback = (AVIOInterruptCB){mr_web_interrupted, &input->web};
    int status = open_bytes(input);
    if (status)
        return status;
    set_protocol(input, &options);
    av_dict_set(&options, "protocol_whitelist", scheme->protocols, 0);
    av_dict_set(&options, "format_whitelist", formats, 0);
    av_dict_set(&options, "analyzeduration", analyze_us, 0);
    av_dict_set(&options, "probesize", probe_bytes, 0);
    av_dict_set(&options, "fpsprobesize", "0", 0);
    int error = avformat_open_input(&input->format, url, is_description(params->url) ? av_find_input_format("sdp") : NULL,
                                    &options);
    av_dict_free(&options);
    return error < 0 ? fail(input, error, "it cannot be opened") : MR_OK;
}

/* A description has named all streams by now, unless it is one of a transport stream. */
static int check_description(const mr_libav_input *input) {
    const AVFormatContext *format = input->format;
    const char *url = input->params->url;
    bool unknown = false;
    if (strcmp(format->iformat->name, "sdp") != 0 || format->ctx_flags & AVFMTCTX_NOHEADER)
        return MR_OK;
    for (unsigned i = 0; i < format->nb_streams; i++) {
        const AVCodecParameters *codec = format->streams[i]->codecpar;
        if (codec->codec_type == AVMEDIA_TYPE_VIDEO && codec->codec_id != AV_CODEC_ID_NONE)
            return MR_OK;
        unknown |= codec->codec_type == AVMEDIA_TYPE_VIDEO;
    }
    return unknown ? mr_fail(MR_ERROR_UNAVAILABLE, "%s: its video is of a format that is not read", url)
                   : mr_fail(MR_ERROR_DATA, "%s: is not a session description, or has no video", url);
}

static int find_streams(mr_libav_input *input) {
    AVFormatContext *format = input->format;
    int status = check_description(input);
    if (status)
        return status;
    int error = avformat_find_stream_info(format, NULL);
    if (error < 0 || mr_web_interrupted(&input->web))
        return fail(input, error < 0 ? error : AVERROR(ETIMEDOUT), "looking for its streams");
    int wanted = input->wanted;
    int best = wanted >= 0 ? wanted : av_find_best_stream(format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
    bool there = best >= 0 && (unsigned)best < format->nb_streams &&
                 format->streams[best]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
    if (!there && wanted >= 0)
        return mr_fail(MR_ERROR_DATA, "%s: stream %d is not a video; it has %u streams", input->params->url, wanted,
                       format->nb_streams);
    if (!there)
        return mr_fail(MR_ERROR_DATA, "%s: holds no video", input->params->url);
    input->stream = format->streams[best];
    for (unsigned i = 0; i < format->nb_streams; i++)
        if (format->streams[i] != input->stream)
            format->streams[i]->discard = AVDISCARD_ALL;
    return MR_OK;
}

static int check_size(const mr_libav_input *input) {
    const AVCodecParameters *codec = input->stream->codecpar;
    int64_t most = input->params->media.max_pixels;
    if ((int64_t)codec->width * codec->height <= most)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s: pictures of %dx%d are larger than max_pixels (%" PRId64 ") allows",
                   input->params->url, codec->width, codec->height, most);
}

static int64_t to_ns(const mr_libav_input *input, int64_t time) {
    return time == AV_NOPTS_VALUE || input->timeless ? MR_NO_TIME
                                                     : av_rescale_q(time, input->stream->time_base, nanoseconds);
}

static bool is_same_codec(const AVCodecParameters *a, const AVCodecParameters *b) {
    return a->codec_id == b->codec_id && a->codec_tag == b->codec_tag && a->width == b->width &&
           a->height == b->height && a->extradata_size == b->extradata_size &&
           (!a->extradata_size || memcmp(a->extradata, b->extradata, (size_t)a->extradata_size) == 0);
}

static int describe(mr_libav_input *input) {
    AVStream *stream = input->stream;
    if (input->media && is_same_codec(input->media->codec, stream->codecpar))
        return MR_OK;
    mr_media *media = mr_reader_describe(&input->params->media, input->params->url, stream->codecpar);
    if (!media)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    AVRational rate = input->timeless ? (AVRational){0, 1} : av_guess_frame_rate(input->format, stream, NULL);
    media->rate_num = rate.num > 0 && rate.den > 0 ? rate.num : 0;
    media->rate_den = media->rate_num ? rate.den : 0;
    mr_media_unref(&input->media);
    input->media = media;
    return MR_OK;
}

/* The demuxer of joined JPEGs counts 25 pictures a second, however they come. */
static void find_kind(mr_libav_input *input) {
    const AVFormatContext *format = input->format;
    bool joined = av_match_name(format->iformat->name, "mpjpeg,mjpeg");
    bool still = strstr(format->iformat->name, "_pipe") != NULL;
    bool sized = format->pb && avio_size(format->pb) > 0;
    input->timeless = joined;
    input->recorded = input->hls ? mr_hls_is_recorded(input->hls) : mr_web_is_address(input->params->url) &&
                      (still || sized || (format->duration != AV_NOPTS_VALUE && format->duration > 0));
}

static int open_stream(mr_libav_input *input) {
    int status = open_format(input);
    if (!status)
        status = find_streams(input);
    if (!status)
        status = check_size(input);
    if (!status)
        find_kind(input);
    return status ? status : describe(input);
}

int mr_libav_input_open(mr_libav_input *input, const mr_connection_params *params, const atomic_bool *cancelled) {
    *input = (mr_libav_input){.params = params, .file.fd = -1, .wanted = params->media.stream,
                              .packet = av_packet_alloc()};
    input->web = (mr_web){.url = params->url, .user = params->user, .password = params->password,
                          .ca_file = params->ca_file, .allow_hosts = params->allow_hosts, .cancelled = cancelled,
                          .deadline_ns = mr_live_now_ns() + params->open_timeout_ns};
    mr_av_forget();
    int status = input->packet ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!status && mr_web_is_address(params->url))
        status = open_address(input);
    if (!status)
        status = open_stream(input);
    if (!status && !input->timeless && input->recorded && input->stream->start_time != AV_NOPTS_VALUE)
        input->times.shift_ns = -to_ns(input, input->stream->start_time); /* a recording begins at 0, as a file does */
    input->web.deadline_ns = 0;
    return status;
}

void mr_libav_input_survey(mr_libav_input *input, mr_survey *survey) {
    const AVCodecParameters *codec = input->stream->codecpar;
    mr_probe probe;
    survey->set.codec = avcodec_get_name(codec->codec_id);
    if (mr_probe_open(&probe, codec, input->params->media.max_pixels))
        mr_probe_survey(probe.codec, input->media, survey);
    mr_probe_close(&probe);
    survey->rate = input->media->rate_num ? (double)input->media->rate_num / input->media->rate_den : 0;
}

void mr_libav_input_close(mr_libav_input *input) {
    avformat_close_input(&input->format);
    mr_hls_close(&input->hls);
    avio_closep(&input->io);
    mr_input_close(&input->file);
    av_packet_free(&input->packet);
    mr_media_unref(&input->media);
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

static int next(mr_libav_input *input) {
    for (;;) {
        av_packet_unref(input->packet);
        mr_av_forget();
        int error = av_read_frame(input->format, input->packet);
        if (atomic_load(input->web.cancelled))
            return mr_fail(MR_ERROR_CANCELLED, "stopped");
        if (error == AVERROR(EAGAIN))
            continue;
        if (error == AVERROR_EOF && !input->web.refusal)
            return MR_END;
        if (error < 0)
            return fail(input, error, "it broke off");
        if (input->packet->stream_index == input->stream->index && input->packet->size > 0)
            return MR_OK;
    }
}

/* Another run of segments follows, and is read by a demuxer of its own. */
static int begin_run(mr_libav_input *input) {
    avformat_close_input(&input->format);
    int status = open_stream(input);
    input->times.is_anew = mr_hls_is_anew(input->hls);
    input->seam = true;
    return status;
}

/* The clock of a run that has nothing to do with the one before is set so that times continue. */
static void continue_times(mr_libav_times *times, mr_packet *packet) {
    int64_t *given[] = {&packet->dts_ns, &packet->pts_ns};
    const int64_t now_ns = packet->dts_ns != MR_NO_TIME ? packet->dts_ns : packet->pts_ns;
    if (now_ns == MR_NO_TIME)
        return;
    if (times->is_anew && times->begun)
        times->shift_ns = times->last_ns + times->step_ns - now_ns;
    times->is_anew = false;
    const int64_t shifted_ns = now_ns + times->shift_ns, step_ns = shifted_ns - times->last_ns;
    if (packet->duration_ns > 0 || (times->begun && step_ns > 0 && step_ns < most_step_ns))
        times->step_ns = packet->duration_ns > 0 ? packet->duration_ns : step_ns;
    for (int i = 0; i < 2; i++)
        *given[i] += *given[i] == MR_NO_TIME ? 0 : times->shift_ns;
    times->last_ns = shifted_ns;
    times->begun = true;
}

int mr_libav_input_read(mr_libav_input *input, mr_packet *packet) {
    int status = next(input);
    while (status == MR_END && input->hls && (status = begin_run(input)) == MR_OK)
        status = next(input);
    if (status)
        return status;
    const AVPacket *from = input->packet;
    *packet = (mr_packet){.captured_ns = MR_NO_TIME, .arrived_ns = mr_live_now_ns()};
    packet->flags = mr_packet_flags(from);
    if (input->seam || input->gaps != input->noted || packet->flags & MR_FRAME_CORRUPT)
        packet->flags |= MR_FRAME_SEAM;
    input->noted = input->gaps;
    input->seam = false;
    packet->pts_ns = to_ns(input, from->pts);
    packet->dts_ns = to_ns(input, from->dts);
    packet->duration_ns = input->timeless ? 0 : av_rescale_q(from->duration, input->stream->time_base, nanoseconds);
    continue_times(&input->times, packet);
    if (input->hls)
        mr_hls_note_picture(input->hls);
    return mr_packet_take(packet, input->packet, input->media);
}
