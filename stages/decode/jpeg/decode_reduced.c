#include "stages/decode/jpeg/decode_reduced.h"

#include <libavcodec/avcodec.h>
#include <math.h>
#include <string.h>

/* ---- the header (ISO/IEC 10918-1, annex B; JFIF 1.02) ------------------------------------------------------------ */

enum { SOF0 = 0xc0, SOF1 = 0xc1, SOF2 = 0xc2, DHT = 0xc4, DAC = 0xcc, JPG = 0xc8, SOF15 = 0xcf, SOI = 0xd8, SOS = 0xda,
       APP0 = 0xe0 };

static int big_16(const uint8_t *at) {
    return at[0] << 8 | at[1];
}

/* A component's sampling factor: 4 bits in a byte per component. If no component has a value other than 2, 2 means
 * 1. */
static int factor_of(const uint8_t *components, int count, int component, int shift) {
    bool twos = true;
    for (int c = 0; c < count; c++)
        twos &= (components[3 * c + 1] >> shift & 15) == 2;
    return twos ? 1 : components[3 * component + 1] >> shift & 15;
}

/* Subsampling that libavcodec can reduce: per chroma block one luma block, two (in a row or column), four in a square,
 * or four in a row. */
static bool has_usual_sampling(const uint8_t *components, int count) {
    static const uint8_t luma[] = {0x11, 0x21, 0x12, 0x22, 0x41};
    uint8_t sampling[3];
    if (count != 1 && count != 3)
        return false;
    for (int c = 0; c < count; c++)
        sampling[c] = (uint8_t)(factor_of(components, count, c, 4) << 4 | factor_of(components, count, c, 0));
    if (count == 1)
        return sampling[0] == 0x11;
    return memchr(luma, sampling[0], sizeof luma) && sampling[1] == 0x11 && sampling[2] == 0x11;
}

static bool read_frame_header(const uint8_t *segment, size_t bytes, mr_jpeg_header *jpeg) {
    enum { FIXED = 6, COMPONENT = 3, EIGHT_BITS = 8 };
    if (bytes < FIXED + COMPONENT || segment[0] != EIGHT_BITS || bytes != FIXED + COMPONENT * (size_t)segment[5])
        return false;
    jpeg->height = big_16(segment + 1);
    jpeg->width = big_16(segment + 3);
    return jpeg->width > 0 && jpeg->height > 0 && has_usual_sampling(segment + FIXED, segment[5]);
}

/* False if the segment says that the picture is a field, as in AVI. */
static bool read_app0(const uint8_t *segment, size_t bytes, mr_jpeg_header *jpeg) {
    if (bytes >= 12 && memcmp(segment, "JFIF", 5) == 0) {
        jpeg->sar_num = big_16(segment + 8);
        jpeg->sar_den = big_16(segment + 10);
    }
    return bytes < 5 || memcmp(segment, "AVI1", 4) != 0 || segment[4] == 0;
}

static bool is_frame_header(int marker) {
    return marker >= SOF0 && marker <= SOF15 && marker != DHT && marker != JPG && marker != DAC;
}

bool mr_jpeg_look(const uint8_t *data, size_t bytes, mr_jpeg_header *jpeg) {
    *jpeg = (mr_jpeg_header){0};
    if (bytes < 2 || data[0] != 0xff || data[1] != SOI)
        return false;
    for (size_t at = 2; bytes - at >= 4 && data[at] == 0xff;) {
        int marker = data[at + 1];
        if (marker == 0xff) {
            at++; /* a fill byte */
            continue;
        }
        size_t length = (size_t)big_16(data + at + 2);
        if (length < 2 || length > bytes - at - 2 || marker == SOS)
            return false;
        const uint8_t *segment = data + at + 4;
        if (is_frame_header(marker))
            return marker <= SOF2 && read_frame_header(segment, length - 2, jpeg);
        if (marker == APP0 && !read_app0(segment, length - 2, jpeg))
            return false;
        at += 2 + length;
    }
    return false;
}

/* ---- the scale --------------------------------------------------------------------------------------------------- */

/* Only metadata can say whether the picture is turned, so the smaller reduction counts. */
static double shrink_of(const mr_stage *stage, const mr_jpeg_header *jpeg) {
    mr_format picture = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = jpeg->width,
                         .height = jpeg->height, .sar_num = jpeg->sar_num, .sar_den = jpeg->sar_den};
    double upright = mr_stage_shrink(stage, &picture);
    picture.rotation = 90;
    return fmin(upright, mr_stage_shrink(stage, &picture));
}

/* These codec variants are bottom up, or have fewer lines than they declare. */
static bool is_plain(const AVCodecParameters *codec) {
    return codec->codec_id == AV_CODEC_ID_MJPEG && codec->extradata_size == 0 &&
           codec->codec_tag != MKTAG('A', 'V', 'R', 'n') && codec->codec_tag != MKTAG('A', 'V', 'D', 'J');
}

int mr_reduced_scale(mr_reduced *decided, const mr_stage *stage, const mr_frame *packet, int64_t max_pixels) {
    enum { LEAST_SCALE = 2 };
    const AVCodecParameters *codec = packet->media->codec;
    mr_jpeg_header jpeg;
    if (!is_plain(codec) || !mr_jpeg_look(packet->plane[0].data, packet->plane[0].bytes, &jpeg) ||
        (int64_t)jpeg.width * jpeg.height > max_pixels)
        return 0;
    if (codec->sample_aspect_ratio.num > 0 && codec->sample_aspect_ratio.den > 0) {
        jpeg.sar_num = codec->sample_aspect_ratio.num;
        jpeg.sar_den = codec->sample_aspect_ratio.den;
    }
    if (memcmp(&decided->of, &jpeg, sizeof jpeg) == 0)
        return decided->scale;
    double shrink = shrink_of(stage, &jpeg);
    int scale = MR_REDUCED_MOST;
    while (scale && shrink < MR_REDUCED_LEAST << scale)
        scale--;
    *decided = (mr_reduced){.of = jpeg, .scale = scale < LEAST_SCALE ? 0 : scale};
    return decided->scale;
}
