/* Containers, read by libavformat. */
#include "stages/media/media_file.h"

#include <inttypes.h>
#include <libavcodec/avcodec.h>
#include <libavcodec/bsf.h>
#include <libavformat/avformat.h>
#include <libavutil/intreadwrite.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "stages/media/coded/alike.h"
#include "stages/media/coded/picture_times.h"
#include "stages/media/coded/recovery.h"
#include "stages/media/coded/x264_build.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_index.h"
#include "stages/media/media_input.h"
#include "stages/media/media_probe.h"
#include "stages/media/media_seams.h"
#include "stages/media/picture_format.h"
#include "stages/media/still/kinds.h"
#include "stages/media/ts/ts_tap.h"

/* Supported formats. Formats that can open other files or hosts (playlists, concat scripts, session descriptions,
 * manifests) must not be listed, nor those recognised only by name. Sound formats are listed so that the message can
 * name them. */
static const char *const readable[] = {
    "mov",  "matroska", "webm", "avi",  "mpegts", "mpeg",  "mpegvideo", "h264", "hevc", "m4v", "av1",  "obu",
    "ivf",  "flv",      "asf",  "ogg",  "gif",    "apng",  "nut",       "mxf",  "dv",   "mjpeg", "vc1", "h261",
    "h263", "cavsvideo", "rm",  "wtv",  "dirac",  "dnxhd", "yuv4mpegpipe", "live_flv", "swf", "film_cpk", "flic",
    "smjpeg", "mpjpeg", "gxf",  "nsv",  "nuv",    "roq",   "wav",       "mp3",  "flac", "aac", "ac3",  "eac3",
    "dts",  "aiff",     "au",   "caf",  "w64",    "amr",   "ape",       "wv",   "tta",  "truehd", "loas"};
static const char *const following[] = {
    "hls",        "applehttp", "dash",        "concat",   "sdp",   "rtsp", "imf", "webm_dash_manifest",
    "ffmetadata", "redir",     "vapoursynth", "avisynth", "lavfi", "rtp",  "smil"};
static const char *const mp4[] = {"mp4"}, *const indexed[] = {"mp4", "matroska", "mxf"};

static const AVRational nanoseconds = {1, 1000000000};

typedef struct file_reader {
    mr_reader base;
    mr_reader_params params;
    mr_input input;
    const AVInputFormat *kind;
    AVIOContext *tap; /* in front of input.avio for a transport stream; else NULL */
    mr_index_bound index; /* the same for MP4, Matroska and MXF */
    AVFormatContext *format;
    AVStream *stream;
    AVPacket *packet;
    AVBSFContext *unpack; /* for MPEG-4 in AVI, where a packet can hold two pictures; else NULL */
    AVPacket *next;
    bool ahead;      /* `next` holds the next packet, or ahead_error why reading failed */
    int ahead_error;
    mr_media *media;
    int64_t origin;  /* stream start, in its time base */
    int64_t packets; /* read in this turn */
    bool elsewhere;  /* the demuxer began in the middle, where another video begins */
    mr_seams seams;
    mr_picture_times times;
} file_reader;

/* ---- opening --------------------------------------------------------------------------------------------------- */

/* libavformat's names are lists: "mov,mp4,m4a,3gp,3g2,mj2". */
static bool named(const AVInputFormat *format, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(names[i]);
        for (const char *at = format->name; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
            if (strncmp(at, names[i], length) == 0 && (at[length] == '\0' || at[length] == ','))
                return true;
    }
    return false;
}

static int choose_format(file_reader *reader) {
    const char *path = reader->params.uri, *advice = "";
    int status = mr_input_probe(&reader->input, path, &reader->kind);
    const AVInputFormat *kind = reader->kind;
    if (status)
        return status;
    if (strcmp(kind->name, "hls") == 0)
        advice = ": join the files that it lists (cat 1.ts 2.ts > all.ts), or read it from an HTTP server";
    if (named(kind, following, sizeof following / sizeof *following))
        return mr_fail(MR_ERROR_DATA,
                       "%s: is a playlist or script (%s); those point at other files or hosts and are not followed%s",
                       path, kind->name, advice);
    if (strcmp(kind->name, "mpegts") == 0 && mr_ts_tap_open(&reader->tap, reader->input.avio) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    /* Pictures joined in one file. */
    if (mr_input_image_codec(kind))
        return MR_OK;
    if (!named(kind, readable, sizeof readable / sizeof *readable))
        return mr_fail(MR_ERROR_DATA, "%s is not a video or image of a supported format (%s)", path,
                       kind->long_name);
    return named(kind, indexed, 3) ? mr_index_bound_open(&reader->index, reader->input.avio, kind->name, path,
                                                         reader->input.bytes) : MR_OK;
}

/* Maps a libavformat error to a status. Demuxers also answer a damaged file with "out of memory" or "input/output
 * error": the file is at fault, unless reading from disk failed. */
static int status_of(const file_reader *reader, int error) {
    bool blames_machine = error == AVERROR(ENOMEM) || error == AVERROR(EIO);
    return blames_machine && reader->input.avio->error != error ? MR_ERROR_DATA : mr_av_status(error);
}

/* Joined pictures have no times: unless a container's name is known, they use the requested rate. */
static int set_rate(AVDictionary **options, const AVInputFormat *format, double rate) {
    bool timeless = mr_input_image_codec(format) || strcmp(format->name, "mjpeg") == 0;
    char text[64];
    AVRational exact = av_d2q(rate, 1000000);
    snprintf(text, sizeof text, "%d/%d", exact.num, exact.den);
    return timeless && rate > 0 ? av_dict_set(options, "framerate", text, 0) : 0;
}

typedef enum mp4_index { MP4_UNKNOWN, MP4_MISSING, MP4_INCOMPLETE, MP4_COMPLETE } mp4_index;

/* Searches an MP4's top-level boxes for the index (ISO/IEC 14496-12, 4.2). Each box begins with size and name. Size 0
 * means the last box; size 1 means that a 64-bit size follows the name. UNKNOWN if it does not begin like an MP4. */
static mp4_index find_mp4_index(int fd) {
    static const char *const first[] = {"ftyp", "mdat", "wide", "free", "skip"};
    struct stat file;
    uint8_t head[16];
    bool known = false;
    int64_t at = 0, size = 0;
    if (fstat(fd, &file))
        return MP4_UNKNOWN;
    for (; pread(fd, head, sizeof head, at) >= 8; at += size) {
        for (size_t i = 0; at == 0 && i < sizeof first / sizeof *first; i++)
            known = known || memcmp(head + 4, first[i], 4) == 0;
        size = AV_RB32(head) == 1 ? (int64_t)AV_RB64(head + 8) : (int64_t)AV_RB32(head);
        bool whole = size >= 8 && size <= file.st_size - at;
        if (known && memcmp(head + 4, "moov", 4) == 0)
            return whole ? MP4_COMPLETE : MP4_INCOMPLETE;
        if (!known || !whole)
            break;
    }
    return known ? MP4_MISSING : MP4_UNKNOWN;
}

/* Reports a libavformat error while opening a file. */
static int fail_open(const file_reader *reader, int error) {
    const AVInputFormat *format = reader->kind;
    const char *path = reader->params.uri;
    mp4_index index = MP4_UNKNOWN;
    if (reader->index.status)
        return reader->index.status;
    if (error == AVERROR_INVALIDDATA && named(format, mp4, 1))
        index = find_mp4_index(reader->input.fd);
    if (index == MP4_MISSING || index == MP4_INCOMPLETE)
        return mr_fail(MR_ERROR_DATA,
                       "%s: its index (moov) is %s, so the file is probably cut off, or its recording was not "
                       "finished; copy it again from where it came from",
                       path, index == MP4_MISSING ? "missing" : "incomplete");
    if (index == MP4_UNKNOWN && error == AVERROR_INVALIDDATA)
        return mr_fail(MR_ERROR_DATA, "%s is not a video or image that can be read (tried as "
                                      "%s): %s", path, format->name,
                       mr_av_words(error));
    return mr_fail(status_of(reader, error), "%s: cannot be read (%s): %s", path, format->name, mr_av_words(error));
}

static int open_format(file_reader *reader) {
    const char *path = reader->params.uri;
    AVDictionary *options = NULL;
    reader->format = avformat_alloc_context();
    if (!reader->format || av_dict_set(&options, "protocol_whitelist", "file", 0) < 0 ||
        av_dict_set(&options, "format_whitelist", reader->kind->name, 0) < 0 ||
        set_rate(&options, reader->kind, reader->params.rate) < 0) {
        av_dict_free(&options);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    reader->format->pb = reader->tap ? reader->tap : reader->index.tap ? reader->index.tap : reader->input.avio;
    reader->format->interrupt_callback = (AVIOInterruptCB){mr_input_interrupted, &reader->input};
    /* On failure libavformat frees the context and leaves our AVIOContext alone. */
    int error = avformat_open_input(&reader->format, path, reader->kind, &options);
    av_dict_free(&options);
    return error < 0 ? fail_open(reader, error) : MR_OK;
}

static bool is_cover(const AVStream *stream) {
    return stream->disposition & AV_DISPOSITION_ATTACHED_PIC;
}

static bool is_video(const AVStream *stream) {
    return stream->codecpar->codec_type == AVMEDIA_TYPE_VIDEO;
}

static bool has_sound(const AVFormatContext *format) {
    for (unsigned i = 0; i < format->nb_streams; i++)
        if (format->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO)
            return true;
    return false;
}

/* Chooses the best video stream. A cover picture counts only if the file has nothing else. Next to video it is ignored,
 * and it does not turn a song into a video. */
static AVStream *best_stream(const file_reader *reader) {
    AVStream *best = mr_input_best_video(reader->format, reader->params.max_pixels);
    return best && is_cover(best) && has_sound(reader->format) ? NULL : best;
}

static int find_cover(const AVFormatContext *format) {
    for (unsigned i = 0; i < format->nb_streams; i++)
        if (is_cover(format->streams[i]))
            return (int)i;
    return -1;
}

static int say_no_video(const AVFormatContext *format, const char *path) {
    int cover = find_cover(format);
    if (cover >= 0)
        return mr_fail(MR_ERROR_DATA,
                       "%s: holds sound and a cover picture but no video; stream: %d takes the cover", path, cover);
    return mr_fail(MR_ERROR_DATA, "%s: holds %s", path, has_sound(format) ? "sound but no video" : "no video");
}

static int choose_stream(file_reader *reader) {
    AVFormatContext *format = reader->format;
    const char *path = reader->params.uri;
    int wanted = reader->params.stream;
    const bool there = wanted >= 0 && (unsigned)wanted < format->nb_streams && is_video(format->streams[wanted]);
    if (wanted < 0 || (!there && reader->media)) {
        reader->stream = best_stream(reader);
        return reader->stream ? mr_input_check_codec(reader->stream->codecpar, path) : say_no_video(format, path);
    }
    if (!there)
        return mr_fail(MR_ERROR_DATA, "%s: stream %d is not a video; the file has %u streams", path, wanted,
                       format->nb_streams);
    reader->stream = format->streams[wanted];
    return mr_input_check_codec(reader->stream->codecpar, path);
}

/* Reads packets to find what the header lacks. max_pixels also limits the decoders used for that. */
static int look_into_streams(file_reader *reader) {
    AVFormatContext *format = reader->format;
    unsigned count = format->nb_streams;
    AVDictionary **options = count ? mr_calloc(count, sizeof *options) : NULL;
    for (unsigned i = 0; options && i < count; i++)
        av_dict_set_int(&options[i], "max_pixels", mr_av_max_pixels(reader->params.max_pixels), 0);
    int error = avformat_find_stream_info(format, options);
    for (unsigned i = 0; options && i < count; i++)
        av_dict_free(&options[i]);
    mr_free(options);
    if (reader->index.status)
        return reader->index.status;
    if (error >= 0)
        return MR_OK;
    if (error == AVERROR_EOF) /* A few bytes can look like any format. */
        return mr_fail(MR_ERROR_DATA, "%s is not a video or image, or is cut off before its first picture (tried as "
                                      "%s)", reader->params.uri, format->iformat->name);
    return mr_fail(status_of(reader, error), "%s: %s", reader->params.uri, mr_av_words(error));
}

/* True if the header alone has all that planning needs. */
static bool header_suffices(AVFormatContext *format) {
    for (unsigned i = 0; i < format->nb_streams; i++) {
        const AVCodecParameters *codec = format->streams[i]->codecpar;
        bool rate = av_guess_frame_rate(format, format->streams[i], NULL).num > 0;
        if (codec->codec_type == AVMEDIA_TYPE_VIDEO && codec->codec_id && codec->width > 0 && rate)
            return true;
    }
    return false;
}

static int check_size(const file_reader *reader) {
    const AVCodecParameters *codec = reader->stream->codecpar;
    if ((int64_t)codec->width * codec->height <= reader->params.max_pixels)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%s: pictures of %dx%d are larger than max_pixels (%" PRId64 ") allows",
                   reader->params.uri, codec->width, codec->height, reader->params.max_pixels);
}

/* ---- describing ------------------------------------------------------------------------------------------------ */

/* How long the whole stream lasts; MR_NO_TIME or 0: unknown. */
static int64_t whole_span(const file_reader *reader) {
    if (reader->stream->duration > 0)
        return mr_ticks_ns(reader->stream->duration, 0, reader->stream->time_base);
    return reader->format->duration > 0 ? mr_ticks_ns(reader->format->duration, 0, AV_TIME_BASE_Q) : 0;
}

/* Frames that the container announces, or that duration and rate imply; 0 unknown. */
static int64_t expected_frames(const file_reader *reader, AVRational rate) {
    const mr_reader_params *params = &reader->params;
    const AVStream *stream = reader->stream;
    if (stream->nb_frames > 0 && params->start_ns == 0 && params->end_ns == 0)
        return stream->nb_frames;
    int64_t span = whole_span(reader);
    if (span == MR_NO_TIME)
        return 0;
    if (params->end_ns > 0 && params->end_ns < span)
        span = params->end_ns;
    span -= params->start_ns;
    return span > 0 && rate.num > 0 && rate.den > 0 ? (int64_t)llround((double)span * av_q2d(rate) / 1e9) : 0;
}

static void read_rotation(const AVStream *stream, mr_media *media) {
    size_t bytes = 0;
    const uint8_t *matrix = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &bytes);
    if (matrix && bytes >= 9 * sizeof(int32_t))
        mr_rotation_from_matrix((const int32_t *)(const void *)matrix, &media->rotation, &media->flip);
}

static int describe(file_reader *reader) {
    AVStream *stream = reader->stream;
    mr_media *media = mr_reader_describe(&reader->params, reader->params.uri, stream->codecpar);
    if (!media)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    media->is_file = true;
    AVRational rate = av_guess_frame_rate(reader->format, stream, NULL);
    media->rate_num = rate.num > 0 && rate.den > 0 ? rate.num : 0;
    media->rate_den = media->rate_num ? rate.den : 0;
    const int64_t frames = is_cover(stream) ? 1 : expected_frames(reader, rate);
    if (__builtin_mul_overflow(frames, reader->params.loops, &media->frames))
        media->frames = 0;
    ((AVCodecParameters *)media->codec)->sample_aspect_ratio =
        av_guess_sample_aspect_ratio(reader->format, stream, NULL);
    read_rotation(stream, media);
    reader->media = media;
    return MR_OK;
}

/* ---- the container as a whole ---------------------------------------------------------------------------------- */

static void close_container(file_reader *reader) {
    reader->ahead = false;
    if (reader->next)
        av_packet_unref(reader->next);
    av_bsf_free(&reader->unpack);
    avformat_close_input(&reader->format);
    mr_ts_tap_close(&reader->tap);
    mr_index_bound_close(&reader->index);
    mr_input_close(&reader->input);
    reader->stream = NULL;
}

/* Splits packets with two pictures, which AVI (DivX, Xvid) has because it counts pictures as stored. */
static int prepare_unpacking(file_reader *reader) {
    const bool may_be_packed = strcmp(reader->kind->name, "avi") == 0 &&
                               reader->stream->codecpar->codec_id == AV_CODEC_ID_MPEG4;
    const AVBitStreamFilter *kind = may_be_packed ? av_bsf_get_by_name("mpeg4_unpack_bframes") : NULL;
    if (!kind)
        return MR_OK;
    int error = av_bsf_alloc(kind, &reader->unpack);
    if (error >= 0)
        error = avcodec_parameters_copy(reader->unpack->par_in, reader->stream->codecpar);
    if (error >= 0)
        error = av_bsf_init(reader->unpack);
    if (error >= 0) /* the header says "packed", which no longer holds */
        error = avcodec_parameters_copy(reader->stream->codecpar, reader->unpack->par_out);
    return error >= 0 ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

/* Opens the demuxer and chooses the stream. */
static int open_demuxer(file_reader *reader) {
    int status = open_format(reader);
    if (!status && !(reader->params.probe && header_suffices(reader->format)))
        status = look_into_streams(reader);
    if (!status)
        status = choose_stream(reader);
    if (!status)
        status = check_size(reader);
    if (!status)
        status = prepare_unpacking(reader);
    if (status)
        return status;
    for (unsigned i = 0; i < reader->format->nb_streams; i++)
        if (reader->format->streams[i] != reader->stream)
            reader->format->streams[i]->discard = AVDISCARD_ALL;
    mr_ts_tap_watch(reader->tap, reader->stream->id);
    return MR_OK;
}

static int open_container(file_reader *reader) {
    const mr_reader_params *params = &reader->params;
    int status = mr_input_open(&reader->input, params->uri, params->stage);
    if (status)
        return status;
    mr_input_set_timeout(&reader->input, params->timeout_ns);
    status = mr_input_avio(&reader->input);
    if (!status)
        status = choose_format(reader);
    if (!status)
        status = open_demuxer(reader);
    if (!status && mr_ticks_ns(reader->stream->start_time, 0, reader->stream->time_base) != MR_NO_TIME)
        reader->origin = reader->stream->start_time;
    return status;
}

static void destroy_file(mr_reader *base) {
    file_reader *reader = (file_reader *)base;
    close_container(reader);
    av_packet_free(&reader->packet);
    av_packet_free(&reader->next);
    mr_seams_fini(&reader->seams);
    mr_media_unref(&reader->media);
    mr_picture_times_fini(&reader->times);
    mr_free(reader);
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

static int64_t to_ns(const file_reader *reader, int64_t time) {
    return mr_ticks_ns(time, reader->origin, reader->stream->time_base);
}

static int unpack(file_reader *reader, AVPacket *packet) {
    int error = av_bsf_send_packet(reader->unpack, packet);
    return error < 0 ? error : av_bsf_receive_packet(reader->unpack, packet);
}

/* Reads the chosen stream's next packet. Returns an AVERROR on failure. */
static int read_packet(file_reader *reader, AVPacket *packet) {
    int error;
    do {
        av_packet_unref(packet);
        mr_input_set_timeout(&reader->input, reader->params.timeout_ns);
        error = av_read_frame(reader->format, packet);
        if (error >= 0 && reader->unpack && packet->stream_index == reader->stream->index)
            error = unpack(reader, packet);
    } while (error >= 0 ? packet->stream_index != reader->stream->index
                        : error == AVERROR(EAGAIN) && !mr_input_interrupted(&reader->input));
    if (error == AVERROR_EOF && reader->input.avio->error < 0)
        error = reader->input.avio->error;
    if (error >= 0)
        mr_packet_bound(reader->packet, reader->stream->time_base);
    return error;
}

/* The packet that next_packet will return; NULL: none, or an error. */
static const AVPacket *peek(file_reader *reader) {
    if (!reader->ahead)
        reader->ahead_error = read_packet(reader, reader->next);
    reader->ahead = true;
    return reader->ahead_error >= 0 ? reader->next : NULL;
}

/* Reads the next packet into reader->packet. MR_END: the file has ended, or the video, and another one follows. */
static int next_packet(file_reader *reader) {
    const int error = reader->ahead ? reader->ahead_error : read_packet(reader, reader->packet);
    if (reader->ahead) {
        av_packet_unref(reader->packet);
        av_packet_move_ref(reader->packet, reader->next);
    }
    reader->ahead = false;
    if (error < 0 && reader->index.status)
        return reader->index.status;
    if (error == AVERROR_EOF)
        return MR_END;
    if (error < 0)
        return mr_fail(status_of(reader, error), "%s: an error ended reading before the end of the file: %s",
                       reader->media->path, mr_av_words(error));
    return mr_input_check_packet(reader->packet, reader->media->path);
}

/* A decoder that begins at a later packet must be given the build. */
static void find_build(file_reader *reader) {
    if (reader->params.probe || reader->stream->codecpar->codec_id != AV_CODEC_ID_H264)
        return;
    const AVPacket *first = peek(reader);
    if (first)
        reader->media->x264_build = mr_x264_build(reader->media->codec, first->data, (size_t)first->size);
}

/* Call after reopening the demuxer, which may have found another video. */
static int describe_again(file_reader *reader) {
    if (mr_codecs_are_alike(reader->media->codec, reader->stream->codecpar, false))
        return MR_OK;
    mr_media_unref(&reader->media);
    int status = describe(reader);
    if (!status)
        find_build(reader);
    return status;
}

static int open_again(file_reader *reader) {
    close_container(reader);
    reader->elsewhere = false;
    int status = open_container(reader);
    return status ? status : describe_again(reader);
}

/* If another video replaces this one in a transport stream, a new demuxer must read it. */
static int begin_other_video(file_reader *reader) {
    avformat_close_input(&reader->format);
    int status = mr_ts_tap_go_on(&reader->tap) < 0 ? mr_fail(MR_ERROR_MEMORY, "out of memory") : open_demuxer(reader);
    mr_seams_note_change(&reader->seams);
    reader->elsewhere = true;
    return status ? status : describe_again(reader);
}

static int seek(file_reader *reader, int64_t at) {
    reader->ahead = false;
    av_packet_unref(reader->next);
    if (reader->unpack)
        av_bsf_flush(reader->unpack);
    return avformat_seek_file(reader->format, reader->stream->index, INT64_MIN, at, at, 0);
}

/* The latest time when the next packet is shown; it must be a picture that needs no other. AV_NOPTS_VALUE: it is not,
 * or its time depends on all packets before it. A container can lack presentation times (picture_times.h). */
static int64_t shows_first(file_reader *reader) {
    enum { MOST_REORDERED = 16 };
    const AVPacket *packet = reader->packet;
    const enum AVCodecID codec = reader->stream->codecpar->codec_id;
    const bool key = next_packet(reader) == MR_OK && packet->flags & AV_PKT_FLAG_KEY;
    int64_t time = key ? packet->pts : AV_NOPTS_VALUE;
    if (key && time == AV_NOPTS_VALUE && packet->dts != AV_NOPTS_VALUE && codec != AV_CODEC_ID_H264 &&
        codec != AV_CODEC_ID_HEVC)
        time = packet->dts + MOST_REORDERED * packet->duration;
    av_packet_unref(reader->packet);
    return time;
}

/* The current packet, unchanged. */
static mr_packet see_packet(const file_reader *reader) {
    const AVPacket *packet = reader->packet;
    const bool cover = is_cover(reader->stream);
    return (mr_packet){.media = reader->media, .data = packet->data, .bytes = (size_t)packet->size,
                       .pts_ns = cover ? 0 : to_ns(reader, packet->pts),
                       .dts_ns = cover ? 0 : to_ns(reader, packet->dts),
                       .duration_ns = mr_ticks_ns(packet->duration, 0, reader->stream->time_base),
                       .flags = mr_packet_flags(packet)};
}

/* The MPEG-4 clock starts with the first picture. */
static void set_clock(file_reader *reader) {
    if (!mr_picture_order_is_clocked(reader->stream->codecpar) || seek(reader, reader->origin) < 0 ||
        next_packet(reader))
        return;
    mr_packet first = see_packet(reader);
    mr_picture_times_pass(&reader->times, &first);
    av_packet_unref(reader->packet);
}

/* Whether decoding from `from` gives a right picture that is shown no later than `at`. At a recovery point, pictures
 * are right only once the point is reached. */
static bool recovers_by(file_reader *reader, int64_t from, int64_t at) {
    const enum AVCodecID codec = reader->stream->codecpar->codec_id;
    const AVPacket *packet = reader->packet;
    mr_recovery recovery;
    bool right = false, late = false;
    if (codec != AV_CODEC_ID_H264 && codec != AV_CODEC_ID_HEVC)
        return true;
    mr_recovery_begin(&recovery);
    for (int error = seek(reader, from); error >= 0 && !right && !late && next_packet(reader) == MR_OK;) {
        const mr_packet seen = see_packet(reader);
        late = packet->pts != AV_NOPTS_VALUE && packet->pts > at;
        right = !late && !mr_recovery_pass(&recovery, &seen);
        av_packet_unref(reader->packet);
    }
    return right;
}

/* Formats without an index find a time at any packet, and others seek by decoding time. Seeks further back and decodes
 * everything up to the start. Negative if the format cannot seek. */
static int seek_to_start(file_reader *reader) {
    const AVRational base = reader->stream->time_base;
    const int64_t at = reader->origin + av_rescale_q(reader->params.start_ns, nanoseconds, base);
    int64_t from = at, back_ns = 1000000000;
    set_clock(reader);
    int error = seek(reader, from);
    while (error >= 0) {
        const int64_t first = shows_first(reader);
        if (first != AV_NOPTS_VALUE && first <= at && recovers_by(reader, from, at))
            return seek(reader, from);
        if (from <= reader->origin)
            return open_again(reader);
        from = at - av_rescale_q(back_ns, nanoseconds, base);
        from = from > reader->origin ? from : reader->origin;
        back_ns *= 4;
        error = seek(reader, from);
    }
    /* The time may be in another video in this file. */
    return reader->tap ? open_again(reader) : error;
}

/* A packet decoded at or after the end is followed by nothing wanted. */
static bool is_past_end(const file_reader *reader, const mr_packet *packet) {
    int64_t time = packet->dts_ns;
    if (time == MR_NO_TIME && packet->flags & MR_FRAME_KEY)
        time = packet->pts_ns;
    return reader->params.end_ns > 0 && time != MR_NO_TIME && time >= reader->params.end_ns;
}

/* A truncated file ends like a complete one: only the frame count in the header shows the difference. It is an error if
 * no frame was read. */
static int end_of(const file_reader *reader) {
    const mr_reader_params *params = &reader->params;
    int64_t announced = reader->stream->nb_frames;
    const uint64_t scrambled = mr_ts_tap_scrambled(reader->tap);
    if (scrambled && params->stage) {
        mr_stage_warn(params->stage, "%s: %" PRIu64 " pictures are scrambled and cannot be read: descramble it first",
                      reader->media->path, scrambled);
        mr_stage_miss_frames(params->stage, scrambled);
    }
    if (!params->stage || params->start_ns || params->end_ns || reader->packets >= announced)
        return MR_END;
    if (reader->packets == 0)
        return mr_fail(MR_ERROR_DATA, "%s: has none of the %" PRId64 " frames that its header announces",
                       reader->media->path, announced);
    mr_stage_warn(params->stage, "%s: ended after %" PRId64 " of the %" PRId64 " frames that its header announces",
                  reader->media->path, reader->packets, announced);
    mr_stage_miss_frames(params->stage, (uint64_t)(announced - reader->packets));
    return MR_END;
}

/* The packet after an undated key frame shows whether a seam comes before it. */
static void date_key(file_reader *reader) {
    AVPacket *key = reader->packet;
    const bool may_begin = reader->format->iformat->flags & AVFMT_TS_DISCONT && key->flags & AV_PKT_FLAG_KEY;
    const AVPacket *next = may_begin && key->pts == AV_NOPTS_VALUE ? peek(reader) : NULL;
    if (next)
        mr_seams_date(&reader->seams, reader->stream, key, next);
}

static int read_file(mr_reader *base, mr_packet *packet) {
    file_reader *reader = (file_reader *)base;
    int status = next_packet(reader);
    while (status == MR_END && mr_ts_tap_has_more(reader->tap) && !(status = begin_other_video(reader)))
        status = next_packet(reader);
    if (status)
        return status == MR_END ? end_of(reader) : status;
    date_key(reader);
    reader->packet->pos = mr_ts_tap_place(reader->tap, reader->packet->pos);
    bool seam = mr_seams_pass(&reader->seams, reader->input.fd, reader->format, reader->stream, reader->packet);
    const mr_packet seen = see_packet(reader);
    packet->flags = seen.flags | (seam ? MR_FRAME_SEAM : 0);
    packet->pts_ns = seen.pts_ns;
    packet->dts_ns = seen.dts_ns;
    packet->duration_ns = seen.duration_ns;
    status = mr_packet_take(packet, reader->packet, reader->media);
    if (status)
        return status;
    mr_picture_times_pass(&reader->times, packet);
    if (is_past_end(reader, packet)) {
        mr_packet_drop(packet);
        return MR_END;
    }
    reader->packets++;
    return MR_OK;
}

static int rewind_file(mr_reader *base) {
    file_reader *reader = (file_reader *)base;
    mr_input_set_timeout(&reader->input, reader->params.timeout_ns);
    /* If times restart in mid-stream, seeking by time is unreliable. */
    bool seekable = !reader->elsewhere && (reader->seams.found == 0 || reader->params.start_ns > 0);
    reader->packets = 0;
    mr_seams_begin(&reader->seams);
    mr_picture_times_begin(&reader->times, false);
    if (seekable && seek_to_start(reader) >= 0)
        return MR_OK;
    /* Elementary streams and a few others cannot seek by time and must be reopened. */
    return open_again(reader);
}

/* ---- survey --------------------------------------------------------------------------------------------------- */

/* Gives the stream's first packets to the decoder until the pictures are known; usually one packet suffices. */
static void look_into_packets(file_reader *reader, mr_probe *probe) {
    enum { MOST_PACKETS = 32 };
    bool known = probe->codec->width > 0 && probe->codec->pix_fmt != AV_PIX_FMT_NONE;
    for (int i = 0; i < MOST_PACKETS && !known && next_packet(reader) == MR_OK; i++)
        known = mr_probe_look(probe, reader->packet->data, (size_t)reader->packet->size);
}

/* Without probing, only the first packet's headers have the field order, which decoders do not report. */
static void find_field_order(file_reader *reader, AVCodecContext *codec) {
    AVCodecParserContext *parser = codec->field_order ? NULL : av_parser_init((int)codec->codec_id);
    uint8_t *out;
    int bytes;
    if (!parser)
        return;
    parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
    if (reader->packet->size > 0 || next_packet(reader) == MR_OK)
        av_parser_parse2(parser, codec, &out, &bytes, reader->packet->data, reader->packet->size, AV_NOPTS_VALUE,
                         AV_NOPTS_VALUE, 0);
    codec->field_order = parser->field_order;
    av_parser_close(parser);
}

static int survey_file(mr_reader *base, mr_survey *survey) {
    file_reader *reader = (file_reader *)base;
    const mr_media *media = reader->media;
    const AVCodecParameters *codec = reader->stream->codecpar;
    mr_probe probe;
    survey->set.codec = avcodec_get_name(codec->codec_id);
    if (mr_probe_open(&probe, codec, reader->params.max_pixels)) {
        look_into_packets(reader, &probe);
        find_field_order(reader, probe.codec);
        mr_probe_survey(probe.codec, media, survey);
    }
    mr_probe_close(&probe);
    survey->rate = media->rate_num ? (double)media->rate_num / media->rate_den : 0;
    /* Starting in the middle decodes more than is shown, and how many is unknown. */
    bool counted = reader->stream->nb_frames > 0 && reader->params.start_ns == 0;
    AVRational rate = {media->rate_num, media->rate_den};
    survey->frames = is_cover(reader->stream) ? 1 : counted ? expected_frames(reader, rate) : 0;
    const int64_t span = whole_span(reader);
    survey->span_ns = span == MR_NO_TIME ? 0 : span;
    return MR_OK;
}

static const mr_reader_type file_type = {.survey = survey_file, .read = read_file, .rewind = rewind_file,
                                         .destroy = destroy_file};

int mr_reader_open_file(mr_reader **result, const mr_reader_params *params) {
    file_reader *reader = mr_calloc(1, sizeof *reader);
    if (!reader)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *reader = (file_reader){.base.type = &file_type, .params = *params, .input.fd = -1, .packet = av_packet_alloc(),
                            .next = av_packet_alloc()};
    mr_seams_begin(&reader->seams);
    mr_picture_times_begin(&reader->times, false);
    int status = reader->packet && reader->next ? open_container(reader) : mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!status)
        status = describe(reader);
    if (!status)
        find_build(reader);
    if (!status && params->start_ns > 0 && !params->probe && seek_to_start(reader) < 0)
        status = mr_fail(MR_ERROR_DATA, "%s: cannot be read from the middle: remove start", reader->media->path);
    if (status) {
        destroy_file(&reader->base);
        return status;
    }
    *result = &reader->base;
    return MR_OK;
}
