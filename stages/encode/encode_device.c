#include "stages/encode/encode_device.h"

#include <libavutil/hwcontext.h>
#include <stdio.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "stages/encode/encode_nvenc.h"
#include "stages/media/media_cuda.h"
#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"

struct mr_encode_device {
    mr_stage *self;
    bool reported;       /* why it encodes by software */
    mr_format to;        /* the encoder's surface format */
    AVBufferRef *frames; /* the surfaces; NULL: software encodes */
    AVFrame *brought;    /* a surface, or a picture in host memory */
    mr_event *event;     /* set when the copy is done; NULL: no copy has begun */
};

int mr_encode_device_check_input(const mr_encode_params *params, const mr_format_set *pictures, const char *device,
                                 bool *otherwise) {
    if (params->hardware == MR_HARDWARE_OFF || !mr_hardware_is_on(device))
        return MR_OK;
    bool required = params->hardware == MR_HARDWARE_REQUIRE;
    int status = mr_nvenc_suits(params, pictures->pixels);
    if (!status && !required)
        status = mr_nvenc_check();
    *otherwise = !required;
    if (!status)
        return MR_OK;
    return required ? mr_fail(status, "hardware: require is not possible: %s; write hardware: auto", mr_message())
                    : mr_fail(status, "encoded by software (%s): %s", mr_encoder_facts_of(params->codec).encoder,
                              mr_message());
}

int mr_encode_device_create(mr_encode_device **device, mr_stage *self) {
    mr_encode_device *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *made = (mr_encode_device){.self = self, .brought = av_frame_alloc()};
    *device = made;
    return made->brought ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
}

void mr_encode_device_close(mr_encode_device *device) {
    mr_event_unref(&device->event);
    av_frame_unref(device->brought);
    av_buffer_unref(&device->frames);
}

void mr_encode_device_destroy(mr_encode_device **device) {
    mr_encode_device *gone = *device;
    *device = NULL;
    if (!gone)
        return;
    if (gone->brought)
        mr_encode_device_close(gone);
    av_frame_free(&gone->brought);
    mr_free(gone);
}

/* ---- the encoder ------------------------------------------------------------------------------------------------- */

static int make_surfaces(mr_encode_device *device, mr_io *io) {
    AVBufferRef *cuda = NULL;
    int status = mr_av_cuda_device(&cuda, mr_io_stream(io));
    if (status)
        return status;
    device->frames = av_hwframe_ctx_alloc(cuda);
    av_buffer_unref(&cuda);
    if (!device->frames)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    AVHWFramesContext *about = (AVHWFramesContext *)(void *)device->frames->data;
    about->format = AV_PIX_FMT_CUDA;
    about->sw_format = mr_pixel_to_av(device->to.pixel);
    about->width = device->to.width;
    about->height = device->to.height;
    int error = av_hwframe_ctx_init(device->frames);
    return error < 0 ? mr_fail(MR_ERROR_UNAVAILABLE, "libavutil makes no pictures of %s on %s: %s",
                               mr_pixel_describe(device->to.pixel)->name, device->self->device->name,
                               mr_av_words(error))
                     : MR_OK;
}

static int start(mr_encode_device *device, mr_io *io, const mr_encode_params *params, const mr_format *format,
                 AVRational rate, AVCodecContext **codec) {
    if (!mr_hardware_is_on(device->self->device->name))
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s has no encoder", device->self->device->name);
    int status = mr_nvenc_suits(params, MR_IN_SET(format->pixel));
    if (!status)
        status = mr_nvenc_check();
    if (status)
        return status;
    device->to = mr_nvenc_format(params->codec, format);
    status = make_surfaces(device, io);
    return status ? status : mr_nvenc_open(codec, params, &device->to, rate, device->frames);
}

static void say_why(mr_encode_device *device, const mr_encode_params *params) {
    /* Simulated devices never encode themselves: not worth a warning. */
    void (*say)(const mr_stage *, const char *, ...) =
        mr_hardware_is_on(device->self->device->name) ? mr_stage_warn : mr_stage_info;
    if (!device->reported)
        say(device->self, "%s is encoded by software (%s): %s", device->self->source_id,
            mr_encoder_facts_of(params->codec).encoder, mr_message());
    device->reported = true;
}

int mr_encode_device_open(mr_encode_device *device, mr_io *io, const mr_encode_params *params, const mr_format *format,
                          AVRational rate, AVCodecContext **codec) {
    mr_encode_device_close(device);
    if (params->hardware == MR_HARDWARE_OFF)
        return MR_OK;
    int status = start(device, io, params, format, rate, codec);
    if (!status) {
        mr_stage_info(device->self, "%s is encoded by NVENC of %s, with libavcodec's %s", device->self->source_id,
                      device->self->device->name, mr_nvenc_name(params->codec));
        return MR_OK;
    }
    av_buffer_unref(&device->frames);
    if (params->hardware == MR_HARDWARE_REQUIRE) {
        char why[256];
        snprintf(why, sizeof why, "%s", mr_message());
        return mr_fail(MR_ERROR_UNAVAILABLE, "NVENC of %s cannot be had: %s", device->self->device->name, why);
    }
    say_why(device, params);
    return MR_OK;
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* Copies one plane and repeats the last column and row to fill the surface. */
static int copy_plane(mr_stream *stream, const mr_frame *frame, const mr_row *row, const mr_format *to, AVFrame *into) {
    const mr_plane *plane = &frame->plane[row->plane];
    size_t bytes = row->bytes, wide = mr_plane_row_bytes(to->pixel, row->plane, to->width);
    int rows = row->rows, tall = mr_plane_rows(to->pixel, row->plane, to->height);
    ptrdiff_t stride = into->linesize[row->plane];
    uint8_t *data = into->data[row->plane];
    int status = mr_stream_copy_rows(stream, data, stride, plane->data, plane->stride, bytes, (size_t)rows);
    if (!status && wide > bytes)
        status = mr_stream_copy_rows(stream, data + bytes, stride, data + bytes - (wide - bytes), stride, wide - bytes,
                                     (size_t)rows);
    if (!status && tall > rows)
        status = mr_stream_copy(stream, data + rows * stride, data + (rows - 1) * stride, wide);
    return status;
}

/* Finds a surface, or host memory as large as the picture. */
static int find_room(mr_encode_device *device, const mr_format *format) {
    AVFrame *brought = device->brought;
    if (device->frames || !brought->buf[0] || !av_frame_is_writable(brought)) {
        av_frame_unref(brought);
        brought->format = mr_pixel_to_av(format->pixel);
        brought->width = format->width;
        brought->height = format->height;
    }
    int error = device->frames ? av_hwframe_get_buffer(device->frames, brought, 0)
                : brought->buf[0] ? 0 : av_frame_get_buffer(brought, 0);
    return error < 0 ? mr_fail(MR_ERROR_MEMORY, "no memory for a picture to encode: %s", mr_av_words(error)) : MR_OK;
}

static int begin(mr_encode_device *device, mr_stream *stream, const mr_frame *frame) {
    const mr_format *to = device->frames ? &device->to : &frame->format;
    int status = find_room(device, &frame->format);
    if (!status)
        status = mr_event_create(&device->event, stream->device, device->self);
    for (mr_row row = {0}; !status && mr_next_plane(&frame->format, &row);)
        status = copy_plane(stream, frame, &row, to, device->brought);
    if (!status)
        status = mr_stream_record(stream, device->event);
    if (status)
        mr_event_unref(&device->event);
    return status;
}

int mr_encode_device_bring(mr_encode_device *device, mr_io *io, const mr_frame *frame) {
    int status = device->event ? MR_OK : begin(device, mr_io_stream(io), frame);
    if (status)
        return status;
    if (!mr_event_done(device->event))
        return MR_ERROR_AGAIN;
    status = mr_event_status(device->event);
    mr_event_unref(&device->event);
    return status ? mr_fail(status, "%s: a picture could not be copied", device->self->device->name) : MR_OK;
}

int mr_encode_device_lend(mr_encode_device *device, mr_encode_picture *picture, AVFrame *wrapped) {
    if (!device->frames)
        return mr_encode_picture_lend_av(picture, device->brought, wrapped);
    av_frame_move_ref(wrapped, device->brought);
    return MR_OK;
}
