#include "stages/decode/device/target.h"

#include "engine/device/device.h"
#include "stages/media/picture_format.h"

int mr_decode_target_open(mr_decode_target *target, mr_stage *self, mr_hardware hardware, bool patches, bool plain) {
    mr_decode_board_init(&target->board, self, hardware, plain);
    return self->device->type->kind == MR_DEVICE_CPU ? mr_picture_pool_create(&target->pool, self, patches)
                                                     : mr_decode_device_create(&target->device, self, hardware);
}

void mr_decode_target_close(mr_decode_target *target) {
    mr_picture_pool_destroy(&target->pool);
}

void mr_decode_target_fini(mr_decode_target *target) {
    mr_decode_target_close(target);
    mr_decode_device_destroy(&target->device);
    sws_freeContext(target->scaler);
    target->scaler = NULL;
}

mr_decode_device *mr_decode_target_device(const mr_decode_target *target) {
    return target->device;
}

int mr_decode_target_choose(mr_decode_target *target, mr_stream *stream, const mr_media *media, bool hurried,
                            const AVCodec **decoder) {
    *decoder = NULL;
    const int status = target->device ? MR_OK : mr_decode_board_choose(&target->board, media, hurried, decoder);
    if (status || *decoder)
        return status;
    const AVCodecParameters *coded = media->codec;
    return mr_decode_device_choose(target->device, coded->codec_id, stream, decoder);
}

void mr_decode_target_attach(mr_decode_target *target, AVCodecContext *codec) {
    if (target->device)
        mr_decode_device_attach(target->device, codec);
    else
        mr_picture_pool_attach(target->pool, codec);
    if (mr_board_is(codec->codec))
        mr_decode_board_attach(&target->board, codec);
}

mr_decode_log *mr_decode_target_log(const mr_decode_target *target) {
    return target->pool ? mr_picture_pool_log(target->pool) : mr_decode_device_log(target->device);
}

mr_decode_log *mr_decode_target_log_of(const AVCodecContext *codec) {
    mr_decode_log *log = mr_picture_pool_log_of(codec);
    return log ? log : mr_decode_device_log_of(codec);
}

mr_pool *mr_decode_target_full(const mr_decode_target *target) {
    return target->pool ? mr_picture_pool_full(target->pool) : NULL;
}

static bool is_upside_down(const AVFrame *picture) {
    return picture->linesize[0] < 0 || picture->linesize[1] < 0 || picture->linesize[2] < 0;
}

int mr_decode_target_give(mr_decode_target *target, mr_io *io, const AVCodecContext *codec, const AVFrame *picture,
                          enum AVPixelFormat converted, const mr_format *format, const mr_frame *packet,
                          mr_frame **frame) {
    if (target->device)
        return mr_decode_device_give(target->device, io, picture, converted, format, packet, frame);
    const bool convert = (int)converted != picture->format || is_upside_down(picture) || mr_board_is(codec->codec);
    int status = convert ? mr_io_acquire(io, 0, format, packet, frame) : mr_io_derive(io, packet, frame);
    if (status)
        return status;
    (*frame)->format = *format;
    status = convert ? mr_picture_convert(&target->scaler, picture, converted, *frame)
                     : mr_picture_pool_give(target->pool, picture, *frame);
    if (status)
        mr_frame_unref(frame);
    return status;
}
