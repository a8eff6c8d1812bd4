#include "stages/media/still/orientation.h"

#include <string.h>

#include "stages/media/still/still.h"
#include "stages/media/still/tiff.h"

/* ---- the eight values ------------------------------------------------------------------------------------------- */

/* By quarter turns clockwise. */
static const uint8_t turned[] = {1, 6, 3, 8}, mirrored[] = {2, 7, 4, 5};

mr_upright mr_upright_of_exif(unsigned orientation) {
    for (int quarter = 0; quarter < 4; quarter++)
        if (turned[quarter] == orientation || mirrored[quarter] == orientation)
            return (mr_upright){(int16_t)(90 * quarter), mirrored[quarter] == orientation};
    return (mr_upright){0};
}

static int quarters(mr_upright upright) {
    return (upright.rotation % 360 + 360) % 360 / 90;
}

uint8_t mr_upright_to_exif(mr_upright upright) {
    return upright.flip ? mirrored[quarters(upright)] : turned[quarters(upright)];
}

/* A mirroring after a turn equals that mirroring before the opposite turn. */
mr_upright mr_upright_then(mr_upright first, mr_upright then) {
    const int before = then.flip ? 4 - quarters(first) : quarters(first);
    return (mr_upright){(int16_t)((before + quarters(then)) % 4 * 90), first.flip != then.flip};
}

/* ---- EXIF -------------------------------------------------------------------------------------------------------- */

/* Some writers put JPEG's marker before it. */
static unsigned read_exif(const uint8_t *data, size_t bytes) {
    enum { MARK = 6 };
    const bool marked = bytes >= MARK && memcmp(data, "Exif\0\0", MARK) == 0;
    return marked ? mr_tiff_orientation(data + MARK, bytes - MARK) : mr_tiff_orientation(data, bytes);
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* XMP, part 1: an attribute, tiff:Orientation="6", or an element. */
static unsigned read_xmp(mr_still_part text) {
    static const char name[] = "tiff:Orientation";
    const size_t length = sizeof name - 1;
    for (size_t at = 0; text.bytes >= length + 3 && at < text.bytes - length - 2; at++) {
        const uint8_t *behind = text.data + at + length;
        if (memcmp(text.data + at, name, length) != 0)
            continue;
        const size_t digit = behind[0] == '=' ? 2 : 1;
        return behind[0] == '=' || behind[0] == '>' ? (unsigned)(behind[digit] - '0') : 0;
    }
    return 0;
}

static int value_of_digit(char digit) {
    return digit >= '0' && digit <= '9' ? digit - '0' : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The profile's name and length come before the digits, one per line. */
mr_upright mr_upright_of_profile(const char *text) {
    enum { ENOUGH = 4096 };
    uint8_t data[ENOUGH];
    size_t digits = 0;
    for (int words = 0; words < 2; words++) {
        text += strspn(text, " \n");
        text += strcspn(text, " \n");
    }
    memset(data, 0, sizeof data);
    for (; *text && digits < 2 * sizeof data; text++) {
        const int value = value_of_digit(*text);
        if (value >= 0) {
            data[digits / 2] |= (uint8_t)(digits % 2 ? value : value << 4);
            digits++;
        }
    }
    return mr_upright_of_exif(read_exif(data, digits / 2));
}

/* ---- containers -------------------------------------------------------------------------------------------------- */

mr_upright mr_still_upright(enum AVCodecID codec, const uint8_t *data, size_t bytes) {
    mr_still_part exif = {0}, xmp = {0};
    if (!mr_still_begins(codec, data, bytes))
        return (mr_upright){0};
    if (codec == AV_CODEC_ID_TIFF)
        return mr_upright_of_exif(mr_tiff_orientation(data, bytes));
    if (codec == AV_CODEC_ID_PNG) {
        exif = mr_png_find_chunk(data, bytes, "eXIf");
        xmp = mr_png_find_text(data, bytes, "XML:com.adobe.xmp");
    } else if (codec == AV_CODEC_ID_WEBP) {
        exif = mr_webp_find_chunk(data, bytes, "EXIF");
        xmp = mr_webp_find_chunk(data, bytes, "XMP ");
    }
    const unsigned value = exif.data ? read_exif(exif.data, exif.bytes) : 0;
    return mr_upright_of_exif(value || !xmp.data ? value : read_xmp(xmp));
}

void mr_exif_write_segment(uint8_t to[MR_EXIF_SEGMENT_BYTES], mr_upright upright) {
    enum { ORIENTATION_AT = 29 };
    static const uint8_t segment[MR_EXIF_SEGMENT_BYTES] = {
        0xff, 0xe1, 0, MR_EXIF_SEGMENT_BYTES - 2, 'E', 'x', 'i', 'f', 0, 0,
        'M', 'M', 0, 42, 0, 0, 0, 8, /* big-endian; the directory follows */
        0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(to, segment, MR_EXIF_SEGMENT_BYTES);
    to[ORIENTATION_AT] = mr_upright_to_exif(upright);
}
