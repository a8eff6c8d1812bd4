#include "stages/decode/decode_output.h"

#include <libavutil/pixdesc.h>

#include "stages/decode/decode_options.h"
#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"

int mr_decode_output_open(mr_decode_output *output, mr_stage *self) {
    const mr_decode_choices *from = self->options;
    output->self = self;
    mr_decode_report_init(&output->report, self);
    mr_decode_stream_init(&output->stream);
    return mr_decode_target_open(&output->target, self, (mr_hardware)from->hardware, from->damaged != MR_DAMAGED_DROP,
                                 from->skip != MR_SKIP_NONREF);
}

void mr_decode_output_close(mr_decode_output *output) {
    mr_decode_target_close(&output->target);
}

void mr_decode_output_fini(mr_decode_output *output) {
    mr_decode_target_fini(&output->target);
    mr_decode_report_fini(&output->report);
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

static bool is_skipped(const mr_decode_output *output, const mr_frame *packet) {
    const mr_decode_choices *from = output->self->options;
    return (from->skip == MR_SKIP_NONREF && packet->flags & MR_FRAME_DISPOSABLE) ||
           (from->skip == MR_SKIP_NONKEY && !(packet->flags & MR_FRAME_KEY));
}

static bool is_corrupt(const mr_frame *packet) {
    return packet->plane[0].bytes == 0 || packet->plane[0].bytes > INT32_MAX - AV_INPUT_BUFFER_PADDING_SIZE;
}

bool mr_decode_output_is_decodable(const mr_decode_output *output, const mr_frame *packet) {
    return !is_skipped(output, packet) && !is_corrupt(packet);
}

/* Why a packet is dropped whatever it holds; NULL: it is not. */
static const char *reason_to_drop(mr_decode_output *output, const mr_frame *packet) {
    const mr_media *media = packet->media;
    const AVCodecParameters *codec = media ? media->codec : NULL;
    if (!codec || output->refused)
        return codec ? "no decoder" : "no media";
    return mr_decode_report_outsized(&output->report, media, codec->width, codec->height) ? "too large" : NULL;
}

mr_decode_admission mr_decode_output_admit(mr_decode_output *output, const mr_frame *packet) {
    mr_decode_admission found = {.skipped = is_skipped(output, packet), .reason = reason_to_drop(output, packet)};
    if (!found.reason && !is_corrupt(packet))
        return found;
    mr_decode_report_note(&output->report, MR_DECODE_PACKET);
    if (!found.reason && packet->flags & MR_FRAME_CORRUPT)
        found.reason = "corrupt"; /* the source logs why it marked the packet */
    found.unusable = !found.reason;
    return found;
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* If the plan has no room for the picture, it gets a new pool. */
static void note_size(mr_decode_output *output, const AVFrame *picture) {
    const mr_stage *self = output->self;
    const mr_bounds width = self->inputs[0].set.width, height = self->inputs[0].set.height;
    if (output->outgrown || !width.max || (picture->width <= width.max && picture->height <= height.max))
        return;
    output->outgrown = true;
    mr_stage_warn(self, "%s: pictures are %dx%d, larger than the %dx%d that were announced: memory may exceed the plan",
                  self->source_id, picture->width, picture->height, (int)width.max, (int)height.max);
}

/* The layout of any picture's samples, in host or device memory. */
static enum AVPixelFormat layout_of(const AVFrame *picture) {
    if (picture->format != AV_PIX_FMT_CUDA || !picture->hw_frames_ctx)
        return picture->format;
    return ((const AVHWFramesContext *)(const void *)picture->hw_frames_ctx->data)->sw_format;
}

/* Removes columns at the left and rows at the top from a hardware picture: FFmpeg crops only those in host memory. */
static void crop(AVFrame *picture, const AVPixFmtDescriptor *about) {
    size_t left = picture->crop_left, top = picture->crop_top;
    for (int i = 0; i < about->nb_components; i++) {
        const AVComponentDescriptor *part = &about->comp[i];
        size_t x = i ? left >> about->log2_chroma_w : left, y = i ? top >> about->log2_chroma_h : top;
        /* Components that share a property use the first one's value. */
        if (i == 0 || part->plane != about->comp[i - 1].plane)
            picture->data[part->plane] += y * (size_t)picture->linesize[part->plane] + x * (size_t)part->step;
    }
    picture->width -= (int)left;
    picture->height -= (int)top;
    picture->crop_left = picture->crop_top = 0;
}

static int make_frame(mr_decode_output *output, mr_io *io, AVFrame *picture, const AVCodecContext *codec,
                      const mr_frame *packet, const mr_upright *upright, mr_frame **frame) {
    const mr_decode_choices *from = output->self->options;
    const mr_untagged untagged = {(mr_matrix)from->untagged.matrix, (mr_range)from->untagged.range};
    const enum AVPixelFormat layout = layout_of(picture);
    enum AVPixelFormat converted = layout;
    mr_pixel pixel = mr_pixel_from_av(layout);
    if (picture->format == AV_PIX_FMT_CUDA && (picture->crop_left || picture->crop_top))
        crop(picture, av_pix_fmt_desc_get(layout));
    note_size(output, picture);
    if (!pixel || mr_board_is(codec->codec)) /* whose NV12 stands for the stream's I420 */
        pixel = mr_pixel_nearest(layout, &converted);
    if (!pixel)
        return mr_fail(MR_ERROR_DATA, "pictures of pixel format %d cannot be carried", layout);
    mr_format format;
    mr_format_describe(&format, picture, pixel, codec, packet->media, untagged);
    if (upright && (upright->rotation || upright->flip)) {
        format.rotation = upright->rotation;
        format.flip = upright->flip;
    }
    return mr_decode_target_give(&output->target, io, codec, picture, converted, &format, packet, frame);
}

int mr_decode_output_emit(mr_decode_output *output, mr_io *io, AVFrame *picture, const AVCodecContext *codec,
                          const mr_frame *packet, const mr_upright *upright) {
    const bool marks = ((const mr_decode_choices *)output->self->options)->damaged == MR_DAMAGED_MARK;
    mr_frame *frame;
    int status = make_frame(output, io, picture, codec, packet, upright, &frame);
    if (status)
        return status;
    frame->geometry = mr_geometry_of(&frame->format);
    if (packet->geometry.width) /* a picture that this pipeline has encoded */
        frame->geometry = mr_geometry_chain(&frame->geometry, &packet->geometry);
    mr_decode_stream_stamp(&output->stream, frame);
    frame->flags = (picture->key_frame ? MR_FRAME_KEY : 0) | (packet->flags & MR_FRAME_AWAY) |
                   (marks && picture->flags & AV_FRAME_FLAG_CORRUPT ? MR_FRAME_CORRUPT : 0);
    return mr_io_emit(io, 0, frame);
}

/* ---- the device -------------------------------------------------------------------------------------------------- */

void mr_decode_output_check(mr_decode_output *output, mr_io *io) {
    if (output->refused || !mr_decode_device_refused(mr_decode_target_device(&output->target)))
        return;
    output->refused = true;
    mr_io_fail_source(io, mr_io_input(io)->identity.source, MR_ERROR_UNAVAILABLE);
}
