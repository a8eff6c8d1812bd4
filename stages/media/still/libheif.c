#include "stages/media/still/libheif.h"

#include <dlfcn.h>
#include <libavutil/pixdesc.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "millrace/log.h"
#include "millrace/status.h"

/* ---- the library, by its header heif.h of version 1 -------------------------------------------------------------- */

typedef struct heif_context heif_context;
typedef struct heif_image_handle heif_image_handle;
typedef struct heif_image heif_image;

typedef struct heif_error {
    int code, subcode;
    const char *message;
} heif_error;

/* The fields in version 1; later versions append more. */
typedef struct heif_nclx {
    uint8_t version;
    int primaries, transfer, matrix;
    uint8_t full_range;
} heif_nclx;

enum { HEIF_UNDEFINED = 99, HEIF_YCBCR = 0, HEIF_RGB = 1, HEIF_GRAY = 2, HEIF_Y = 0, HEIF_R = 3, HEIF_ALPHA = 6 };

#define FUNCTIONS(X)                                                                                                   \
    X(const char *, heif_get_version, (void))                                                                          \
    X(heif_context *, heif_context_alloc, (void))                                                                      \
    X(void, heif_context_free, (heif_context *))                                                                       \
    X(void, heif_context_set_max_decoding_threads, (heif_context *, int))                                              \
    X(heif_error, heif_context_read_from_memory_without_copy, (heif_context *, const void *, size_t, const void *))    \
    X(heif_error, heif_context_get_primary_image_handle, (heif_context *, heif_image_handle **))                       \
    X(void, heif_image_handle_release, (const heif_image_handle *))                                                    \
    X(int, heif_image_handle_get_width, (const heif_image_handle *))                                                   \
    X(int, heif_image_handle_get_height, (const heif_image_handle *))                                                  \
    X(int, heif_image_handle_is_premultiplied_alpha, (const heif_image_handle *))                                      \
    X(heif_error, heif_image_handle_get_nclx_color_profile, (const heif_image_handle *, heif_nclx **))                 \
    X(void, heif_nclx_color_profile_free, (heif_nclx *))                                                               \
    X(heif_error, heif_decode_image, (const heif_image_handle *, heif_image **, int, int, const void *))               \
    X(void, heif_image_release, (const heif_image *))                                                                  \
    X(int, heif_image_has_channel, (const heif_image *, int))                                                          \
    X(int, heif_image_get_colorspace, (const heif_image *))                                                            \
    X(int, heif_image_get_chroma_format, (const heif_image *))                                                         \
    X(int, heif_image_get_width, (const heif_image *, int))                                                            \
    X(int, heif_image_get_height, (const heif_image *, int))                                                           \
    X(int, heif_image_get_bits_per_pixel_range, (const heif_image *, int))                                             \
    X(const uint8_t *, heif_image_get_plane_readonly, (const heif_image *, int, int *))

typedef struct library {
#define X(result, name, parameters) result(*name) parameters;
    FUNCTIONS(X)
#undef X
} library;

static library heif;
static bool opened;

/* Opens the library and keeps it open. */
static void open_library(void) {
    void *file = dlopen("libheif.so.1", RTLD_NOW | RTLD_LOCAL);
    bool whole = file;
#define X(result, name, parameters)                                                                                    \
    whole = whole && (*(void **)&heif.name = dlsym(file, #name)) != NULL;
    FUNCTIONS(X)
#undef X
    opened = whole;
    if (opened)
        mr_log(MR_LOG_INFO, "libheif %s reads pictures of HEIF", heif.heif_get_version());
}

int mr_libheif_check(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_library);
    if (opened)
        return MR_OK;
    return mr_fail(MR_ERROR_UNAVAILABLE, "which needs libheif1: apt-get install libheif1, or convert it with "
                                         "heif-convert");
}

/* ---- one picture ------------------------------------------------------------------------------------------------- */

static int fail(heif_error error) {
    return mr_fail(MR_ERROR_DATA, "libheif: %s", error.message ? error.message : "cannot be decoded");
}

/* FFmpeg's name for the layout; AV_PIX_FMT_NONE if there is none. */
static enum AVPixelFormat layout_of(const heif_image *image) {
    static const enum AVPixelFormat layouts[][3] = {
        {AV_PIX_FMT_GRAY8, AV_PIX_FMT_GRAY10LE, AV_PIX_FMT_GRAY12LE},
        {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV420P10LE, AV_PIX_FMT_YUV420P12LE},
        {AV_PIX_FMT_YUV422P, AV_PIX_FMT_YUV422P10LE, AV_PIX_FMT_YUV422P12LE},
        {AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUV444P10LE, AV_PIX_FMT_YUV444P12LE},
        {AV_PIX_FMT_GBRP, AV_PIX_FMT_GBRP10LE, AV_PIX_FMT_GBRP12LE}};
    const int space = heif.heif_image_get_colorspace(image), chroma = heif.heif_image_get_chroma_format(image);
    const int depth = heif.heif_image_get_bits_per_pixel_range(image, space == HEIF_RGB ? HEIF_R : HEIF_Y);
    const int row = space == HEIF_GRAY ? 0 : space == HEIF_YCBCR ? chroma : chroma == 3 ? 4 : -1;
    if (row < 0 || row > 4 || (depth != 8 && depth != 10 && depth != 12))
        return AV_PIX_FMT_NONE;
    return layouts[row][(depth - 8) / 2];
}

/* libheif counts red, green and blue; FFmpeg's planes are green, blue and red. */
static int channel_of(bool rgb, int plane) {
    static const int order[] = {HEIF_R + 1, HEIF_R + 2, HEIF_R};
    return rgb ? order[plane] : HEIF_Y + plane;
}

/* False: a plane is smaller than its layout needs. */
static bool copy_planes(const heif_image *image, AVFrame *to) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(to->format);
    const bool rgb = about->flags & AV_PIX_FMT_FLAG_RGB;
    const size_t sample = about->comp[0].depth > 8 ? 2 : 1;
    for (int plane = 0; plane < about->nb_components; plane++) {
        int stride = 0;
        const int channel = channel_of(rgb, plane), chroma = plane > 0 && !rgb;
        const int width = AV_CEIL_RSHIFT(to->width, chroma ? about->log2_chroma_w : 0);
        const int height = AV_CEIL_RSHIFT(to->height, chroma ? about->log2_chroma_h : 0);
        const uint8_t *from = heif.heif_image_get_plane_readonly(image, channel, &stride);
        if (!from || heif.heif_image_get_width(image, channel) < width ||
            heif.heif_image_get_height(image, channel) < height)
            return false;
        for (int row = 0; row < height; row++)
            memcpy(to->data[plane] + (ptrdiff_t)to->linesize[plane] * row, from + (ptrdiff_t)stride * row,
                   (size_t)width * sample);
    }
    return true;
}

/* Undeclared colour means BT.601 with full range, as in libheif. */
static void describe_colour(const heif_image_handle *handle, AVFrame *picture) {
    enum { UNSPECIFIED = 2 };
    heif_nclx *nclx = NULL;
    picture->color_range = AVCOL_RANGE_JPEG;
    picture->colorspace = AVCOL_SPC_SMPTE170M;
    if (heif.heif_image_handle_get_nclx_color_profile(handle, &nclx).code == 0 && nclx) {
        picture->color_range = nclx->full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
        if (nclx->matrix != UNSPECIFIED && nclx->matrix >= 0 && nclx->matrix < AVCOL_SPC_NB)
            picture->colorspace = (enum AVColorSpace)nclx->matrix;
    }
    if (nclx)
        heif.heif_nclx_color_profile_free(nclx);
}

static int put_background(const heif_image_handle *handle, const heif_image *image, const mr_heif_target *to) {
    int stride = 0;
    if (!to->background || !heif.heif_image_has_channel(image, HEIF_ALPHA))
        return MR_OK;
    const uint8_t *data = heif.heif_image_get_plane_readonly(image, HEIF_ALPHA, &stride);
    if (!data || heif.heif_image_get_width(image, HEIF_ALPHA) < to->picture->width ||
        heif.heif_image_get_height(image, HEIF_ALPHA) < to->picture->height)
        return mr_fail(MR_ERROR_DATA, "libheif gives planes of different sizes");
    const mr_alpha alpha = {data, stride, heif.heif_image_get_bits_per_pixel_range(image, HEIF_ALPHA),
                            heif.heif_image_handle_is_premultiplied_alpha(handle)};
    return mr_background_put_alpha(to->picture, &alpha, to->background);
}

static int take_pixels(const heif_image_handle *handle, const heif_image *image, const mr_heif_target *to) {
    AVFrame *picture = to->picture;
    picture->format = layout_of(image);
    if (picture->format == AV_PIX_FMT_NONE)
        return mr_fail(MR_ERROR_DATA, "libheif gives samples of an unusual depth");
    const int channel = channel_of(heif.heif_image_get_colorspace(image) == HEIF_RGB, 0);
    picture->width = heif.heif_image_get_width(image, channel);
    picture->height = heif.heif_image_get_height(image, channel);
    describe_colour(handle, picture);
    if (to->allocate(to->context, picture) < 0)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    int status = copy_planes(image, picture) ? put_background(handle, image, to)
                                             : mr_fail(MR_ERROR_DATA, "libheif gives planes of different sizes");
    if (status)
        av_frame_unref(picture);
    return status;
}

static int decode_primary(heif_context *context, const mr_heif_target *to) {
    heif_image_handle *handle = NULL;
    heif_image *image = NULL;
    int status = MR_OK;
    heif_error error = heif.heif_context_get_primary_image_handle(context, &handle);
    if (error.code)
        return fail(error);
    const int width = heif.heif_image_handle_get_width(handle), height = heif.heif_image_handle_get_height(handle);
    if ((int64_t)width * height > to->max_pixels)
        status = mr_fail(MR_ERROR_DATA, "Picture size %dx%d exceeds max_pixels", width, height);
    if (!status) {
        error = heif.heif_decode_image(handle, &image, HEIF_UNDEFINED, HEIF_UNDEFINED, NULL);
        status = error.code || !image ? fail(error) : take_pixels(handle, image, to);
    }
    if (image)
        heif.heif_image_release(image);
    heif.heif_image_handle_release(handle);
    return status;
}

int mr_libheif_decode(const uint8_t *data, size_t bytes, const mr_heif_target *target) {
    int status = mr_libheif_check();
    if (status)
        return status;
    heif_context *context = heif.heif_context_alloc();
    if (!context)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    /* Tiles are decoded on this thread; other threads decode other pictures. */
    heif.heif_context_set_max_decoding_threads(context, 0);
    const heif_error error = heif.heif_context_read_from_memory_without_copy(context, data, bytes, NULL);
    status = error.code ? fail(error) : decode_primary(context, target);
    heif.heif_context_free(context);
    return status;
}
