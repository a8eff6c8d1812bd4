#include "stages/decode/device/decode_board.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* libavcodec's name for the wrappers. Sizes are padded up to a multiple of 64. */
static const char wrapper[] = "v4l2m2m";
enum { PADDING = 64, NS_PER_US = 1000 };

/* ---- this board -------------------------------------------------------------------------------------------------- */

static mr_board here;

static void probe(void) {
    mr_board_probe(&here);
}

const mr_board *mr_board_here(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, probe);
    return &here;
}

static int fail_without(const char *codec) {
    const mr_board *board = mr_board_here();
    if (board->closed[0])
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s cannot be opened; users of it are often in the group `video`",
                       board->closed);
    return mr_fail(MR_ERROR_UNAVAILABLE, "no /dev/video* of this machine is a V4L2 decoder%s%s", codec ? " of " : "",
                   codec ? codec : "");
}

int mr_board_check(void) {
    return mr_board_here()->count > 0 ? MR_OK : fail_without(NULL);
}

bool mr_board_is(const AVCodec *decoder) {
    return decoder->wrapper_name && strcmp(decoder->wrapper_name, wrapper) == 0;
}

static const AVCodec *wrapper_of(enum AVCodecID id) {
    const AVCodec *decoder;
    void *next = NULL;
    while ((decoder = av_codec_iterate(&next)))
        if (decoder->id == id && av_codec_is_decoder(decoder) && mr_board_is(decoder))
            break;
    return decoder;
}

static bool is_larger(const mr_format_set *packets, const mr_board_decoder *decoder) {
    return decoder->max_width > 0 && (packets->width.max > decoder->max_width ||
                                      packets->height.max > decoder->max_height);
}

int mr_board_suits(const mr_format_set *packets, const mr_board_decoder **decoder) {
    const AVCodecDescriptor *about = packets->codec ? avcodec_descriptor_get_by_name(packets->codec) : NULL;
    const mr_board_decoder *found = about ? mr_board_decoder_for(mr_board_here(), packets->codec) : NULL;
    if (!found)
        return fail_without(packets->codec);
    if (!wrapper_of(about->id))
        return mr_fail(MR_ERROR_UNAVAILABLE, "this libavcodec has no V4L2 decoder of %s", packets->codec);
    if (packets->pixels && packets->pixels != MR_IN_SET(MR_PIXEL_I420))
        return mr_fail(MR_ERROR_UNAVAILABLE, "V4L2 decodes only 4:2:0 of 8 bits here");
    if (is_larger(packets, found))
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s (%s) takes %s of at most %ux%u, and it is %dx%d", found->node,
                       found->card, found->codec, found->max_width, found->max_height, (int)packets->width.max,
                       (int)packets->height.max);
    *decoder = found;
    return MR_OK;
}

/* ---- one source -------------------------------------------------------------------------------------------------- */

void mr_decode_board_init(mr_decode_board *board, const mr_stage *self, mr_hardware hardware, bool able) {
    *board = (mr_decode_board){.self = self, .hardware = hardware, .able = able};
}

/* Whether V4L2 decodes the stream as software does: 8 bits 4:2:0, not interlaced. */
static int check_stream(const AVCodecParameters *stream, const mr_board_decoder **decoder) {
    const bool plain = stream->format == AV_PIX_FMT_YUV420P || stream->format == AV_PIX_FMT_YUVJ420P;
    const mr_format_set packets = {.payload = MR_PAYLOAD_PACKET, .codec = avcodec_get_name(stream->codec_id),
                                   .pixels = plain ? MR_IN_SET(MR_PIXEL_I420) : MR_IN_SET(MR_PIXEL_ANY),
                                   .width = {stream->width, stream->width},
                                   .height = {stream->height, stream->height}};
    const int status = mr_board_suits(&packets, decoder);
    if (!status && stream->field_order != AV_FIELD_UNKNOWN && stream->field_order != AV_FIELD_PROGRESSIVE)
        return mr_fail(MR_ERROR_UNAVAILABLE, "V4L2 does not say which pictures are interlaced, and these can be");
    return status;
}

int mr_decode_board_choose(mr_decode_board *board, const mr_media *media, bool hurried, const AVCodec **decoder) {
    const AVCodecParameters *stream = media->codec;
    const mr_board_decoder *found;
    const bool required = board->hardware == MR_HARDWARE_REQUIRE;
    *decoder = NULL;
    if (media->still || board->hardware == MR_HARDWARE_OFF)
        return MR_OK;
    if (board->failed)
        return required ? mr_fail(MR_ERROR_UNAVAILABLE, "%s", board->why) : MR_OK;
    /* It gives a picture some packets later. */
    if (!required && (!board->able || hurried))
        return MR_OK;
    const int status = check_stream(stream, &found);
    if (status)
        return required ? status : MR_OK;
    *decoder = wrapper_of(stream->codec_id);
    board->width = stream->width;
    board->height = stream->height;
    return MR_OK;
}

void mr_decode_board_attach(mr_decode_board *board, AVCodecContext *codec) {
    codec->thread_count = 1;
    mr_stage_info(board->self, "%s is decoded by V4L2, with libavcodec's %s", board->self->source_id,
                  codec->codec->name);
}

void mr_decode_board_fail(mr_decode_board *board, const char *why) {
    if (board->failed)
        return;
    board->failed = true;
    snprintf(board->why, sizeof board->why, "%s", why);
    if (board->hardware != MR_HARDWARE_REQUIRE)
        mr_stage_warn(board->self, "%s is decoded by software from here on: %s", board->self->source_id, why);
}

/* ---- packets and pictures ---------------------------------------------------------------------------------------- */

void mr_decode_board_number(AVPacket *packet, int64_t number) {
    packet->pts = packet->dts = number * NS_PER_US;
}

/* Drivers that do not crop give whole blocks. */
static int unpadded(int given, int announced) {
    return announced > 0 && given > announced && given < announced + PADDING ? announced : given;
}

void mr_decode_board_describe(const mr_decode_board *board, const AVCodecContext *codec, AVFrame *picture) {
    picture->reordered_opaque = picture->pts / NS_PER_US;
    picture->width = unpadded(picture->width, board->width);
    picture->height = unpadded(picture->height, board->height);
    picture->color_range = codec->color_range;
    picture->colorspace = codec->colorspace;
    picture->color_primaries = codec->color_primaries;
    picture->color_trc = codec->color_trc;
    picture->chroma_location = codec->chroma_sample_location;
    picture->sample_aspect_ratio = codec->sample_aspect_ratio;
}
