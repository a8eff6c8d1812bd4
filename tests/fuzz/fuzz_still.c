/* Still picture files: orientation, end, number of pictures, TIFF kinds, and the picture in HEIF. */

#include "stages/media/still/heif.h"
#include "stages/media/still/orientation.h"
#include "stages/media/still/still.h"
#include "stages/media/still/tiff.h"
#include "tests/fuzz/fuzz.h"

static void expect_upright(mr_upright upright) {
    fault_if(upright.rotation < 0 || upright.rotation > 270 || upright.rotation % 90);
    const mr_upright same = mr_upright_of_exif(mr_upright_to_exif(upright));
    fault_if(same.rotation != upright.rotation || same.flip != upright.flip);
}

/* What is left has nothing more to leave out. */
static void strip(const uint8_t *data, size_t size) {
    const size_t bytes = mr_png_strip(data, size, NULL);
    fault_if(bytes > size);
    uint8_t *left = fuzz_copy(data, bytes, 1);
    fault_if(mr_png_strip(data, size, left) != bytes || mr_png_strip(left, bytes, NULL) != bytes);
    free(left);
    uint8_t *head = fuzz_copy(data, size, 1);
    mr_png_shorten(head, size);
    free(head);
}

FUZZ(data, size) {
    static const enum AVCodecID codecs[] = {AV_CODEC_ID_PNG, AV_CODEC_ID_WEBP, AV_CODEC_ID_TIFF, AV_CODEC_ID_GIF,
                                            AV_CODEC_ID_BMP, AV_CODEC_ID_MJPEG, AV_CODEC_ID_PPM};
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        expect_upright(mr_still_upright(codecs[i], data, size));
        fault_if(mr_still_end(codecs[i], data, size) > size);
        fault_if(mr_still_pictures(codecs[i], data, size) <= 0);
    }
    strip(data, size);
    mr_webp_is_animated(data, size);
    char text[256];
    mr_tiff_trouble(data, size, text, sizeof text);
    mr_heif heif;
    const bool is_heif = mr_heif_read(data, size, &heif);
    expect_upright(heif.upright);
    fault_if(heif.data && (!is_heif || heif.data < data || heif.bytes > size ||
                           heif.data - data > (ptrdiff_t)(size - heif.bytes)));
}
