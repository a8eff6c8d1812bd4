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

/* The orientation in the first directory. */
static unsigned read_tiff(const uint8_t *data, size_t bytes) {
    enum { HEADER = 8, ENTRY = 12, ORIENTATION = 274 };
    if (bytes < HEADER || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return 1;
    const bool big = data[0] == 'M';
    size_t at = number_at(data + 4, 4, big);
    if (at < HEADER || at > bytes - 2)
        return 1;
    size_t entries = number_at(data + at, 2, big);
    for (at += 2; entries > 0 && at + ENTRY <= bytes; entries--, at += ENTRY)
        if (number_at(data + at, 2, big) == ORIENTATION)
            return value_of(data + at, big);
    return 1;
}

/* Some writers put JPEG's mark before it. */
static unsigned read_exif(const uint8_t *data, size_t bytes) {
    enum { MARK = 6 };
    const bool marked = bytes >= MARK && memcmp(data, "Exif\0\0", MARK) == 0;
    return marked ? read_tiff(data + MARK, bytes - MARK) : read_tiff(data, bytes);
}

/* ---- containers -------------------------------------------------------------------------------------------------- */

mr_upright mr_still_upright(enum AVCodecID codec, const uint8_t *data, size_t bytes) {
    mr_still_part exif = {0};
    if (!mr_still_begins(codec, data, bytes))
        return (mr_upright){0};
    if (codec == AV_CODEC_ID_TIFF)
        return mr_upright_of_exif(read_tiff(data, bytes));
    if (codec == AV_CODEC_ID_PNG)
        exif = mr_png_find_chunk(data, bytes, "eXIf");
    else if (codec == AV_CODEC_ID_WEBP)
        exif = mr_webp_find_chunk(data, bytes, "EXIF");
    return exif.data ? mr_upright_of_exif(read_exif(exif.data, exif.bytes)) : (mr_upright){0};
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
