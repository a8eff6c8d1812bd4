#include "stages/media/media_picture.h"

#include <errno.h>
#include <libavcodec/avcodec.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "millrace/status.h"
#include "stages/media/media_input.h"
#include "stages/media/media_reader.h"
#include "stages/media/picture_format.h"
#include "stages/media/still/kinds.h"
#include "stages/media/still/libheif.h"

/* Larger images are not read; such a file counts as damaged. */
static const int64_t most_bytes = (int64_t)1 << 30;

enum AVCodecID mr_picture_recognise(const char *path, const uint8_t *data, size_t bytes) {
    enum AVCodecID codec = mr_image_codec_by_content(data, bytes);
    if (!codec)
        codec = mr_image_codec_by_name(path);
    return codec ? codec : AV_CODEC_ID_PNG;
}

static int read_all(int fd, uint8_t *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = read(fd, data + done, bytes - done);
        if (count == 0 || (count < 0 && errno != EINTR))
            return mr_fail(MR_ERROR_IO, "%s", count ? strerror(errno) : "the file became shorter");
        done += count > 0 ? (size_t)count : 0;
    }
    return MR_OK;
}

int mr_picture_load(const char *path, const mr_stage *stage, size_t most, mr_packet *packet) {
    mr_input input;
    int status = mr_input_open(&input, path, stage);
    if (status)
        return status;
    const size_t bytes = (size_t)input.bytes < most ? (size_t)input.bytes : most;
    status = input.bytes > most_bytes ? mr_fail(MR_ERROR_DATA, "%s: too large for an image", path)
                                      : mr_packet_room(packet, bytes);
    if (!status)
        status = read_all(input.fd, packet->data, bytes);
    mr_input_close(&input);
    if (status)
        mr_buffer_unref(&packet->buffer);
    return status;
}

/* Keeps part of a packet's bytes, followed by zeros. */
static void keep_part(mr_packet *packet, const uint8_t *part, size_t bytes) {
    memmove(packet->data, part, bytes);
    memset(packet->data + bytes, 0, AV_INPUT_BUFFER_PADDING_SIZE);
    packet->bytes = bytes;
}

/* libavcodec decodes pictures that are one AV1 item. It leaves out alpha, for which libheif is used where it is. */
static bool is_for_libheif(const mr_heif *heif) {
    return heif->parts || (heif->alpha && mr_libheif_check() == MR_OK);
}

void mr_picture_unpack(const char *path, mr_packet *packet, mr_picture_kind *kind) {
    mr_heif heif;
    *kind = (mr_picture_kind){.id = AV_CODEC_ID_PNG};
    if (!mr_heif_read(packet->data, packet->bytes, &heif)) {
        kind->id = mr_picture_recognise(path, packet->data, packet->bytes);
    } else if (is_for_libheif(&heif)) {
        kind->id = AV_CODEC_ID_RAWVIDEO;
    } else if (heif.data) {
        keep_part(packet, heif.data, heif.bytes);
        kind->id = AV_CODEC_ID_AV1;
        kind->upright = heif.upright;
    }
}

AVCodecParameters *mr_picture_codec(enum AVCodecID id) {
    enum { ANY_SIZE = 16 }; /* for a raw video decoder that decodes nothing */
    AVCodecParameters *codec = avcodec_parameters_alloc();
    if (!codec)
        return NULL;
    codec->codec_type = AVMEDIA_TYPE_VIDEO;
    codec->codec_id = id;
    if (id == AV_CODEC_ID_RAWVIDEO) {
        codec->codec_tag = MR_HEIF_TAG;
        codec->format = AV_PIX_FMT_YUV420P;
        codec->width = codec->height = ANY_SIZE;
    }
    return codec;
}

/* ---- survey ---------------------------------------------------------------------------------------------------- */

/* Layouts that the decoder record allows; 0: not known. For 4:4:4 it cannot distinguish R'G'B'. */
static unsigned layouts_of(const mr_heif *heif) {
    static const enum AVPixelFormat known[4][3] = {
        {AV_PIX_FMT_GRAY8, AV_PIX_FMT_GRAY10LE, AV_PIX_FMT_GRAY12LE},
        {AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUV420P10LE, AV_PIX_FMT_YUV420P12LE},
        {AV_PIX_FMT_YUV422P, AV_PIX_FMT_YUV422P10LE, AV_PIX_FMT_YUV422P12LE},
        {AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUV444P10LE, AV_PIX_FMT_YUV444P12LE}};
    static const enum AVPixelFormat rgb[3] = {AV_PIX_FMT_GBRP, AV_PIX_FMT_GBRP10LE, AV_PIX_FMT_GBRP12LE};
    const int row = heif->gray ? 0 : heif->chroma_w && heif->chroma_h ? 1 : heif->chroma_w ? 2 : 3;
    const int depth = (heif->depth - 8) / 2;
    if (heif->depth != 8 && heif->depth != 10 && heif->depth != 12)
        return 0;
    return MR_IN_SET(mr_pixel_from_av(known[row][depth])) |
           (row == 3 ? MR_IN_SET(mr_pixel_from_av(rgb[depth])) : 0);
}

bool mr_picture_survey_heif(const mr_heif *heif, mr_survey *found) {
    const bool whole = is_for_libheif(heif), stored = !whole && heif->upright.rotation % 180;
    const int32_t width = stored ? heif->height : heif->width, height = stored ? heif->width : heif->height;
    *found = (mr_survey){.set = {.payload = MR_PAYLOAD_PACKET, .codec = whole ? "rawvideo" : "av1",
                                 .width = {width, width}, .height = {height, height}, .pixels = layouts_of(heif)},
                         .mean_pixels = (int64_t)width * height, .references = 2};
    return width > 0 && height > 0;
}
