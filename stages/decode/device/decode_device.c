#include "stages/decode/device/decode_device.h"

#include <libavutil/hwcontext.h>
#include <libavutil/pixdesc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "stages/decode/device/nvdec.h"
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
    mr_decode_log log;
    held held[MOST_SURFACES];
};

/* ---- the decoder ----------------------------------------------------------------------------------------------- */

int mr_decode_device_create(mr_decode_device **device, mr_stage *self, mr_hardware hardware) {
    mr_decode_device *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    *made = (mr_decode_device){.self = self, .hardware = hardware, .surfaces = MOST_SURFACES};
    mr_decode_log_init(&made->log);
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
        mr_decode_log_fini(&gone->log);
    }
    mr_free(gone);
    *device = NULL;
}

static void say_why(mr_decode_device *device, const char *why) {
    /* Simulated devices never decode themselves: not worth a warning. */
    void (*say)(const mr_stage *, const char *, ...) =
        mr_hardware_is_on(device->self->device->name) ? mr_stage_warn : mr_stage_info;
    const char *codec = device->codec == AV_CODEC_ID_NONE ? NULL : avcodec_get_name(device->codec);
    char text[96];
    snprintf(device->why, sizeof device->why, "%s", why);
    if (!device->reported && device->hardware != MR_HARDWARE_REQUIRE)
        say(device->self, "%s is %s: %s", device->self->source_id,
            mr_nvdec_say_substitute(codec, text, sizeof text), why);
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
    about->initial_pool_size = MR_NVDEC_SURFACES;
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
    int wanted = about->initial_pool_size + WORK_SURFACES, left = device->surfaces - (wanted - MR_NVDEC_SURFACES);
    if (wanted > MR_NVDEC_SURFACES) {
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
    if (device->refused || !mr_nvdec_is_only(codec->codec))
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

static int take_hardware(mr_decode_device *device, enum AVCodecID id, mr_stream *stream, const AVCodec **decoder) {
    const char *name = device->self->device->name;
    const AVCodec *found = mr_nvdec_decoder(id);
    if (!mr_hardware_is_on(name))
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s has no decoder", name);
    if (!found)
        return mr_fail(MR_ERROR_UNAVAILABLE, "libavcodec has no decoder of %s that uses NVDEC", avcodec_get_name(id));
    int status = mr_nvdec_check();
    if (!status)
        status = mr_av_cuda_device(&device->device, stream);
    *decoder = status ? *decoder : found;
    return status;
}

int mr_decode_device_choose(mr_decode_device *device, enum AVCodecID id, mr_stream *stream,
                            const AVCodec **decoder) {
    bool software = !device || device->hardware == MR_HARDWARE_OFF || device->by_software;
    *decoder = mr_nvdec_substitute(id);
    if (device) {
        device->codec = id;
        av_buffer_unref(&device->device);
        device->by_software = false;
    }
    if (software || take_hardware(device, id, stream, decoder) == MR_OK)
        return MR_OK;
    say_why(device, mr_message());
    return device->hardware == MR_HARDWARE_REQUIRE ? mr_fail(MR_ERROR_UNAVAILABLE, "%s", device->why) : MR_OK;
}

mr_decode_log *mr_decode_device_log(mr_decode_device *device) {
    return &device->log;
}

mr_decode_log *mr_decode_device_log_of(const AVCodecContext *codec) {
    mr_decode_device *device = codec->get_format == choose_format ? codec->opaque : NULL;
    return device ? &device->log : NULL;
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
