#include "stages/decode_device.h"

#include <libavutil/hwcontext.h>
#include <libavutil/pixdesc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "stages/decode_format.h"
#include "stages/decode_nvdec.h"

/* Surfaces that are held while they are copied, beside those that the stream needs: NVDEC has 32 in all. */
enum { MOST_SURFACES = 8, POLL_NS = 50000 };

/* A picture that is being copied. */
typedef struct held {
    AVFrame *picture;
    mr_event *event; /* of the copy */
} held;

struct mr_decode_device {
    mr_stage *self;
    mr_hardware hardware;
    bool told;    /* why it decodes by software */
    bool refused; /* see mr_decode_device_refused */
    char why[256];
    struct SwsContext *scaler;
    size_t room; /* as many as there are output buffers: each buffer is written by one copy at a time */
    held held[];
};

/* ---- planning -------------------------------------------------------------------------------------------------- */

void mr_decode_device_widen(mr_format_set *pictures) {
    if (!pictures->pixels)
        return;
    if (pictures->pixels & MR_IN_SET(MR_PIXEL_I420))
        pictures->pixels |= MR_IN_SET(MR_PIXEL_NV12);
    if (pictures->pixels & MR_IN_SET(MR_PIXEL_I420_10))
        pictures->pixels |= MR_IN_SET(MR_PIXEL_P010);
}

/* CUVIDDECODECREATEINFO: as many surfaces as a decoder may be made with, and as many to give pictures out in, which FFmpeg
 * asks for alike; rows and columns are rounded up. */
enum { CODEC_SURFACES = 32, COLUMNS = 256, ROWS = 32 };

int64_t mr_decode_device_bytes(const mr_format_set *pictures) {
    mr_format_set surface = *pictures;
    surface.width.max = (surface.width.max + COLUMNS - 1) / COLUMNS * COLUMNS;
    surface.height.max = (surface.height.max + ROWS - 1) / ROWS * ROWS;
    size_t bytes = mr_format_set_most_bytes(&surface);
    return bytes && bytes < SIZE_MAX / (2 * CODEC_SURFACES) ? 2 * CODEC_SURFACES * (int64_t)bytes : MR_BYTES_UNKNOWN;
}

static bool has_decoder(const char *device) {
    return strncmp(device, "cuda", 4) == 0;
}

int mr_decode_device_check(mr_hardware hardware, const char *device) {
    if (hardware != MR_HARDWARE_REQUIRE)
        return MR_OK;
    return has_decoder(device) ? mr_nvdec_check()
                               : mr_fail(MR_ERROR_CONFIG, "hardware: require needs a CUDA device, and %s is none; write "
                                                          "device: cuda:0, or hardware: auto", device);
}

/* ---- the decoder ----------------------------------------------------------------------------------------------- */

int mr_decode_device_create(mr_decode_device **device, mr_stage *self, mr_hardware hardware) {
    size_t room = self->output_buffers > 0 ? (size_t)self->output_buffers : 1;
    mr_decode_device *made = mr_calloc(1, sizeof *made + room * sizeof made->held[0]);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *made = (mr_decode_device){.self = self, .hardware = hardware, .room = room};
    *device = made;
    return MR_OK;
}

static void let_go(held *one) {
    mr_event_unref(&one->event);
    av_frame_free(&one->picture);
}

void mr_decode_device_destroy(mr_decode_device **device) {
    mr_decode_device *gone = *device;
    for (size_t i = 0; gone && i < gone->room; i++)
        let_go(&gone->held[i]);
    if (gone)
        sws_freeContext(gone->scaler);
    mr_free(gone);
    *device = NULL;
}

static void say_why(mr_decode_device *device, const char *why) {
    snprintf(device->why, sizeof device->why, "%s", why);
    if (!device->told && device->hardware != MR_HARDWARE_REQUIRE)
        mr_stage_info(device->self, "%s is decoded by software: %s", device->self->source_id, why);
    device->told = true;
}

static bool offers_cuda(const AVCodec *decoder) {
    const AVCodecHWConfig *config;
    for (int i = 0; (config = avcodec_get_hw_config(decoder, i)); i++)
        if (config->device_type == AV_HWDEVICE_TYPE_CUDA && config->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX)
            return true;
    return false;
}

/* Asked by the decoder for each new kind of picture. What the hardware refuses when it is set up is taken off the list, and
 * the decoder asks again. */
static enum AVPixelFormat choose_format(AVCodecContext *codec, const enum AVPixelFormat *formats) {
    mr_decode_device *device = codec->opaque;
    char why[192];
    enum AVPixelFormat software = AV_PIX_FMT_NONE;
    for (; *formats != AV_PIX_FMT_NONE; formats++) {
        if (*formats == AV_PIX_FMT_CUDA && codec->hw_device_ctx)
            return AV_PIX_FMT_CUDA;
        const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(*formats);
        if (software == AV_PIX_FMT_NONE && !(about->flags & AV_PIX_FMT_FLAG_HWACCEL))
            software = *formats;
    }
    if (!codec->hw_device_ctx)
        return software;
    const char *profile = avcodec_profile_name(codec->codec_id, codec->profile);
    snprintf(why, sizeof why, "NVDEC of %s does not take %s%s%s, %dx%d, %s", device->self->device->name,
             avcodec_get_name(codec->codec_id), profile ? " " : "", profile ? profile : "", codec->coded_width,
             codec->coded_height, software == AV_PIX_FMT_NONE ? "an unknown layout" : av_get_pix_fmt_name(software));
    say_why(device, why);
    device->refused |= device->hardware == MR_HARDWARE_REQUIRE;
    return device->refused ? AV_PIX_FMT_NONE : software;
}

static int take_hardware(mr_decode_device *device, AVCodecContext *codec, mr_io *io) {
    const char *name = device->self->device->name;
    if (!has_decoder(name))
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s has no decoder", name);
    if (!offers_cuda(codec->codec))
        return mr_fail(MR_ERROR_UNAVAILABLE, "libavcodec's decoder %s does not use NVDEC", codec->codec->name);
    return mr_nvdec_device(&codec->hw_device_ctx, mr_io_stream(io));
}

int mr_decode_device_attach(mr_decode_device *device, AVCodecContext *codec, mr_io *io) {
    codec->opaque = device;
    codec->get_format = choose_format;
    if (device->hardware == MR_HARDWARE_OFF)
        return MR_OK;
    int status = take_hardware(device, codec, io);
    if (status == MR_OK) {
        /* Threads would only stand in line; surfaces are held while they are copied. */
        codec->thread_count = 1;
        codec->extra_hw_frames = MOST_SURFACES;
        return MR_OK;
    }
    say_why(device, mr_message());
    return device->hardware == MR_HARDWARE_REQUIRE ? mr_fail(MR_ERROR_UNAVAILABLE, "%s", device->why) : MR_OK;
}

bool mr_decode_device_refused(const mr_decode_device *device) {
    if (device && device->refused)
        mr_fail(MR_ERROR_UNAVAILABLE, "%s", device->why);
    return device && device->refused;
}

/* ---- pictures -------------------------------------------------------------------------------------------------- */

enum AVPixelFormat mr_decode_device_layout(const AVFrame *picture) {
    if (picture->format != AV_PIX_FMT_CUDA || !picture->hw_frames_ctx)
        return picture->format;
    return ((const AVHWFramesContext *)(const void *)picture->hw_frames_ctx->data)->sw_format;
}

/* A place for one more picture; those whose copies are done are let go of. */
static held *find_place(mr_decode_device *device, size_t *surfaces) {
    held *place = NULL;
    *surfaces = 0;
    for (size_t i = 0; i < device->room; i++) {
        held *one = &device->held[i];
        if (one->event && mr_event_done(one->event))
            let_go(one);
        if (!one->event)
            place = one;
        else
            *surfaces += one->picture->format == AV_PIX_FMT_CUDA;
    }
    return place;
}

/* Without a free surface NVDEC fails. Copies take microseconds, and NVDEC is waited for on this thread anyway. */
static held *await_place(mr_decode_device *device) {
    size_t surfaces;
    held *place = find_place(device, &surfaces);
    while (place && surfaces >= MOST_SURFACES && !mr_stage_cancelled(device->self)) {
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
        place = find_place(device, &surfaces);
    }
    return place;
}

/* The picture itself once more, or in another layout. */
static int hold(mr_decode_device *device, const AVFrame *picture, enum AVPixelFormat converted, const mr_format *format,
                AVFrame **kept) {
    bool upside_down = picture->linesize[0] < 0;
    if (converted == mr_decode_device_layout(picture) && !upside_down) {
        *kept = av_frame_clone(picture);
        return *kept ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
    }
    AVFrame *made = av_frame_alloc();
    mr_frame to = {.format = *format};
    if (made) {
        made->format = converted;
        made->width = picture->width;
        made->height = picture->height;
    }
    int status = made && av_frame_get_buffer(made, 0) >= 0 ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
    for (int i = 0; i < MR_MAX_PLANES && !status; i++)
        to.plane[i] = (mr_plane){.data = made->data[i], .stride = made->linesize[i]};
    if (!status)
        status = mr_picture_convert(&device->scaler, picture, converted, &to);
    if (status)
        av_frame_free(&made);
    *kept = made;
    return status;
}

static int copy(mr_stream *stream, const AVFrame *picture, const mr_frame *to) {
    int status = MR_OK;
    for (int i = 0; i < mr_pixel_describe(to->format.pixel)->planes && !status; i++)
        status = mr_stream_copy_rows(stream, to->plane[i].data, to->plane[i].stride, picture->data[i],
                                     picture->linesize[i],
                                     mr_plane_row_bytes(to->format.pixel, i, to->format.width),
                                     (size_t)mr_plane_rows(to->format.pixel, i, to->format.height));
    return status;
}

/* Tells the picture when its copy is done. A failure is told to one event alone, and the frame's, which comes later, must
 * have it too. */
static int end_copy(mr_stream *stream, held *place) {
    int status = mr_stream_record(stream, place->event);
    if (status) {
        mr_event_unref(&place->event);
        return status;
    }
    return mr_stream_wait(stream, place->event);
}

int mr_decode_device_give(mr_decode_device *device, mr_io *io, const AVFrame *picture, enum AVPixelFormat converted,
                          const mr_format *format, const mr_frame *packet, mr_frame **frame) {
    mr_stream *stream = mr_io_stream(io);
    int status = mr_io_acquire(io, 0, format, packet, frame);
    if (status)
        return status;
    held *place = await_place(device);
    if (!place)
        status = mr_fail(MR_ERROR_INTERNAL, "more pictures are being copied than there are buffers");
    if (!status)
        status = hold(device, picture, converted, format, &place->picture);
    if (!status)
        status = mr_event_create(&place->event, stream->device, device->self);
    if (!status)
        status = copy(stream, place->picture, *frame);
    /* Also behind a copy that failed: others may have begun. */
    if (place && place->event) {
        int ended = end_copy(stream, place);
        status = status ? status : ended;
    }
    if (place && place->picture && !place->event)
        av_frame_free(&place->picture);
    if (status)
        mr_frame_unref(frame);
    return status;
}
