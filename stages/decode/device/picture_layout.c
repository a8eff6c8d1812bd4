#include "stages/decode/device/picture_layout.h"

#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>
#include <math.h>

#include "stages/media/picture_format.h"

enum { ALIGNMENT = 64, TAIL_BYTES = 64 };

size_t mr_picture_lay_out(AVCodecContext *codec, enum AVPixelFormat format, int width, int height, int strides[4],
                          size_t offsets[4]) {
    int rows[AV_NUM_DATA_POINTERS]; /* how rows must be aligned, which depends on the processor */
    bool unaligned;
    avcodec_align_dimensions2(codec, &width, &height, rows);
    do {
        if (av_image_fill_linesizes(strides, format, width) < 0)
            return 0;
        width += width & ~(width - 1);
        unaligned = false;
        for (int i = 0; i < 4; i++)
            unaligned |= strides[i] % rows[i] != 0;
    } while (unaligned);
    ptrdiff_t wide[4] = {strides[0], strides[1], strides[2], strides[3]};
    size_t sizes[4], total = 0;
    if (av_image_fill_plane_sizes(sizes, format, height, wide) < 0)
        return 0;
    for (int i = 0; i < 4; i++) {
        offsets[i] = total;
        if (sizes[i])
            total += (sizes[i] + TAIL_BYTES + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return total;
}

/* Whether a picture may have an alpha plane in addition to its layout. Still and lossless codecs can have one; video
 * codecs cannot. */
static bool may_have_alpha(const AVCodecDescriptor *codec) {
    const int such = AV_CODEC_PROP_INTRA_ONLY | AV_CODEC_PROP_LOSSLESS;
    return !codec || codec->mime_types || (codec->props & such && !(codec->props & AV_CODEC_PROP_REORDER));
}

static bool has_hidden_alpha(enum AVPixelFormat format) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(format);
    return about->flags & AV_PIX_FMT_FLAG_PLANAR && about->flags & AV_PIX_FMT_FLAG_ALPHA;
}

static size_t most_laid_out(AVCodecContext *codec, const AVCodecDescriptor *about, const mr_format_set *pictures,
                            int width, int height) {
    size_t most = 0;
    mr_pixel pixel;
    enum AVPixelFormat format;
    for (size_t i = 0; (format = mr_pixel_av_at(i, &pixel)) != AV_PIX_FMT_NONE; i++) {
        int strides[4] = {0};
        size_t offsets[4] = {0};
        if ((pictures->pixels && !(pictures->pixels & MR_IN_SET(pixel))) ||
            (has_hidden_alpha(format) && !may_have_alpha(about)))
            continue;
        codec->pix_fmt = format;
        size_t bytes = mr_picture_lay_out(codec, format, width, height, strides, offsets);
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t mr_picture_layout_bytes(const char *name, const mr_format_set *pictures, int64_t max_pixels) {
    const AVCodecDescriptor *about = name ? avcodec_descriptor_get_by_name(name) : NULL;
    AVCodecContext *codec = avcodec_alloc_context3(NULL);
    if (!codec)
        return 0;
    /* H.264 adds the most rows. */
    codec->codec_id = about ? about->id : AV_CODEC_ID_H264;
    int side = (int)ceil(sqrt((double)max_pixels));
    int width = pictures->width.max ? (int)pictures->width.max : side;
    int height = pictures->height.max ? (int)pictures->height.max : side;
    size_t most = most_laid_out(codec, about, pictures, width, height);
    avcodec_free_context(&codec);
    /* Converted pictures use the engine's layout. */
    size_t converted = mr_format_set_most_bytes(pictures);
    return converted > most ? converted : most;
}

bool mr_picture_layout_suits(const char *name) {
    const AVCodecDescriptor *about = name ? avcodec_descriptor_get_by_name(name) : NULL;
    const AVCodec *decoder = about ? avcodec_find_decoder(about->id) : NULL;
    return decoder && decoder->capabilities & AV_CODEC_CAP_DR1;
}
