#include "stages/video/video_muxer.h"

#include <libavcodec/avcodec.h>
#include <libavcodec/bsf.h>
#include <libavutil/avstring.h>
#include <libavutil/display.h>
#include <libavutil/opt.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/video/video_sets.h"

enum { TICKS = 90000, AVIO_BYTES = 1 << 16, MOST_GATHERED = 8 << 20 };

static const AVRational nanoseconds = {1, 1000000000};

/* ---- containers -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name, *format;
    const char *codecs[10]; /* none: whatever libavformat knows */
} containers[] = {
    [MR_CONTAINER_MP4] = {"mp4", "mp4", {"h264", "hevc", "vp9", "av1", "mjpeg", "mpeg4", "mpeg2video", NULL}},
    [MR_CONTAINER_MKV] = {"Matroska", "matroska", {NULL}},
    [MR_CONTAINER_TS] = {"MPEG-TS", "mpegts", {"h264", "hevc", "mpeg4", "mpeg2video", NULL}},
    [MR_CONTAINER_FLV] = {"RTMP", "flv", {"h264", NULL}},
    [MR_CONTAINER_RTP] = {"RTSP", "rtsp", {"h264", "hevc", "vp9", "mjpeg", "mpeg4", "mpeg2video", NULL}},
};

const char *mr_container_name(mr_container container) {
    return containers[container].name;
}

const char *mr_container_format(mr_container container) {
    return containers[container].format;
}

static bool holds(mr_container container, const char *codec) {
    const char *const *known = containers[container].codecs;
    for (const char *const *one = known; *one; one++)
        if (strcmp(*one, codec) == 0)
            return true;
    const AVOutputFormat *format = av_guess_format(containers[container].format, NULL, NULL);
    const AVCodecDescriptor *about = avcodec_descriptor_get_by_name(codec);
    if (about && about->id == AV_CODEC_ID_RAWVIDEO) /* some pixel layouts cannot be carried, which planning cannot
                                                       know */
        return false;
    return !*known && format && about && avformat_query_codec(format, about->id, FF_COMPLIANCE_NORMAL) == 1;
}

int mr_container_check(mr_container container, const char *codec) {
    char list[128] = "";
    if (holds(container, codec))
        return MR_OK;
    for (const char *const *one = containers[container].codecs; *one; one++)
        av_strlcatf(list, sizeof list, "%s%s", *list ? ", " : "", *one);
    return mr_fail(MR_ERROR_CONFIG, "%s does not hold packets of %s%s%s: decode and encode them before",
                   containers[container].name, codec, *list ? ", only of " : "", list);
}

/* ---- the stream -------------------------------------------------------------------------------------------------- */

/* Takes headers from the first packet, for a stream that announced none. */
static int find_headers(AVCodecParameters *codec, const mr_frame *key) {
    AVBSFContext *filter = NULL;
    AVPacket *packet = av_packet_alloc();
    size_t bytes = 0;
    int error = packet ? av_bsf_alloc(av_bsf_get_by_name("extract_extradata"), &filter) : AVERROR(ENOMEM);
    if (error >= 0)
        error = avcodec_parameters_copy(filter->par_in, codec);
    if (error >= 0)
        error = av_bsf_init(filter);
    if (error >= 0)
        error = mr_packet_lend(packet, key);
    if (error >= 0)
        error = av_bsf_send_packet(filter, packet);
    if (error >= 0)
        error = av_bsf_receive_packet(filter, packet);
    const uint8_t *found = error >= 0 ? av_packet_get_side_data(packet, AV_PKT_DATA_NEW_EXTRADATA, &bytes) : NULL;
    if (found && (codec->extradata = av_mallocz(bytes + AV_INPUT_BUFFER_PADDING_SIZE))) {
        memcpy(codec->extradata, found, bytes);
        codec->extradata_size = (int)bytes;
    }
    av_packet_free(&packet);
    av_bsf_free(&filter);
    return codec->extradata_size ? MR_OK : mr_fail(MR_ERROR_DATA, "the stream's first key frame has no headers");
}

static void turn(AVStream *stream, const mr_media *media) {
    if (!media->rotation && !media->flip)
        return;
    void *data = av_stream_new_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, 9 * sizeof(int32_t));
    int32_t *matrix = data;
    if (!matrix)
        return;
    av_display_rotation_set(matrix, media->rotation);
    if (media->flip)
        av_display_matrix_flip(matrix, 1, 0);
}

int mr_muxer_add_stream(AVFormatContext *format, const mr_media *media, const mr_frame *key) {
    AVStream *stream = avformat_new_stream(format, NULL);
    if (!stream || avcodec_parameters_copy(stream->codecpar, media->codec) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    enum AVCodecID id = stream->codecpar->codec_id;
    stream->codecpar->codec_tag = 0;
    stream->time_base = (AVRational){1, TICKS};
    stream->sample_aspect_ratio = stream->codecpar->sample_aspect_ratio;
    if (media->rate_num > 0 && media->rate_den > 0)
        stream->avg_frame_rate = (AVRational){media->rate_num, media->rate_den};
    turn(stream, media);
    bool needs = id == AV_CODEC_ID_H264 || id == AV_CODEC_ID_HEVC || id == AV_CODEC_ID_AV1;
    if (needs && !stream->codecpar->extradata_size)
        return find_headers(stream->codecpar, key);
    return MR_OK;
}

/* ---- times ------------------------------------------------------------------------------------------------------- */

static int64_t ticks(int64_t time_ns) {
    return av_rescale_q(time_ns, nanoseconds, (AVRational){1, TICKS});
}

/* Decoding times must rise, and no picture may be shown before it is decoded. The source ensures that
 * (picture_times.h), except for packets without times and across epochs. A presentation time stays unchanged if it can
 * be decoded before. */
static void repair(AVPacket *packet, mr_muxer_times *times) {
    int64_t pts = packet->pts == AV_NOPTS_VALUE ? packet->dts : packet->pts;
    if (!times->begun)
        times->base_ns = pts == AV_NOPTS_VALUE ? 0 : pts;
    pts = pts == AV_NOPTS_VALUE ? times->last_end : ticks(pts - times->base_ns);
    int64_t dts = packet->dts == AV_NOPTS_VALUE ? pts : ticks(packet->dts - times->base_ns);
    dts = dts < pts ? dts : pts;
    if (times->begun && dts <= times->last_dts)
        dts = times->last_dts + 1;
    packet->dts = dts;
    packet->pts = pts < dts ? dts : pts;
    packet->duration = packet->duration > 0 ? ticks(packet->duration) : 0;
    times->last_dts = dts;
    if (!times->begun || packet->pts + packet->duration > times->last_end)
        times->last_end = packet->pts + (packet->duration ? packet->duration : 1);
    times->begun = true;
}

void mr_muxer_times_go_on(mr_muxer_times *times, const mr_frame *frame) {
    int64_t time_ns = frame->pts_ns != MR_NO_TIME ? frame->pts_ns : frame->dts_ns;
    if (times->begun && time_ns != MR_NO_TIME)
        times->base_ns = time_ns - av_rescale_q(times->last_end, (AVRational){1, TICKS}, nanoseconds);
}

int mr_muxer_fill(AVPacket *packet, mr_container container, const mr_frame *frame, mr_muxer_times *times,
                  AVRational time_base) {
    if (mr_packet_lend(packet, frame) < 0)
        return mr_fail(MR_ERROR_DATA, "side data of a packet is malformed");
    if (container == MR_CONTAINER_TS && mr_video_sets_add(packet, frame->media->codec))
        return MR_ERROR_MEMORY;
    repair(packet, times);
    av_packet_rescale_ts(packet, (AVRational){1, TICKS}, time_base);
    packet->stream_index = 0;
    packet->pos = -1;
    return MR_OK;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

struct mr_muxer {
    mr_container container;
    AVFormatContext *format;
    AVPacket *packet;
    AVPacket *waiting;  /* mp4: waits for the next packet's decoding time; the data is NULL if none waits */
    mr_muxer_times times;
    int64_t cut_dts;    /* last packet's time before the last cut, in 1/90000 s */
    uint8_t *bytes;
    size_t count, room;
    int64_t begin, at;  /* file positions: first byte in `bytes`, and next byte to come */
    mr_muxer_patch *patches; /* Matroska: changes to earlier bytes */
    size_t patch_count;
    size_t gathered; /* packet bytes since the last cut */
    bool cut_once, headed;
};

static int append(mr_muxer *muxer, const uint8_t *data, size_t bytes) {
    const size_t from = (size_t)(muxer->at - muxer->begin), needed = from + bytes;
    if (!mr_grow_bytes((void **)&muxer->bytes, &muxer->room, needed))
        return AVERROR(ENOMEM);
    memcpy(muxer->bytes + from, data, bytes);
    muxer->count = needed > muxer->count ? needed : muxer->count;
    muxer->at += (int64_t)bytes;
    return 0;
}

/* Takes changes to bytes that were taken before. */
static int patch(mr_muxer *muxer, const uint8_t *data, size_t bytes) {
    mr_muxer_patch *wider = mr_realloc(muxer->patches, (muxer->patch_count + 1) * sizeof *wider);
    if (!wider)
        return AVERROR(ENOMEM);
    muxer->patches = wider;
    uint8_t *copy = mr_alloc(bytes);
    if (!copy)
        return AVERROR(ENOMEM);
    memcpy(copy, data, bytes);
    wider[muxer->patch_count++] = (mr_muxer_patch){.at = muxer->at, .bytes = bytes, .data = copy};
    muxer->at += (int64_t)bytes;
    return 0;
}

static int take_bytes(void *opaque, uint8_t *data, int bytes) {
    mr_muxer *muxer = opaque;
    const int64_t before = muxer->begin - muxer->at;
    const size_t early = before <= 0 ? 0 : before < bytes ? (size_t)before : (size_t)bytes;
    int error = early ? patch(muxer, data, early) : 0;
    if (error >= 0 && early < (size_t)bytes)
        error = append(muxer, data + early, (size_t)bytes - early);
    return error < 0 ? error : bytes;
}

/* AVIOContext's seek. */
static int64_t seek(void *opaque, int64_t offset, int whence) {
    mr_muxer *muxer = opaque;
    const int64_t end = muxer->begin + (int64_t)muxer->count;
    if (whence & AVSEEK_SIZE)
        return end;
    const int64_t at = offset + (whence == SEEK_CUR ? muxer->at : whence == SEEK_END ? end : 0);
    if (at < 0 || at > end)
        return AVERROR(EINVAL);
    return muxer->at = at;
}

static int fail(const mr_muxer *muxer, int error) {
    return mr_fail(error == AVERROR(ENOMEM) ? MR_ERROR_MEMORY : MR_ERROR_DATA, "%s cannot be written: %s",
                   mr_container_name(muxer->container), mr_av_words(error));
}

static int begin(mr_muxer *muxer, const mr_frame *key) {
    uint8_t *buffer = av_malloc(AVIO_BYTES);
    int error = avformat_alloc_output_context2(&muxer->format, NULL, containers[muxer->container].format, NULL);
    muxer->packet = av_packet_alloc();
    muxer->waiting = av_packet_alloc();
    /* Matroska writes duration and index at the end. */
    const bool seeks = muxer->container == MR_CONTAINER_MKV;
    AVIOContext *avio =
        buffer ? avio_alloc_context(buffer, AVIO_BYTES, 1, muxer, NULL, take_bytes, seeks ? seek : NULL) : NULL;
    if (error < 0 || !avio || !muxer->packet || !muxer->waiting) {
        if (avio)
            av_freep(&avio->buffer);
        else
            av_free(buffer);
        avio_context_free(&avio);
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    muxer->format->pb = avio;
    int status = mr_muxer_add_stream(muxer->format, key->media, key);
    if (status)
        return status;
    AVDictionary *options = NULL;
    if (muxer->container == MR_CONTAINER_MP4)
        av_dict_set(&options, "movflags", "empty_moov+delay_moov+default_base_moof+frag_custom", 0);
    muxer->format->flags |= AVFMT_FLAG_FLUSH_PACKETS | AVFMT_FLAG_BITEXACT;
    error = avformat_write_header(muxer->format, &options);
    av_dict_free(&options);
    muxer->headed = error >= 0;
    return error < 0 ? fail(muxer, error) : MR_OK;
}

int mr_muxer_open(mr_muxer **muxer, mr_container container, const mr_frame *key) {
    mr_muxer *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    made->container = container;
    int status = begin(made, key);
    if (status)
        mr_muxer_close(&made);
    *muxer = made;
    return status;
}

/* The packet is empty then. */
static int put(mr_muxer *muxer, AVPacket *packet) {
    const size_t bytes = (size_t)packet->size;
    int error = av_write_frame(muxer->format, packet);
    av_packet_unref(packet);
    if (error < 0)
        return fail(muxer, error);
    muxer->gathered += bytes;
    return muxer->gathered > MOST_GATHERED ? mr_muxer_cut(muxer) : MR_OK;
}

/* `next_dts`, in the stream's time base; AV_NOPTS_VALUE: no packet follows. */
static int put_waiting(mr_muxer *muxer, int64_t next_dts) {
    AVPacket *waiting = muxer->waiting;
    if (!waiting->data)
        return MR_OK;
    if (next_dts != AV_NOPTS_VALUE)
        waiting->duration = next_dts - waiting->dts;
    return put(muxer, waiting);
}

int mr_muxer_write(mr_muxer *muxer, const mr_frame *frame) {
    AVPacket *packet = muxer->packet;
    const bool first = !muxer->times.begun;
    int status =
        mr_muxer_fill(packet, muxer->container, frame, &muxer->times, muxer->format->streams[0]->time_base);
    if (first)
        muxer->cut_dts = muxer->times.last_dts;
    if (!status && muxer->container == MR_CONTAINER_MP4) {
        status = put_waiting(muxer, packet->dts);
        if (!status && av_packet_make_refcounted(packet) < 0)
            status = mr_fail(MR_ERROR_MEMORY, "out of memory");
        if (!status)
            av_packet_move_ref(muxer->waiting, packet);
    } else if (!status) {
        status = put(muxer, packet);
    }
    av_packet_unref(packet);
    return status;
}

int mr_muxer_expect(mr_muxer *muxer, const mr_frame *frame) {
    mr_muxer_times times = muxer->times;
    AVPacket *packet = muxer->packet;
    int status = mr_muxer_fill(packet, muxer->container, frame, &times, muxer->format->streams[0]->time_base);
    const int64_t next_dts = packet->dts;
    av_packet_unref(packet);
    return status ? status : put_waiting(muxer, next_dts);
}

bool mr_muxer_is_due(const mr_muxer *muxer) {
    return muxer->times.last_dts - muxer->cut_dts >= TICKS;
}

int mr_muxer_cut(mr_muxer *muxer) {
    /* The first flush makes mp4 write only the header. */
    int error = av_write_frame(muxer->format, NULL);
    if (error >= 0 && muxer->container == MR_CONTAINER_MP4 && !muxer->cut_once)
        error = av_write_frame(muxer->format, NULL);
    avio_flush(muxer->format->pb);
    muxer->cut_once = true;
    muxer->cut_dts = muxer->times.last_dts;
    muxer->gathered = 0;
    return error < 0 ? fail(muxer, error) : MR_OK;
}

void mr_muxer_repeat_headers(mr_muxer *muxer) {
    av_opt_set(muxer->format->priv_data, "mpegts_flags", "+resend_headers", 0);
}

int mr_muxer_end(mr_muxer *muxer) {
    int status = muxer->headed ? put_waiting(muxer, AV_NOPTS_VALUE) : MR_OK;
    if (!status && muxer->headed)
        status = mr_muxer_cut(muxer);
    int error = muxer->headed ? av_write_trailer(muxer->format) : 0;
    muxer->headed = false;
    avio_flush(muxer->format->pb);
    return status ? status : error < 0 ? fail(muxer, error) : MR_OK;
}

const uint8_t *mr_muxer_bytes(const mr_muxer *muxer, size_t *bytes) {
    *bytes = muxer->count;
    return muxer->bytes;
}

const mr_muxer_patch *mr_muxer_patches(const mr_muxer *muxer, size_t *count) {
    *count = muxer->patch_count;
    return muxer->patches;
}

static void forget_patches(mr_muxer *muxer) {
    for (size_t i = 0; i < muxer->patch_count; i++)
        mr_free(muxer->patches[i].data);
    muxer->patch_count = 0;
}

void mr_muxer_forget(mr_muxer *muxer) {
    muxer->begin += (int64_t)muxer->count;
    muxer->count = 0;
    forget_patches(muxer);
}

void mr_muxer_close(mr_muxer **muxer) {
    mr_muxer *gone = *muxer;
    *muxer = NULL;
    if (!gone)
        return;
    if (gone->format && gone->headed)
        av_write_trailer(gone->format); /* frees the muxer's own memory */
    if (gone->format && gone->format->pb) {
        av_freep(&gone->format->pb->buffer);
        avio_context_free(&gone->format->pb);
    }
    avformat_free_context(gone->format);
    av_packet_free(&gone->packet);
    av_packet_free(&gone->waiting);
    forget_patches(gone);
    mr_free(gone->patches);
    mr_free(gone->bytes);
    mr_free(gone);
}
