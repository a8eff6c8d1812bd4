#include "stages/decode/device/decode_device.h"

#include <libavutil/hwcontext.h>
#include <libavutil/pixdesc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "stages/decode/device/decode_caps.h"
#include "stages/media/media_cuda.h"
#include "stages/media/picture_format.h"

/* Surfaces held during copies, in addition to the stream's; FEW_SURFACES if those are too many. */
enum { MOST_SURFACES = 8, FEW_SURFACES = 2, MOST_PINNED = 2, POLL_NS = 50000 };

/* Memory being copied: a surface, or pinned memory. */
typedef struct held {
    AVFrame *picture;
    mr_buffer *pinned;
    mr_event *event; /* set after the copy */
} held;

struct mr_decode_device {
    mr_stage *self;
    mr_hardware hardware;
    bool reported; /* why it decodes by software */
    bool refused; /* see mr_decode_device_refused */
    int surfaces; /* that may be held */
    bool started; /* NVDEC was chosen, and the decoder has not reported a failed start */
    bool again;   /* it did not; see mr_decode_device_again */
    bool by_software;    /* applies to the next decoder */
    enum AVCodecID codec; /* the stream's codec */
    AVBufferRef *device; /* libavcodec's, for the chosen decoder; NULL: software decodes */
    char why[256];
    struct SwsContext *scaler;
    mr_heard heard;
    held held[MOST_SURFACES];
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

/* CUVIDDECODECREATEINFO: the most surfaces a decoder can have, and as many output surfaces, which FFmpeg also requests.
 * Rows and columns are rounded up. */
enum { CODEC_SURFACES = 32, COLUMNS = 256, ROWS = 32 };

int64_t mr_decode_device_bytes(const mr_format_set *pictures) {
    mr_format_set surface = *pictures;
    surface.width.max = (surface.width.max + COLUMNS - 1) / COLUMNS * COLUMNS;
    surface.height.max = (surface.height.max + ROWS - 1) / ROWS * ROWS;
    size_t bytes = mr_format_set_most_bytes(&surface);
    return bytes && bytes < SIZE_MAX / (2 * CODEC_SURFACES) ? 2 * CODEC_SURFACES * (int64_t)bytes : MR_BYTES_UNKNOWN;
}

/* Whether it is a native libavcodec decoder that can use NVDEC. Wrappers with NVIDIA's parser (h264_cuvid) are not. */
static bool offers_cuda(const AVCodec *decoder) {
    const AVCodecHWConfig *config;
    for (int i = 0; !decoder->wrapper_name && (config = avcodec_get_hw_config(decoder, i)); i++)
        if (config->device_type == AV_HWDEVICE_TYPE_CUDA && config->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX)
            return true;
    return false;
}

/* Whether it can only decode with an accelerator. */
static bool only_accelerates(const AVCodec *decoder) {
    return decoder->id == AV_CODEC_ID_AV1 && !decoder->wrapper_name;
}

/* NULL: libavcodec has none. The first one is the one libavcodec prefers. */
static const AVCodec *find_decoder(enum AVCodecID id, bool hardware) {
    const AVCodec *decoder;
    void *next = NULL;
    while ((decoder = av_codec_iterate(&next)))
        if (decoder->id == id && av_codec_is_decoder(decoder) && hardware && offers_cuda(decoder))
            return decoder;
    decoder = hardware ? NULL : avcodec_find_decoder(id);
    return decoder && !only_accelerates(decoder) ? decoder : NULL;
}

const AVCodec *mr_nvdec_decoder(enum AVCodecID id) {
    return find_decoder(id, true);
}

/* Software layouts that may stand for an NVDEC layout we can carry (is_carried, below). */
static const uint64_t carried = MR_IN_SET(MR_PIXEL_I420) | MR_IN_SET(MR_PIXEL_I420_10) | MR_IN_SET(MR_PIXEL_I444);

/* "decoded by software (libdav1d)"; without the decoder's name if the codec is not known. */
static const char *by_software(const char *codec, char *text, size_t bytes) {
    const AVCodecDescriptor *about = codec ? avcodec_descriptor_get_by_name(codec) : NULL;
    const AVCodec *decoder = about ? find_decoder(about->id, false) : NULL;
    snprintf(text, bytes, "decoded by software%s%s%s", decoder ? " (" : "", decoder ? decoder->name : "",
             decoder ? ")" : "");
    return text;
}

int mr_decode_device_suits(const char *codec, const mr_format_set *packets) {
    mr_format_set pictures = *packets;
    const AVCodecDescriptor *about = codec ? avcodec_descriptor_get_by_name(codec) : NULL;
    char text[MR_FORMAT_SET_TEXT];
    if (about && !find_decoder(about->id, true))
        return mr_fail(MR_ERROR_CONFIG, "NVDEC does not take %s", codec);
    pictures.payload = MR_PAYLOAD_PICTURE;
    pictures.codec = NULL;
    if (pictures.pixels && !(pictures.pixels & carried))
        return mr_fail(MR_ERROR_CONFIG, "frames cannot hold the layout of NVDEC's pictures for %s",
                       mr_format_set_print(&pictures, text, sizeof text));
    return MR_OK;
}

int mr_decode_device_check(mr_hardware hardware, const char *device) {
    return mr_hardware_check(hardware, device, mr_nvdec_check);
}

int mr_decode_device_check_input(mr_hardware hardware, const mr_format_set *packets, const char *device,
                                 bool *otherwise) {
    if (hardware == MR_HARDWARE_OFF || !mr_hardware_is_on(device))
        return MR_OK;
    bool required = hardware == MR_HARDWARE_REQUIRE;
    char text[96];
    int status = required ? MR_OK : mr_decode_device_suits(packets->codec, packets);
    if (!status && !required)
        status = mr_nvdec_check();
    if (!status)
        status = mr_decode_caps_check(device, packets);
    *otherwise = !required;
    if (!status)
        return MR_OK;
    return required ? mr_fail(status, "hardware: require is not possible: %s; write hardware: auto", mr_message())
                    : mr_fail(status, "%s: %s", by_software(packets->codec, text, sizeof text), mr_message());
}

/* ---- the decoder ----------------------------------------------------------------------------------------------- */

int mr_decode_device_create(mr_decode_device **device, mr_stage *self, mr_hardware hardware) {
    mr_decode_device *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *made = (mr_decode_device){.self = self, .hardware = hardware, .surfaces = MOST_SURFACES};
    mr_heard_init(&made->heard);
    *device = made;
    return MR_OK;
}

static void release_held(held *one) {
    mr_event_unref(&one->event);
    mr_buffer_unref(&one->pinned);
    av_frame_free(&one->picture);
}

void mr_decode_device_destroy(mr_decode_device **device) {
    mr_decode_device *gone = *device;
    for (size_t i = 0; gone && i < MOST_SURFACES; i++)
        release_held(&gone->held[i]);
    if (gone) {
        av_buffer_unref(&gone->device);
        sws_freeContext(gone->scaler);
        mr_heard_fini(&gone->heard);
    }
    mr_free(gone);
    *device = NULL;
}

static void say_why(mr_decode_device *device, const char *why) {
    /* Simulated devices never decode themselves: not worth a warning. */
    void (*say)(const mr_stage *, const char *, ...) =
        mr_hardware_is_on(device->self->device->name) ? mr_stage_warn : mr_stage_info;
    char text[96];
    snprintf(device->why, sizeof device->why, "%s", why);
    if (!device->reported && device->hardware != MR_HARDWARE_REQUIRE)
        say(device->self, "%s is %s: %s", device->self->source_id,
            by_software(device->codec == AV_CODEC_ID_NONE ? NULL : avcodec_get_name(device->codec), text, sizeof text),
            why);
    device->reported = true;
}

/* Which NVDEC layouts can be carried: 8 bits as NV12 or three planes, 10 bits as P010. FFmpeg represents deeper ones,
 * and 4:4:4 above 8 bits, as 16 bits with empty low bits: there is no such layout here. */
static bool is_carried(const AVPixFmtDescriptor *about) {
    bool halved = about->log2_chroma_w == 1 && about->log2_chroma_h == 1,
         whole = !about->log2_chroma_w && !about->log2_chroma_h;
    int depth = about->comp[0].depth;
    return about->nb_components >= 3 && ((halved && (depth == 8 || depth == 10)) || (whole && depth == 8));
}

static void refuse(mr_decode_device *device, const AVCodecContext *codec, enum AVPixelFormat software,
                   const char *what) {
    char why[192];
    const char *profile = avcodec_profile_name(codec->codec_id, codec->profile);
    snprintf(why, sizeof why, "NVDEC of %s %s %s%s%s, %dx%d, %s", device->self->device->name, what,
             avcodec_get_name(codec->codec_id), profile ? " " : "", profile ? profile : "", codec->coded_width,
             codec->coded_height, software == AV_PIX_FMT_NONE ? "an unknown layout" : av_get_pix_fmt_name(software));
    say_why(device, why);
    device->refused |= device->hardware == MR_HARDWARE_REQUIRE;
}

/* libavcodec gives the decoder this many more surfaces than it reports (ff_decode_get_hw_frames_ctx). */
enum { WORK_SURFACES = 3 };

static void free_pool(AVHWFramesContext *frames) {
    av_buffer_pool_uninit(&frames->pool);
}

/* Sets up as many frames as the decoder can have surfaces. The decoder owns the memory, as if libavcodec had made them:
 * pool entries have no memory. */
static void take_frames(AVCodecContext *codec, AVBufferRef *frames) {
    AVHWFramesContext *about = (AVHWFramesContext *)(void *)frames->data;
    about->initial_pool_size = CODEC_SURFACES;
    about->pool = av_buffer_pool_init(1, NULL);
    about->free = free_pool;
    if (about->pool && av_hwframe_ctx_init(frames) >= 0)
        codec->hw_frames_ctx = av_buffer_ref(frames);
}

/* A stream with many reference frames needs nearly all surfaces that a decoder can have, so fewer can be held.
 * Otherwise libavcodec would ask for more, NVDEC would refuse, and software would decode. */
static void limit_surfaces(mr_decode_device *device, AVCodecContext *codec) {
    AVBufferRef *frames = NULL;
    codec->extra_hw_frames = device->surfaces;
    if (avcodec_get_hw_frames_parameters(codec, codec->hw_device_ctx, AV_PIX_FMT_CUDA, &frames) < 0)
        return; /* libavcodec will fail for the same reason and report it */
    const AVHWFramesContext *about = (const AVHWFramesContext *)(const void *)frames->data;
    int wanted = about->initial_pool_size + WORK_SURFACES, left = device->surfaces - (wanted - CODEC_SURFACES);
    if (wanted > CODEC_SURFACES) {
        take_frames(codec, frames);
        device->surfaces = left > FEW_SURFACES ? left : FEW_SURFACES;
        mr_stage_info(device->self, "%s: %d surfaces of NVDEC are left for copies, in place of %d: the stream needs %d",
                      device->self->source_id, device->surfaces, MOST_SURFACES, wanted - codec->extra_hw_frames);
    }
    av_buffer_unref(&frames);
}

/* Whether NVDEC was refused surfaces and may start with fewer. */
static bool tries_again(mr_decode_device *device) {
    if (!device->started || device->surfaces <= FEW_SURFACES)
        return false;
    mr_stage_warn(device->self, "%s: NVDEC of %s does not start with %d surfaces for copies; it is tried with %d",
                  device->self->source_id, device->self->device->name, device->surfaces, FEW_SURFACES);
    device->surfaces = FEW_SURFACES;
    device->again = true;
    return true;
}

/* The decoder calls this for each new kind of picture. If the hardware refuses a format, it is removed from the list,
 * and the decoder calls again. */
static enum AVPixelFormat choose_format(AVCodecContext *codec, const enum AVPixelFormat *formats) {
    mr_decode_device *device = codec->opaque;
    enum AVPixelFormat software = AV_PIX_FMT_NONE;
    bool offered = false;
    for (; *formats != AV_PIX_FMT_NONE; formats++) {
        offered |= *formats == AV_PIX_FMT_CUDA && codec->hw_device_ctx;
        const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(*formats);
        if (software == AV_PIX_FMT_NONE && !(about->flags & AV_PIX_FMT_FLAG_HWACCEL))
            software = *formats;
    }
    bool fits = software == AV_PIX_FMT_NONE || is_carried(av_pix_fmt_desc_get(software));
    if (offered && fits) {
        limit_surfaces(device, codec);
        device->started = true;
        return AV_PIX_FMT_CUDA;
    }
    if (!offered && tries_again(device))
        return AV_PIX_FMT_NONE;
    device->started = false;
    if (codec->hw_device_ctx)
        refuse(device, codec, software, offered ? "has no layout that frames can have for" : "does not take");
    if (device->refused || !only_accelerates(codec->codec))
        return device->refused ? AV_PIX_FMT_NONE : software;
    device->again = device->by_software = true;
    return AV_PIX_FMT_NONE;
}

bool mr_decode_device_again(mr_decode_device *device) {
    bool again = device && device->again;
    if (again)
        device->again = device->started = false;
    return again;
}

static int take_hardware(mr_decode_device *device, enum AVCodecID id, mr_io *io, const AVCodec **decoder) {
    const char *name = device->self->device->name;
    const AVCodec *found = find_decoder(id, true);
    if (!mr_hardware_is_on(name))
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s has no decoder", name);
    if (!found)
        return mr_fail(MR_ERROR_UNAVAILABLE, "libavcodec has no decoder of %s that uses NVDEC", avcodec_get_name(id));
    int status = mr_nvdec_check();
    if (!status)
        status = mr_av_cuda_device(&device->device, mr_io_stream(io));
    *decoder = status ? *decoder : found;
    return status;
}

int mr_decode_device_choose(mr_decode_device *device, enum AVCodecID id, mr_io *io, const AVCodec **decoder) {
    bool software = !device || device->hardware == MR_HARDWARE_OFF || device->by_software;
    *decoder = find_decoder(id, false);
    if (device) {
        device->codec = id;
        av_buffer_unref(&device->device);
        device->by_software = false;
    }
    if (software || take_hardware(device, id, io, decoder) == MR_OK)
        return MR_OK;
    say_why(device, mr_message());
    return device->hardware == MR_HARDWARE_REQUIRE ? mr_fail(MR_ERROR_UNAVAILABLE, "%s", device->why) : MR_OK;
}

mr_heard *mr_decode_device_heard(mr_decode_device *device) {
    return &device->heard;
}

mr_heard *mr_decode_device_heard_of(const AVCodecContext *codec) {
    mr_decode_device *device = codec->get_format == choose_format ? codec->opaque : NULL;
    return device ? &device->heard : NULL;
}

void mr_decode_device_attach(mr_decode_device *device, AVCodecContext *codec) {
    codec->opaque = device;
    codec->get_format = choose_format;
    codec->hw_device_ctx = device->device;
    device->device = NULL;
    if (codec->hw_device_ctx) {
        mr_stage_info(device->self, "%s is decoded by NVDEC of %s, with libavcodec's %s", device->self->source_id,
                      device->self->device->name, codec->codec->name);
        /* Threads would only queue up; surfaces are held during copies. */
        codec->thread_count = 1;
        codec->extra_hw_frames = device->surfaces;
    }
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

void mr_decode_device_crop(AVFrame *picture) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(mr_decode_device_layout(picture));
    size_t left = picture->crop_left, top = picture->crop_top;
    if (picture->format != AV_PIX_FMT_CUDA || (!left && !top))
        return;
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

/* Finds a free entry among the first `most`, and releases memory that has been copied. NULL: all are taken. */
static held *find_place(mr_decode_device *device, int most) {
    held *place = NULL;
    for (int i = 0; i < MOST_SURFACES; i++) {
        held *one = &device->held[i];
        if (one->event && mr_event_done(one->event))
            release_held(one);
        if (!one->event && i < most)
            place = one;
    }
    return place;
}

/* Without a free surface NVDEC fails, and pinned memory is limited. Copies take microseconds, and this thread must wait
 * for the decoder anyway. MR_ERROR_CANCELLED if the run must end at once. */
static int await_place(mr_decode_device *device, int most, held **place) {
    while (!(*place = find_place(device, most))) {
        if (mr_stage_cancelled(device->self))
            return mr_fail(MR_ERROR_CANCELLED, "the run was stopped");
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
    return MR_OK;
}

/* Copies a software-decoded picture into pinned memory, converted if needed. */
static int pin(mr_decode_device *device, mr_io *io, const AVFrame *picture, enum AVPixelFormat converted,
               const mr_format *format, mr_buffer **pinned) {
    int status = mr_io_pinned(io, mr_format_bytes(format), pinned);
    if (status)
        return status;
    mr_frame to = {.format = *format};
    mr_lay_out(format, MR_ROW_ALIGNMENT, (*pinned)->data, to.plane);
    if (converted != picture->format || picture->linesize[0] < 0)
        return mr_picture_convert(&device->scaler, picture, converted, &to);
    for (mr_row row = {0}; mr_next_row(format, &row);)
        memcpy(mr_row_at(to.plane, &row), picture->data[row.plane] + (ptrdiff_t)row.y * picture->linesize[row.plane],
               row.bytes);
    return MR_OK;
}

static int copy(mr_stream *stream, const AVFrame *picture, const mr_frame *to) {
    int status = MR_OK;
    for (mr_row row = {0}; !status && mr_next_plane(&to->format, &row);)
        status = mr_stream_copy_rows(stream, to->plane[row.plane].data, to->plane[row.plane].stride,
                                     picture->data[row.plane], picture->linesize[row.plane], row.bytes,
                                     (size_t)row.rows);
    return status;
}

/* Records the picture's event after the copy. A failure reaches only one event, and the frame's event comes later and
 * must carry it too. */
static int end_copy(mr_stream *stream, held *place) {
    int status = mr_stream_record(stream, place->event);
    if (status) {
        mr_event_unref(&place->event);
        return status;
    }
    return mr_stream_wait(stream, place->event);
}

/* Starts copying the held picture, which stays until the copy is done. */
static int begin_copy(mr_decode_device *device, mr_stream *stream, held *place, const mr_frame *frame) {
    int status = mr_event_create(&place->event, stream->device, device->self);
    if (status)
        return status;
    status = place->pinned
                 ? mr_stream_copy(stream, frame->plane[0].data, place->pinned->data, mr_format_bytes(&frame->format))
                 : copy(stream, place->picture, frame);
    /* Also needed after a failed copy: others may have begun. */
    int ended = end_copy(stream, place);
    return status ? status : ended;
}

int mr_decode_device_give(mr_decode_device *device, mr_io *io, const AVFrame *picture, enum AVPixelFormat converted,
                          const mr_format *format, const mr_frame *packet, mr_frame **frame) {
    bool surface = picture->format == AV_PIX_FMT_CUDA;
    held *place = NULL;
    device->started = false; /* it is past that */
    int status = mr_io_acquire(io, 0, format, packet, frame);
    if (status)
        return status;
    status = await_place(device, surface ? device->surfaces : MOST_PINNED, &place);
    if (!status && surface && !(place->picture = av_frame_clone(picture)))
        status = mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!status && !surface)
        status = pin(device, io, picture, converted, format, &place->pinned);
    if (!status)
        status = begin_copy(device, mr_io_stream(io), place, *frame);
    if (place && !place->event)
        release_held(place);
    if (status)
        mr_frame_unref(frame);
    return status;
}
