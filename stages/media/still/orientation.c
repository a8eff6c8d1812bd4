#include "stages/media/still/orientation.h"

#include <string.h>

#include "stages/media/still/still.h"

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

/* A mirror after a turn is that mirror before the opposite turn. */
mr_upright mr_upright_then(mr_upright first, mr_upright then) {
    const int before = then.flip ? 4 - quarters(first) : quarters(first);
    return (mr_upright){(int16_t)((before + quarters(then)) % 4 * 90), first.flip != then.flip};
}

/* ---- TIFF 6.0, which EXIF is, too -------------------------------------------------------------------------------- */

/* An unsigned number of `bytes` bytes. */
static uint32_t number_at(const uint8_t *data, int bytes, bool big) {
    uint32_t number = 0;
    for (int i = 0; i < bytes; i++)
        number |= (uint32_t)data[i] << 8 * (big ? bytes - 1 - i : i);
    return number;
}

/* The value of an entry (2: tag, 2: type, 4: count, 4: value) if it is a number of one to four bytes; else 0. */
static uint32_t value_of(const uint8_t *entry, bool big) {
    enum { BYTE = 1, SHORT = 3, LONG = 4 };
    switch (number_at(entry + 2, 2, big)) {
    case BYTE:
        return entry[8];
    case SHORT:
        return number_at(entry + 8, 2, big);
    case LONG:
        return number_at(entry + 8, 4, big);
    default:
        return 0;
    }
}

/* The orientation in the first directory; 0: it has none. */
static unsigned read_tiff(const uint8_t *data, size_t bytes) {
    enum { HEADER = 8, ENTRY = 12, ORIENTATION = 274 };
    if (bytes < HEADER || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return 0;
    const bool big = data[0] == 'M';
    size_t at = number_at(data + 4, 4, big);
    if (at < HEADER || at > bytes - 2)
        return 0;
    size_t entries = number_at(data + at, 2, big);
    for (at += 2; entries > 0 && at + ENTRY <= bytes; entries--, at += ENTRY)
        if (number_at(data + at, 2, big) == ORIENTATION)
            return value_of(data + at, big);
    return 0;
}

/* Some writers put JPEG's mark before it. */
static unsigned read_exif(const uint8_t *data, size_t bytes) {
    enum { MARK = 6 };
    const bool marked = bytes >= MARK && memcmp(data, "Exif\0\0", MARK) == 0;
    return marked ? read_tiff(data + MARK, bytes - MARK) : read_tiff(data, bytes);
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

/* The profile's name and its length stand before the digits, each in a line. */
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
        return mr_upright_of_exif(read_tiff(data, bytes));
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
