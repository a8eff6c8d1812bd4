#include "stages/live/libav_input.h"

#include <inttypes.h>
#include <libavutil/avstring.h>
#include <libavutil/opt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "stages/live/connection/address.h"
#include "stages/live/rtsp/rtsp_media.h"
#include "stages/media/coded/alike.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_probe.h"
#include "stages/media/ts/ts_tap.h"

/* How much libavformat may read to find streams and sizes: microseconds in stream time, and bytes. */
static const char analyze_us[] = "500000", probe_bytes[] = "2000000";


/* RTP bytes cannot be counted. Assume that RTP_BYTES come between two interrupt calls that follow each other without a
 * pause. */
enum { RTP_BYTES = 512 };
static const int64_t pause_ns = 20000000;

/* ---- where a scheme may lead to ---------------------------------------------------------------------------------- */

#define WEB "mpjpeg,mjpeg,mov,mp4,matroska,webm,mpegts,flv,avi,ogg,asf,h264,hevc,ivf,gif,mpeg,mpegvideo,nut," \
            "jpeg_pipe,png_pipe,webp_pipe,aac,webvtt"

static const struct scheme {
    const char *name, *protocols, *formats;
} schemes[] = {
    {"http", "", WEB}, /* web/web.h */
    {"https", "", WEB},
    {"rtmp", "", "flv"}, /* rtmp/rtmp.h */
    {"rtmps", "", "flv"},
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

static bool is_rtmp(const char *url) {
    return mr_url_has_scheme(url, "rtmp") || mr_url_has_scheme(url, "rtmps");
}

/* These streams end with the connection. If it ends early, too little data may have come to recognise the format. */
static bool may_be_cut_off(const char *url) {
    return mr_url_has_scheme(url, "srt") || is_rtmp(url);
}

/* The RTP demuxer opens sockets itself. */
static bool has_bytes(const char *url) {
    const char *name = scheme_of(url)->name;
    return strcmp(name, "rtp") != 0 && strcmp(name, "sdp") != 0;
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

static int refusal_of(const mr_libav_input *input) {
    return input->refusal ? input->refusal : input->index.status;
}

/* Fails with libavformat's text and its first complaint, without user and password. */
static int fail(mr_libav_input *input, int error, const char *step) {
    char text[768], complaint[300];
    if (atomic_load(input->cancelled))
        return mr_fail(MR_ERROR_CANCELLED, "stopped");
    if (refusal_of(input))
        return refusal_of(input);
    if (input->ran_out)
        return mr_fail(MR_ERROR_IO, "%s: it was not open within %.3g s (open_timeout)", input->params->url,
                       (double)input->params->open_timeout_ns / 1e9);
    int status = status_of(input, error);
    /* The connection ended before enough data had come. */
    if (status == MR_ERROR_DATA && input->begun)
        status = MR_ERROR_IO;
    snprintf(complaint, sizeof complaint, "%s", mr_av_complaint());
    if (strstr(complaint, "Format not on whitelist"))
        return mr_fail(MR_ERROR_DATA, "%s: its format is not read", input->params->url);
    const char *advice = strstr(complaint, "certificate failed") ? "; ca_file names authorities to trust" : "";
    snprintf(text, sizeof text, "%s: %s: %s%s%s%s%s", input->params->url, step, mr_av_words(error),
             *complaint ? " (" : "", complaint, advice, *complaint ? ")" : "");
    mr_url_hide(text);
    return mr_fail(status, "%s", text);
}

static int refuse_flood(mr_libav_input *input, size_t most_bytes) {
    const mr_connection_params *from = input->params;
    input->refusal = mr_fail(MR_ERROR_DATA,
                             "%s: more than %zu MiB came without a whole picture, the most for max_pixels %" PRId64,
                             from->url, most_bytes >> 20, from->media.max_pixels);
    return input->refusal;
}

static int64_t bytes_read(const mr_libav_input *input) {
    return input->hls    ? mr_hls_bytes(input->hls)
           : input->rtmp ? mr_rtmp_bytes(input->rtmp)
           : input->io   ? input->io->bytes_read
                         : 0;
}

static void check_flood(mr_libav_input *input) {
    const size_t most = input->params->most_bytes + MR_LIBAV_MORE;
    const int64_t now_ns = mr_now_ns();
    if (input->refusal)
        return;
    if (bytes_read(input) - input->read_before > (int64_t)most)
        refuse_flood(input, most);
    input->calls += input->most_calls && now_ns - input->called_ns < pause_ns;
    input->called_ns = now_ns;
    if (input->most_calls && input->calls > input->most_calls)
        input->refusal = mr_fail(MR_ERROR_DATA, "%s: packets come without end, and none ends a picture",
                                 input->params->url);
}

static int interrupted(void *context) {
    mr_libav_input *input = context;
    check_flood(input);
    if (input->io && input->io->bytes_read != input->seen)
        input->web.asked = 0;
    input->seen = input->io ? input->io->bytes_read : 0;
    input->ran_out |= input->deadline_ns && mr_now_ns() > input->deadline_ns;
    return input->ran_out || input->refusal || atomic_load(input->cancelled);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static void set_protocol(const mr_connection_params *params, AVDictionary **options) {
    const char *url = params->url;
    int64_t latency_us = params->latency_ns / 1000;
    mr_url parts;
    mr_web_set_tls(params->ca_file, options);
    av_dict_set_int(options, "max_delay", latency_us, 0);
    if (mr_url_has_scheme(url, "srt")) {
        if (mr_url_split(url, &parts) && !mr_url_query(&parts, "latency").text)
            av_dict_set_int(options, "latency", latency_us, 0);
        av_dict_set_int(options, "connect_timeout", params->open_timeout_ns / 1000000, 0);
        if (params->password)
            av_dict_set(options, "passphrase", params->password, 0);
    } else if (!mr_web_is_address(url)) {
        /* UDP only: packets that exceed the buffer are lost, and the stream continues. */
        av_dict_set(options, "overrun_nonfatal", "1", 0);
        av_dict_set(options, "buffer_size", "4194304", 0);
    }
}

/* The URL with user and password in libavformat's form. */
static bool address_of(const mr_connection_params *params, char *text, size_t bytes) {
    bool plain = mr_url_has_scheme(params->url, "srt") || mr_web_is_address(params->url);
    return mr_url_with_user(params->url, plain ? NULL : params->user, plain ? NULL : params->password, text, bytes);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Nothing can arrive at an invalid port. */
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
    return strcmp(scheme_of(url)->name, "sdp") == 0;
}

/* A session description is a local file; its streams come from the network. */
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

static int open_rtmp(mr_libav_input *input) {
    const mr_connection_params *params = input->params;
    const mr_rtmp_params rtmp = {.url = params->url, .name = params->url, .user = params->user,
                                 .password = params->password, .ca_file = params->ca_file,
                                 .most_bytes = params->most_bytes, .refusal = &input->refusal,
                                 .interrupt = {interrupted, input}, .until_ns = input->deadline_ns};
    return mr_rtmp_open(&input->rtmp, &rtmp);
}

/* Opens the address itself: 0 or an AVERROR. */
static int open_bytes(void *context, AVIOContext **io) {
    mr_libav_input *input = context;
    const mr_connection_params *params = input->params;
    const AVIOInterruptCB interrupt = {interrupted, input};
    AVDictionary *options = NULL;
    char url[MR_URL_BYTES];
    input->deadline_ns = mr_now_ns() + params->open_timeout_ns;
    mr_av_forget();
    if (mr_web_is_address(params->url))
        return mr_web_open(&input->web, io, params->url, NULL);
    if (is_rtmp(params->url))
        return open_rtmp(input);
    if (!address_of(params, url, sizeof url)) {
        input->refusal = mr_fail(MR_ERROR_CONFIG, "%s: URL, user and password are too long together", params->url);
        return AVERROR(EINVAL);
    }
    set_protocol(params, &options);
    av_dict_set(&options, "protocol_whitelist", scheme_of(params->url)->protocols, 0);
    int error = avio_open2(io, url, AVIO_FLAG_READ, &interrupt, &options);
    av_dict_free(&options);
    return error < 0 ? error : 0;
}

static void set_format(const mr_connection_params *params, bool is_list, AVDictionary **options) {
    const struct scheme *scheme = scheme_of(params->url);
    set_protocol(params, options);
    av_dict_set(options, "protocol_whitelist", scheme->protocols, 0);
    av_dict_set(options, "format_whitelist", is_list ? "mpegts,mov" : scheme->formats, 0);
    av_dict_set(options, "analyzeduration", analyze_us, 0);
    av_dict_set(options, "probesize", probe_bytes, 0);
    av_dict_set(options, "fpsprobesize", "0", 0);
}

/* A demuxer must not open anything else from an HTTP stream. */
static int open_part(AVFormatContext *format, AVIOContext **io, const char *url, int flags, AVDictionary **options) {
    return AVERROR(EPERM);
}

/* Taps the bytes before the demuxer: for missing packets in a transport stream, for the index in other formats
 * (MP4). */
static int tap_packets(mr_libav_input *input) {
    enum { SYNC = 0x47 };
    AVIOContext *from = input->format->pb;
    uint8_t first;
    mr_ts_tap_close(&input->tap);
    mr_index_bound_close(&input->index);
    input->marks = (mr_ts_marks){0};
    if (avio_read(from, &first, 1) != 1)
        return MR_OK;
    avio_seek(from, -1, SEEK_CUR);
    if (first == SYNC && mr_ts_tap_open(&input->tap, from) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    int status = first == SYNC ? MR_OK : mr_index_bound_open(&input->index, from, NULL, input->params->url, 0);
    input->format->pb = input->tap ? input->tap : input->index.tap;
    return status;
}

/* Gives the demuxer its input. `pb` stays NULL if it opens sockets itself. */
static int give_bytes(mr_libav_input *input) {
    if (is_description(input->params->url))
        return open_description(input);
    if (input->replaced) {
        input->format->pb = input->tap;
        input->format->io_open = open_part;
        return MR_OK;
    }
    input->format->pb = input->rtmp ? mr_rtmp_flv(input->rtmp) : input->io;
    int error = input->hls ? mr_hls_begin(input->hls, &input->format->pb) : 0;
    if (error)
        return error == AVERROR_EOF ? MR_END : fail(input, error, "it broke off");
    if (!input->format->pb)
        return MR_OK;
    input->format->io_open = open_part;
    return tap_packets(input);
}

/* Opens a demuxer for `io`, a run of segments, a session description or RTP. */
static int open_format(mr_libav_input *input) {
    const mr_connection_params *params = input->params;
    char url[MR_URL_BYTES];
    AVDictionary *options = NULL;
    input->format = avformat_alloc_context();
    input->packet = input->packet ? input->packet : av_packet_alloc();
    if (!input->format || !input->packet)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!address_of(params, url, sizeof url))
        return mr_fail(MR_ERROR_CONFIG, "%s: URL, user and password are too long together", params->url);
    input->format->interrupt_callback = (AVIOInterruptCB){interrupted, input};
    int status = give_bytes(input);
    if (status)
        return status;
    if (!has_bytes(params->url))
        input->most_calls = params->most_bytes / RTP_BYTES;
    set_format(params, input->hls, &options);
    const AVInputFormat *known = is_description(params->url) ? av_find_input_format("sdp") : NULL;
    int error = avformat_open_input(&input->format, url, known, &options);
    av_dict_free(&options);
    return error < 0 ? fail(input, error, "it cannot be opened") : MR_OK;
}

/* All streams must be known by now, unless the description announces a transport stream. */
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

/* MR_OK if the answer may be used. */
static int check_web(void *context, AVIOContext *io) {
    mr_libav_input *input = context;
    return io && mr_web_is_address(input->params->url) ? mr_web_check(&input->web, io) : 0;
}

static int find_streams(mr_libav_input *input) {
    AVFormatContext *format = input->format;
    int status = check_description(input);
    if (status)
        return status;
    int error = avformat_find_stream_info(format, NULL);
    if (error >= 0)
        error = check_web(input, input->io);
    if (error < 0 || input->ran_out || refusal_of(input) || atomic_load(input->cancelled))
        return fail(input, error < 0 ? error : AVERROR(ETIMEDOUT), "looking for its streams");
    const bool any = input->replaced || (input->hls && mr_hls_is_variant(input->hls));
    int wanted = any ? -1 : input->params->media.stream;
    AVStream *best = mr_input_best_video(format, input->params->media.max_pixels);
    if (wanted >= 0)
        best = (unsigned)wanted < format->nb_streams ? format->streams[wanted] : NULL;
    const bool there = best && best->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
    if (!there && wanted >= 0)
        return mr_fail(MR_ERROR_DATA, "%s: stream %d is not a video; it has %u streams", input->params->url, wanted,
                       format->nb_streams);
    if (!there)
        return mr_fail(MR_ERROR_DATA, "%s: holds no video", input->params->url);
    status = mr_input_check_codec(best->codecpar, input->params->url);
    if (status)
        return status;
    input->stream = best;
    for (unsigned i = 0; i < format->nb_streams; i++)
        if (format->streams[i] != input->stream)
            format->streams[i]->discard = AVDISCARD_ALL;
    mr_ts_tap_watch(input->tap, input->stream->id);
    return MR_OK;
}

static int check_size(const mr_connection_params *params, int width, int height) {
    int64_t most = params->media.max_pixels;
    if ((int64_t)width * height <= most)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s: pictures of %dx%d are larger than max_pixels (%" PRId64 ") allows", params->url,
                   width, height, most);
}

static int describe(mr_libav_input *input) {
    AVStream *stream = input->stream;
    if (input->media && mr_codecs_are_alike(input->media->codec, stream->codecpar, false))
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

static int64_t to_ns(const mr_libav_input *input, int64_t time) {
    return input->timeless ? MR_NO_TIME : mr_ticks_ns(time, 0, input->stream->time_base);
}

/* The demuxer for joined JPEGs assumes 25 pictures a second, however they arrive. */
static void find_kind(mr_libav_input *input) {
    const AVFormatContext *format = input->format;
    bool joined = av_match_name(format->iformat->name, "mpjpeg,mjpeg");
    bool still = strstr(format->iformat->name, "_pipe") != NULL;
    bool sized = !input->hls && format->pb && avio_size(format->pb) > 0;
    input->timeless = joined;
    bool ends = still || sized || (format->duration != AV_NOPTS_VALUE && format->duration > 0);
    input->recorded = input->hls ? mr_hls_is_recorded(input->hls) : ends && mr_web_is_address(input->params->url);
}

static int open_by_format(mr_libav_input *input) {
    int status = open_format(input);
    if (!status)
        status = find_streams(input);
    if (!status)
        status = check_size(input->params, input->stream->codecpar->width, input->stream->codecpar->height);
    if (!status)
        find_kind(input);
    if (!input->replaced)
        mr_seams_begin(&input->seams);
    return status ? status : describe(input);
}

/* ---- JPEGs over HTTP --------------------------------------------------------------------------------------------- */

static bool is_cancelled(void *context) {
    return atomic_load(((mr_libav_input *)context)->cancelled);
}

/* Copies a JPEG and appends the zeros that decoders need. */
static int copy_jpeg(const mr_joined_picture *from, mr_packet *packet) {
    static const uint8_t eoi[] = {0xff, 0xd9};
    *packet = (mr_packet){.pts_ns = MR_NO_TIME, .dts_ns = MR_NO_TIME, .captured_ns = MR_NO_TIME,
                          .arrived_ns = mr_now_ns(),
                          .flags = MR_FRAME_KEY | (from->damaged ? MR_FRAME_CORRUPT : 0)};
    const int status = mr_packet_room(packet, from->bytes + (from->open ? sizeof eoi : 0));
    if (status)
        return status;
    memcpy(packet->data, from->data, from->bytes);
    memcpy(packet->data + from->bytes, eoi, from->open ? sizeof eoi : 0);
    return MR_OK;
}

/* Describes pictures after their size changed. */
static int describe_jpeg(mr_libav_input *input, int width, int height) {
    const mr_rtsp_facts facts = {.codec = MR_RTP_JPEG, .unit = input->jpeg.data, .unit_bytes = input->jpeg.bytes,
                                 .width = width, .height = height,
                                 .rate = input->params->poll_ns ? 1e9 / (double)input->params->poll_ns : 0};
    mr_media *media;
    if (input->media && width == input->width && height == input->height)
        return MR_OK;
    int status = mr_rtsp_describe(&media, &input->survey, &facts, &input->params->media);
    if (status)
        return status;
    mr_media_unref(&input->media);
    input->media = media;
    input->width = width;
    input->height = height;
    return MR_OK;
}

static int fail_jpeg(mr_libav_input *input, int error) {
    const char *type = input->mjpeg.joined ? mr_joined_type(input->mjpeg.joined) : "", *url = input->params->url;
    if (error == MR_MJPEG_TOO_MUCH && !input->refusal)
        return refuse_flood(input, input->params->most_bytes);
    if (error == AVERROR_INVALIDDATA && input->params->poll_ns && !*mr_av_complaint())
        return mr_fail(input->begun ? MR_ERROR_IO : MR_ERROR_DATA,
                       "%s: the answer has no JPEG, which `poll` reads%s%s", url,
                       *type ? "; its type is " : "", type);
    if (error == AVERROR_EOF && !input->begun && !input->refusal)
        return mr_fail(*type && !strstr(type, "jp") ? MR_ERROR_DATA : MR_ERROR_IO,
                       "%s: it ended before its first picture%s%s", url, *type ? "; it has parts of type " : "", type);
    return fail(input, error, "it broke off");
}

/* A single picture outside a stream counts as a recording that has ended. */
static int read_jpeg(mr_libav_input *input) {
    mr_joined_picture picture;
    int error = mr_mjpeg_read(&input->mjpeg, &picture);
    if (atomic_load(input->cancelled))
        return mr_fail(MR_ERROR_CANCELLED, "stopped");
    input->gaps += input->mjpeg.broken - input->broken;
    input->broken = input->mjpeg.broken;
    if (error == AVERROR_EOF && input->begun && !input->refusal) {
        input->recorded |= input->bare && input->mjpeg.pictures == 1 && !input->broken;
        return MR_END;
    }
    if (error)
        return fail_jpeg(input, error);
    input->deadline_ns = 0;
    int status = input->media ? MR_OK : check_size(input->params, picture.width, picture.height);
    if (!status)
        status = copy_jpeg(&picture, &input->jpeg);
    if (status)
        return status;
    input->has_jpeg = input->begun = true;
    return describe_jpeg(input, picture.width, picture.height);
}

static int give_jpeg(mr_libav_input *input, mr_packet *packet) {
    int status = input->has_jpeg ? MR_OK : read_jpeg(input);
    if (status)
        return status;
    *packet = input->jpeg;
    packet->media = mr_media_ref(input->media);
    if (input->gaps != input->noted || packet->flags & MR_FRAME_CORRUPT)
        packet->flags |= MR_FRAME_SEAM;
    input->noted = input->gaps;
    input->has_jpeg = false;
    return MR_OK;
}

/* Whether `mjpeg` must read what was opened, which begins with `text`; if so, it takes it over. An answer with parts is
 * a stream, whatever length it claims. */
static bool take_jpegs(mr_libav_input *input, const char *text, size_t bytes) {
    const mr_mjpeg_params params = {.open = open_bytes, .check = check_web, .is_cancelled = is_cancelled,
                                    .context = input, .poll_ns = input->params->poll_ns,
                                    .most_bytes = input->params->most_bytes};
    uint8_t *type = NULL;
    if (!mr_web_is_address(input->params->url))
        return false;
    if (av_opt_get(input->io, "mime_type", AV_OPT_SEARCH_CHILDREN, &type) < 0)
        type = NULL;
    const bool has_length = avio_size(input->io) > 0;
    input->bare = !mr_mjpeg_has_parts((const char *)type, text);
    const bool taken = params.poll_ns || !input->bare || (!has_length && mr_mjpeg_is_picture(text, bytes));
    av_free(type);
    input->recorded = taken && input->bare && !params.poll_ns && has_length;
    if (!taken || mr_mjpeg_begin(&input->mjpeg, &params, input->io))
        return false;
    input->io = NULL;
    return true;
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

static int open_list(mr_libav_input *input) {
    const mr_connection_params *params = input->params;
    const mr_hls_params list = {.web = &input->web, .max_pixels = params->media.max_pixels,
                                .stream = params->media.stream, .place = params->place};
    AVIOContext *io = input->io;
    input->io = NULL; /* closing also calls the interrupt function */
    int error = mr_hls_open(&input->hls, &list, io);
    avio_closep(&io);
    return error ? fail(input, error, "its playlist cannot be read") : open_by_format(input);
}

static int open_answer(mr_libav_input *input) {
    char text[MR_WEB_LOOK] = "";
    const size_t bytes = mr_web_is_address(input->params->url) ? mr_web_look(input->io, text) : 0;
    if (bytes && mr_web_is_manifest(text))
        return mr_web_refuse_manifest(input->params->url);
    if (mr_playlist_may_be(text, bytes))
        return open_list(input);
    return input->io && take_jpegs(input, text, bytes) ? read_jpeg(input) : open_by_format(input);
}

int mr_libav_input_open(mr_libav_input *input, const mr_connection_params *params, const atomic_bool *cancelled) {
    *input = (mr_libav_input){.params = params, .cancelled = cancelled, .file.fd = -1};
    input->web = (mr_web){.url = params->url, .user = params->user, .password = params->password,
                          .ca_file = params->ca_file, .allow_hosts = params->allow_hosts,
                          .interrupt = {interrupted, input}, .refusal = &input->refusal};
    input->deadline_ns = mr_now_ns() + params->open_timeout_ns;
    mr_av_forget();
    int error = has_bytes(params->url) ? open_bytes(input, &input->io) : 0;
    int status = error ? fail(input, error, "it cannot be opened") : open_answer(input);
    /* A recording's times start at 0, like a file's. */
    if (!status && input->format && input->recorded)
        mr_hls_times_begin(&input->times, to_ns(input, input->stream->start_time));
    input->deadline_ns = 0;
    return status;
}

void mr_libav_input_survey(mr_libav_input *input, mr_survey *survey) {
    mr_probe probe;
    if (!input->format) {
        *survey = input->survey;
        return;
    }
    const AVCodecParameters *codec = input->stream->codecpar;
    survey->set.codec = avcodec_get_name(codec->codec_id);
    if (mr_probe_open(&probe, codec, input->params->media.max_pixels))
        mr_probe_survey(probe.codec, input->media, survey);
    mr_probe_close(&probe);
    survey->rate = input->media->rate_num ? (double)input->media->rate_num / input->media->rate_den : 0;
}

void mr_libav_input_close(mr_libav_input *input) {
    AVIOContext *io = input->io;
    input->io = NULL; /* closing also calls the interrupt function */
    avformat_close_input(&input->format);
    mr_ts_tap_close(&input->tap);
    mr_index_bound_close(&input->index);
    mr_hls_close(&input->hls);
    mr_rtmp_close(&input->rtmp);
    avio_closep(&io);
    mr_mjpeg_end(&input->mjpeg);
    if (input->has_jpeg)
        mr_packet_drop(&input->jpeg);
    mr_input_close(&input->file);
    av_packet_free(&input->packet);
    mr_media_unref(&input->media);
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

static void note_end(mr_libav_input *input) {
    const AVPacket *packet = input->packet;
    const int64_t end_us = packet->pts == AV_NOPTS_VALUE ? 0 : av_rescale_q(packet->pts + packet->duration,
                                                                          input->stream->time_base, AV_TIME_BASE_Q);
    input->end_us = end_us > input->end_us ? end_us : input->end_us;
}

/* The server closed the connection without having sent a length. A recording is complete if it has reached its declared
 * end. */
static int end_without_length(mr_libav_input *input) {
    const AVFormatContext *format = input->format;
    const double begin_us = format->start_time == AV_NOPTS_VALUE ? 0 : (double)format->start_time;
    const double read_us = (double)input->end_us - begin_us, declared_us = (double)format->duration;
    if (!input->recorded || declared_us <= 0 || read_us >= declared_us - AV_TIME_BASE / 2)
        return MR_END;
    return mr_fail(MR_ERROR_IO, "%s: it broke off at %.3f s of %.3f s", input->params->url, read_us / AV_TIME_BASE,
                   declared_us / AV_TIME_BASE);
}

static int next(mr_libav_input *input) {
    for (;;) {
        av_packet_unref(input->packet);
        mr_av_forget();
        int error = av_read_frame(input->format, input->packet);
        if (atomic_load(input->cancelled))
            return mr_fail(MR_ERROR_CANCELLED, "stopped");
        if (error == AVERROR(EAGAIN))
            continue;
        if (error == AVERROR_EOF && !refusal_of(input))
            return MR_END;
        const bool over_http = input->io && mr_web_is_address(input->params->url);
        if (over_http && !refusal_of(input) && mr_web_may_have_ended(input->io, error))
            return end_without_length(input);
        if (error < 0)
            return fail(input, error, "it broke off");
        if (input->packet->stream_index != input->stream->index || input->packet->size <= 0)
            continue;
        if (check_web(input, input->io))
            return input->refusal;
        input->read_before = bytes_read(input);
        input->calls = 0;
        input->begun = true;
        mr_packet_bound(input->packet, input->stream->time_base);
        note_end(input);
        return mr_input_check_packet(input->packet, input->params->url);
    }
}

/* Whether data is missing before the packet or in it. */
static bool mark(mr_libav_input *input) {
    const mr_ts_scan *scan = mr_ts_tap_scan(input->tap);
    input->packet->pos = mr_ts_tap_place(input->tap, input->packet->pos);
    const bool lost = mr_ts_mark(&input->marks, scan, input->stream->id, input->packet) ||
                      input->gaps != input->noted || input->seam;
    input->noted = input->gaps;
    input->seam = false;
    return lost;
}

/* Opens a new demuxer: another run of segments follows, or another video replaced this one. MR_END: nothing follows. */
static int begin_run(mr_libav_input *input) {
    input->replaced = mr_ts_tap_has_more(input->tap);
    if (!input->replaced && !input->hls)
        return MR_END;
    avformat_close_input(&input->format);
    if (input->replaced && mr_ts_tap_go_on(&input->tap) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (input->replaced) {
        input->marks = (mr_ts_marks){0};
        input->end_us = 0;
    }
    int status = open_by_format(input);
    input->times.is_anew |= !status && !input->replaced && mr_hls_is_anew(input->hls);
    input->seam |= status || input->replaced || !mr_hls_continues(input->hls);
    return status;
}

int mr_libav_input_read(mr_libav_input *input, mr_packet *packet) {
    if (!input->format)
        return give_jpeg(input, packet);
    int status = next(input);
    while (status == MR_END && !(status = begin_run(input)))
        status = next(input);
    if (status)
        return status;
    const bool lost = mark(input);
    AVPacket *from = input->packet;
    /* The clock restarts where recordings were joined. Playlists announce that; live_times.h handles live streams. */
    const bool anew = input->recorded && !input->hls &&
                      mr_seams_shift(&input->seams, input->format, input->stream, from);
    *packet = (mr_packet){.captured_ns = MR_NO_TIME, .arrived_ns = mr_now_ns()};
    packet->flags = mr_packet_flags(from) | (lost || anew ? MR_FRAME_SEAM : 0);
    packet->pts_ns = to_ns(input, from->pts);
    packet->dts_ns = to_ns(input, from->dts);
    packet->duration_ns = input->timeless ? 0 : mr_ticks_ns(from->duration, 0, input->stream->time_base);
    mr_hls_times_pass(&input->times, packet);
    if (input->hls)
        mr_hls_note_picture(input->hls);
    return mr_packet_take(packet, input->packet, input->media);
}
