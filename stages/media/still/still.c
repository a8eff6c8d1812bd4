#include "stages/media/still/still.h"

#include <string.h>

#include "stages/media/still/tiff.h"

static uint32_t big_32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t little_32(const uint8_t *at) {
    return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

/* ---- JPEG (ISO/IEC 10918-1, annex B) --------------------------------------------------------------------------- */

enum { JPEG_SOI = 0xd8, JPEG_EOI = 0xd9, JPEG_TEM = 0x01, JPEG_RST0 = 0xd0, JPEG_RST7 = 0xd7,
       JPEG_DHT = 0xc4, JPEG_DQT = 0xdb, JPEG_SOS = 0xda };

/* The next marker code's position at or after `at`, skipping stuffed zeros and restart markers; 0: none. */
static size_t next_marker(const uint8_t *data, size_t bytes, size_t at) {
    while (at < bytes) {
        const uint8_t *found = memchr(data + at, 0xff, bytes - at);
        if (!found)
            return 0;
        at = (size_t)(found - data) + 1;
        if (at < bytes && data[at] != 0 && data[at] != 0xff && (data[at] < JPEG_RST0 || data[at] > JPEG_RST7))
            return at;
    }
    return 0;
}

/* Goes through the markers after *at, which moves past each marker's segment, or past the marker if that is `last`.
 * Returns the next marker; 0: none. */
static uint8_t pass_marker(const uint8_t *data, size_t bytes, size_t *at, uint8_t last) {
    *at = next_marker(data, bytes, *at);
    const uint8_t marker = *at ? data[(*at)++] : 0;
    if (!marker || marker == last || marker == JPEG_SOI || marker == JPEG_TEM)
        return marker;
    if (bytes - *at < 2)
        return 0;
    *at += (size_t)data[*at] << 8 | data[*at + 1];
    return marker;
}

static size_t end_of_jpeg(const uint8_t *data, size_t bytes) {
    size_t at = 2;
    for (uint8_t marker; (marker = pass_marker(data, bytes, &at, JPEG_EOI));)
        if (marker == JPEG_EOI)
            return at;
    return 0;
}

bool mr_still_lacks_tables(enum AVCodecID codec, const uint8_t *data, size_t bytes) {
    bool codes = false, steps = false;
    size_t at = 2;
    for (uint8_t marker; codec == AV_CODEC_ID_MJPEG && (marker = pass_marker(data, bytes, &at, JPEG_SOS));) {
        if (marker == JPEG_SOS)
            return !codes || !steps;
        codes |= marker == JPEG_DHT;
        steps |= marker == JPEG_DQT;
    }
    return false;
}

/* ---- PNG (ISO/IEC 15948): chunks are a length, a name, the data and four bytes of checksum ---------------------- */

enum { PNG_SIGNATURE = 8, PNG_AROUND = 12 };

/* Finds the chunk with that name at or after *at, and moves *at to it; false: none. */
static bool find_chunk(const uint8_t *data, size_t bytes, const char *name, size_t *at) {
    while (*at + PNG_AROUND <= bytes) {
        if (memcmp(data + *at + 4, name, 4) == 0)
            return true;
        size_t length = big_32(data + *at);
        if (length > bytes - *at - PNG_AROUND)
            return false;
        *at += length + PNG_AROUND;
    }
    return false;
}

mr_still_part mr_png_find_chunk(const uint8_t *data, size_t bytes, const char *name) {
    size_t at = PNG_SIGNATURE;
    if (!find_chunk(data, bytes, name, &at) || big_32(data + at) > bytes - at - PNG_AROUND)
        return (mr_still_part){0};
    return (mr_still_part){data + at + 8, big_32(data + at)};
}

mr_still_part mr_png_find_text(const uint8_t *data, size_t bytes, const char *keyword) {
    const size_t length = strlen(keyword) + 1;
    for (size_t at = PNG_SIGNATURE; find_chunk(data, bytes, "iTXt", &at); at += big_32(data + at) + PNG_AROUND) {
        const size_t size = big_32(data + at);
        if (size > bytes - at - PNG_AROUND)
            break;
        if (size >= length && memcmp(data + at + 8, keyword, length) == 0)
            return (mr_still_part){data + at + 8 + length, size - length};
    }
    return (mr_still_part){0};
}

/* `exif`: the orientation text was found; a short one is kept once. */
static bool is_spare(const uint8_t *chunk, bool *exif) {
    enum { MOST = 16384 };
    static const char name[] = "Raw profile type exif";
    const uint32_t bytes = big_32(chunk);
    const bool text = memcmp(chunk + 4, "tEXt", 4) == 0, profile = memcmp(chunk + 4, "iCCP", 4) == 0;
    if (memcmp(chunk + 4, "zTXt", 4) != 0)
        return (text || profile) && bytes > MOST;
    const bool keeps = !*exif && bytes > sizeof name && bytes <= MOST && memcmp(chunk + 8, name, sizeof name) == 0;
    *exif |= keeps;
    return !keeps;
}

size_t mr_png_strip(const uint8_t *data, size_t bytes, uint8_t *to) {
    size_t kept = 0, length;
    bool exif = false;
    for (size_t at = 0; at < bytes; at += length) {
        const bool chunk = at && bytes - at >= PNG_AROUND && big_32(data + at) <= bytes - at - PNG_AROUND;
        length = chunk ? big_32(data + at) + PNG_AROUND : at || bytes < PNG_SIGNATURE ? bytes - at : PNG_SIGNATURE;
        if (chunk && is_spare(data + at, &exif))
            continue;
        if (to)
            memcpy(to + kept, data + at, length);
        kept += length;
    }
    return kept;
}

void mr_png_shorten(uint8_t *data, size_t bytes) {
    for (size_t at = PNG_SIGNATURE; find_chunk(data, bytes, "IDAT", &at);) {
        const size_t length = big_32(data + at), room = bytes - at - PNG_AROUND;
        for (int i = 0; length > room && i < 4; i++)
            data[at + (size_t)i] = (uint8_t)(room >> (24 - 8 * i));
        if (length > room)
            return;
        at += length + PNG_AROUND;
    }
}

static size_t end_of_png(const uint8_t *data, size_t bytes) {
    size_t at = PNG_SIGNATURE;
    return find_chunk(data, bytes, "IEND", &at) ? at + PNG_AROUND : 0;
}

/* An animated PNG has its picture count in the chunk acTL, before the pixels. */
static size_t pictures_in_png(const uint8_t *data, size_t bytes) {
    size_t at = PNG_SIGNATURE, pixels = PNG_SIGNATURE;
    bool animated = find_chunk(data, bytes, "acTL", &at) && at + PNG_AROUND + 8 <= bytes &&
                    find_chunk(data, bytes, "IDAT", &pixels) && at < pixels;
    return animated ? big_32(data + at + 8) : 1;
}

/* ---- GIF 89a ---------------------------------------------------------------------------------------------------- */

static size_t color_table(uint8_t flags) {
    return flags & 0x80 ? (size_t)3 << ((flags & 7) + 1) : 0;
}

/* Skips a sub-block chain: each block has a length and that many bytes, and length 0 ends it. 0: truncated. */
static size_t skip_blocks(const uint8_t *data, size_t bytes, size_t at) {
    while (at < bytes && data[at])
        at += (size_t)data[at] + 1;
    return at < bytes ? at + 1 : 0;
}

static size_t walk_gif(const uint8_t *data, size_t bytes, size_t *pictures) {
    size_t at = bytes > 13 ? 13 + color_table(data[10]) : bytes;
    *pictures = 0;
    while (at && at < bytes) {
        uint8_t block = data[at];
        if (block == ';')
            return at + 1;
        if (block == '!') {
            at = skip_blocks(data, bytes, at + 2);
        } else if (block == ',' && bytes - at > 10) {
            ++*pictures;
            at = skip_blocks(data, bytes, at + 11 + color_table(data[at + 9]));
        } else {
            return 0;
        }
    }
    return 0;
}

/* ---- formats that have their length in the header ---------------------------------------------------------------- */

/* Some writers set the size to 0, or to the header's size. */
static size_t end_of_bmp(const uint8_t *data, size_t bytes) {
    size_t size = bytes >= 14 ? little_32(data + 2) : 0, pixels = bytes >= 14 ? little_32(data + 10) : 0;
    return size > pixels && size <= bytes ? size : 0;
}

static size_t end_of_webp(const uint8_t *data, size_t bytes) {
    if (bytes < 12 || memcmp(data, "RIFF", 4) != 0)
        return 0;
    size_t size = (size_t)little_32(data + 4) + 8;
    size += size & 1;
    return size <= bytes ? size : 0;
}

/* ---- WebP (RFC 9649): a RIFF file, whose chunks are a name, a length and the data, padded to an even length ------ */

mr_still_part mr_webp_find_chunk(const uint8_t *data, size_t bytes, const char *name) {
    enum { RIFF = 12, HEAD = 8 };
    if (bytes < RIFF || memcmp(data, "RIFF", 4) != 0 || memcmp(data + 8, "WEBP", 4) != 0)
        return (mr_still_part){0};
    for (size_t at = RIFF; bytes - at >= HEAD;) {
        const size_t length = little_32(data + at + 4), padded = length + (length & 1);
        if (length > bytes - at - HEAD)
            break;
        if (memcmp(data + at, name, 4) == 0)
            return (mr_still_part){data + at + HEAD, length};
        if (padded > bytes - at - HEAD)
            break;
        at += HEAD + padded;
    }
    return (mr_still_part){0};
}

/* Tests the second flag bit in an extended file. */
bool mr_webp_is_animated(const uint8_t *data, size_t bytes) {
    const mr_still_part extended = mr_webp_find_chunk(data, bytes, "VP8X");
    return extended.bytes > 0 && extended.data[0] & 2;
}

/* ---- Netpbm ------------------------------------------------------------------------------------------------------ */

/* Reads the next number in a Netpbm header, after white space and comments; 0: none. */
static size_t read_number(const uint8_t *data, size_t bytes, size_t *at) {
    size_t number = 0;
    while (*at < bytes && (data[*at] == '#' || data[*at] <= ' '))
        if (data[(*at)++] == '#')
            while (*at < bytes && data[*at] != '\n')
                ++*at;
    while (*at < bytes && data[*at] >= '0' && data[*at] <= '9' && number < 1000000)
        number = number * 10 + data[(*at)++] - '0';
    return number;
}

/* P4, P5 and P6; the text formats (P1 to P3) have no marked end. */
static size_t end_of_netpbm(const uint8_t *data, size_t bytes) {
    if (bytes < 3 || data[0] != 'P' || data[1] < '4' || data[1] > '6')
        return 0;
    size_t at = 2, width = read_number(data, bytes, &at), height = read_number(data, bytes, &at);
    size_t most = data[1] == '4' ? 1 : read_number(data, bytes, &at);
    size_t sample = most > 255 ? 2 : 1, samples = data[1] == '6' ? 3 : 1;
    size_t row = data[1] == '4' ? (width + 7) / 8 : width * sample * samples;
    size_t end = at + 1 + row * height;
    return width && height && most && end <= bytes ? end : 0;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

size_t mr_still_end(enum AVCodecID codec, const uint8_t *data, size_t bytes) {
    size_t pictures;
    if (!mr_still_begins(codec, data, bytes))
        return 0;
    switch (codec) {
    case AV_CODEC_ID_MJPEG:
        return end_of_jpeg(data, bytes);
    case AV_CODEC_ID_PNG:
        return end_of_png(data, bytes);
    case AV_CODEC_ID_GIF:
        return walk_gif(data, bytes, &pictures);
    case AV_CODEC_ID_BMP:
        return end_of_bmp(data, bytes);
    case AV_CODEC_ID_WEBP:
        return end_of_webp(data, bytes);
    case AV_CODEC_ID_PBM:
    case AV_CODEC_ID_PGM:
    case AV_CODEC_ID_PPM:
        return end_of_netpbm(data, bytes);
    default:
        return 0;
    }
}

size_t mr_still_pictures(enum AVCodecID codec, const uint8_t *data, size_t bytes) {
    size_t pictures = 1;
    if (!mr_still_begins(codec, data, bytes))
        return 1;
    if (codec == AV_CODEC_ID_GIF)
        walk_gif(data, bytes, &pictures);
    else if (codec == AV_CODEC_ID_PNG)
        pictures = pictures_in_png(data, bytes);
    else if (codec == AV_CODEC_ID_TIFF)
        pictures = mr_tiff_pictures(data, bytes);
    return pictures > 1 ? pictures : 1;
}

bool mr_still_begins(enum AVCodecID codec, const uint8_t *data, size_t bytes) {
    static const struct {
        enum AVCodecID codec;
        const char *mark;
        size_t bytes;
    } marks[] = {{AV_CODEC_ID_MJPEG, "\xff\xd8\xff", 3}, {AV_CODEC_ID_PNG, "\x89PNG\r\n\x1a\n", PNG_SIGNATURE},
                 {AV_CODEC_ID_GIF, "GIF8", 4},           {AV_CODEC_ID_BMP, "BM", 2},
                 {AV_CODEC_ID_WEBP, "RIFF", 4},          {AV_CODEC_ID_TIFF, "II*\0", 4},
                 {AV_CODEC_ID_TIFF, "MM\0*", 4},         {AV_CODEC_ID_PBM, "P4", 2},
                 {AV_CODEC_ID_PGM, "P5", 2},             {AV_CODEC_ID_PPM, "P6", 2},
                 {AV_CODEC_ID_PPM, "P5", 2},             {AV_CODEC_ID_PPM, "P4", 2}};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (marks[i].codec == codec && bytes >= marks[i].bytes && memcmp(data, marks[i].mark, marks[i].bytes) == 0)
            return true;
    return false;
}
