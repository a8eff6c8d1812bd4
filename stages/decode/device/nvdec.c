#include "stages/decode/device/nvdec.h"

#include <stdio.h>

#include "stages/decode/device/decode_caps.h"
#include "stages/media/media_cuda.h"

void mr_nvdec_widen(mr_format_set *pictures) {
    if (!pictures->pixels)
        return;
    if (pictures->pixels & MR_IN_SET(MR_PIXEL_I420))
        pictures->pixels |= MR_IN_SET(MR_PIXEL_NV12);
    if (pictures->pixels & MR_IN_SET(MR_PIXEL_I420_10))
        pictures->pixels |= MR_IN_SET(MR_PIXEL_P010);
}

/* CUVIDDECODECREATEINFO: rows and columns are rounded up. */
enum { COLUMNS = 256, ROWS = 32 };

int64_t mr_nvdec_bytes(const mr_format_set *pictures) {
    mr_format_set surface = *pictures;
    surface.width.max = (surface.width.max + COLUMNS - 1) / COLUMNS * COLUMNS;
    surface.height.max = (surface.height.max + ROWS - 1) / ROWS * ROWS;
    size_t bytes = mr_format_set_most_bytes(&surface);
    const size_t surfaces = 2 * MR_NVDEC_SURFACES;
    return bytes && bytes < SIZE_MAX / surfaces ? (int64_t)(surfaces * bytes) : MR_BYTES_UNKNOWN;
}

/* Whether it is a native libavcodec decoder that can use NVDEC. Wrappers with NVIDIA's parser (h264_cuvid) are not. */
static bool offers_cuda(const AVCodec *decoder) {
    const AVCodecHWConfig *config;
    for (int i = 0; !decoder->wrapper_name && (config = avcodec_get_hw_config(decoder, i)); i++)
        if (config->device_type == AV_HWDEVICE_TYPE_CUDA && config->methods & AV_CODEC_HW_CONFIG_METHOD_HW_DEVICE_CTX)
            return true;
    return false;
}

bool mr_nvdec_is_only(const AVCodec *decoder) {
    return decoder->id == AV_CODEC_ID_AV1 && !decoder->wrapper_name;
}

/* The first one is the one that libavcodec prefers. */
const AVCodec *mr_nvdec_decoder(enum AVCodecID id) {
    const AVCodec *decoder;
    void *next = NULL;
    while ((decoder = av_codec_iterate(&next)))
        if (decoder->id == id && av_codec_is_decoder(decoder) && offers_cuda(decoder))
            break;
    return decoder;
}

const AVCodec *mr_nvdec_substitute(enum AVCodecID id) {
    const AVCodec *decoder = avcodec_find_decoder(id);
    return decoder && !mr_nvdec_is_only(decoder) ? decoder : NULL;
}

/* Software layouts that may stand for an NVDEC layout we can carry (is_carried in decode_device.c). */
static const uint64_t carried = MR_IN_SET(MR_PIXEL_I420) | MR_IN_SET(MR_PIXEL_I420_10) | MR_IN_SET(MR_PIXEL_I444);

const char *mr_nvdec_say_substitute(const char *codec, char *text, size_t bytes) {
    const AVCodecDescriptor *about = codec ? avcodec_descriptor_get_by_name(codec) : NULL;
    const AVCodec *decoder = about ? mr_nvdec_substitute(about->id) : NULL;
    snprintf(text, bytes, "decoded by software%s%s%s", decoder ? " (" : "", decoder ? decoder->name : "",
             decoder ? ")" : "");
    return text;
}

int mr_nvdec_suits(const char *codec, const mr_format_set *packets) {
    mr_format_set pictures = *packets;
    const AVCodecDescriptor *about = codec ? avcodec_descriptor_get_by_name(codec) : NULL;
    char text[MR_FORMAT_SET_TEXT];
    if (about && !mr_nvdec_decoder(about->id))
        return mr_fail(MR_ERROR_CONFIG, "NVDEC does not take %s", codec);
    pictures.payload = MR_PAYLOAD_PICTURE;
    pictures.codec = NULL;
    if (pictures.pixels && !(pictures.pixels & carried))
        return mr_fail(MR_ERROR_CONFIG, "frames cannot hold the layout of NVDEC's pictures for %s",
                       mr_format_set_print(&pictures, text, sizeof text));
    return MR_OK;
}

int mr_nvdec_check_input(mr_hardware hardware, const mr_format_set *packets, const char *device, bool *otherwise) {
    if (hardware == MR_HARDWARE_OFF || !mr_hardware_is_on(device))
        return MR_OK;
    bool required = hardware == MR_HARDWARE_REQUIRE;
    char text[96];
    int status = required ? MR_OK : mr_nvdec_suits(packets->codec, packets);
    if (!status && !required)
        status = mr_nvdec_check();
    if (!status)
        status = mr_decode_caps_check(device, packets);
    *otherwise = !required;
    if (!status)
        return MR_OK;
    return required ? mr_fail(status, "hardware: require is not possible: %s; write hardware: auto", mr_message())
                    : mr_fail(status, "%s: %s", mr_nvdec_say_substitute(packets->codec, text, sizeof text),
                              mr_message());
}
