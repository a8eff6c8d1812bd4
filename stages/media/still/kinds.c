#include "stages/media/still/kinds.h"

#include <libavcodec/avcodec.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "millrace/status.h"
#include "stages/media/still/heif.h"
#include "stages/media/still/libheif.h"
#include "stages/media/still/still.h"
#include "stages/media/still/tiff.h"

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *endings; /* each between blanks */
    enum AVCodecID codec;
} pictures[] = {{" jpg jpeg jpe jfif jif jfi pjpeg pjp mpo ", AV_CODEC_ID_MJPEG},
                {" png apng ", AV_CODEC_ID_PNG},
                {" webp ", AV_CODEC_ID_WEBP},
                {" heic heif hif ", AV_CODEC_ID_HEVC},
                {" avif ", AV_CODEC_ID_AV1},
                {" tif tiff ", AV_CODEC_ID_TIFF},
                {" bmp dib ", AV_CODEC_ID_BMP},
                {" gif ", AV_CODEC_ID_GIF},
                {" ppm pnm ", AV_CODEC_ID_PPM},
                {" pgm ", AV_CODEC_ID_PGM},
                {" pbm ", AV_CODEC_ID_PBM},
                {" pam ", AV_CODEC_ID_PAM},
                {" jp2 j2k j2c jpc jpx jpf ", AV_CODEC_ID_JPEG2000},
                {" tga icb vda vst ", AV_CODEC_ID_TARGA},
                {" sgi ", AV_CODEC_ID_SGI},
                {" exr ", AV_CODEC_ID_EXR},
                {" dpx ", AV_CODEC_ID_DPX},
                {" qoi ", AV_CODEC_ID_QOI},
                {" jxl ", AV_CODEC_ID_JPEGXL},
                {" pcx ", AV_CODEC_ID_PCX},
                {" ras ", AV_CODEC_ID_SUNRAST},
                {" xbm ", AV_CODEC_ID_XBM}};

static const char videos[] = " mp4 m4v mov mkv webm avi mpg mpeg vob ts mts m2ts m2t flv f4v wmv asf ogv 3gp 3g2 mxf "
                             "nut y4m mjpeg mjpg h264 264 hevc h265 265 ivf dv ";

/* Whether a name has one of these extensions. */
static bool ends_in(const char *path, const char *endings) {
    enum { LONGEST = 8 };
    const char *dot = strrchr(path, '.');
    char wanted[LONGEST + 3];
    if (!dot || strlen(dot + 1) > LONGEST || strchr(dot, ' '))
        return false;
    snprintf(wanted, sizeof wanted, " %s ", dot + 1);
    return dot[1] && strcasestr(endings, wanted);
}

enum AVCodecID mr_image_codec_by_name(const char *path) {
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
        if (ends_in(path, pictures[i].endings))
            return pictures[i].codec;
    return AV_CODEC_ID_NONE;
}

bool mr_is_video_by_name(const char *path) {
    return ends_in(path, videos);
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

enum AVCodecID mr_input_image_codec(const AVInputFormat *format) {
    char name[32];
    size_t length = strlen(format->name);
    if (length <= 5 || length >= sizeof name || strcmp(format->name + length - 5, "_pipe") != 0)
        return AV_CODEC_ID_NONE;
    memcpy(name, format->name, length - 5);
    name[length - 5] = '\0';
    if (strcmp(name, "jpeg") == 0)
        return AV_CODEC_ID_MJPEG;
    if (strcmp(name, "j2k") == 0)
        return AV_CODEC_ID_JPEG2000;
    const AVCodecDescriptor *codec = avcodec_descriptor_get_by_name(name);
    return codec && codec->id != AV_CODEC_ID_SVG ? codec->id : AV_CODEC_ID_NONE;
}

/* Asks libavformat, which needs zeros after the bytes. NULL: unknown. */
static const AVInputFormat *guess(const uint8_t *data, size_t bytes) {
    enum { HEAD_BYTES = 4096 };
    uint8_t head[HEAD_BYTES + AVPROBE_PADDING_SIZE] = {0};
    const size_t taken = bytes < HEAD_BYTES ? bytes : HEAD_BYTES;
    if (!taken)
        return NULL;
    memcpy(head, data, taken);
    return av_probe_input_format(&(AVProbeData){.filename = "", .buf = head, .buf_size = (int)taken}, 1);
}

/* Common formats are recognised by signature: libavformat calls GIF and animated PNG videos. */
enum AVCodecID mr_image_codec_by_content(const uint8_t *data, size_t bytes) {
    static const enum AVCodecID known[] = {AV_CODEC_ID_PNG, AV_CODEC_ID_MJPEG, AV_CODEC_ID_GIF};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mr_still_begins(known[i], data, bytes))
            return known[i];
    const AVInputFormat *format = guess(data, bytes);
    return format ? mr_input_image_codec(format) : AV_CODEC_ID_NONE;
}

/* Whether libheif is missing, which a multi-part HEIF needs. */
static bool lacks_libheif(const mr_heif *heif, char *text, size_t room) {
    if (!heif->parts || mr_libheif_check() == MR_OK)
        return false;
    snprintf(text, room, "is a picture of %s, %s", heif->avif ? "AVIF" : "HEIC", mr_message());
    return true;
}

bool mr_still_trouble(const char *path, const uint8_t *data, size_t bytes, char *text, size_t room) {
    mr_heif heif;
    if (mr_webp_is_animated(data, bytes)) {
        snprintf(text, room,
                 "is an animated WebP, which is not supported: make a GIF, an animated PNG or a video of it");
        return true;
    }
    if (mr_heif_read(data, bytes, &heif))
        return lacks_libheif(&heif, text, room);
    if (mr_tiff_trouble(data, bytes, text, room))
        return true;
    if (bytes == 0 || mr_image_codec_by_content(data, bytes))
        return false;
    const AVInputFormat *format = guess(data, bytes);
    if (format)
        snprintf(text, room, "is not a picture (%s)", format->long_name);
    else
        snprintf(text, room, "is not a picture of a known kind");
    return format || !path || !mr_image_codec_by_name(path);
}
