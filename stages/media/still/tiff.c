#include "stages/media/still/tiff.h"

#include <stdio.h>
#include <string.h>

/* ---- directories: one a picture ---------------------------------------------------------------------------------- */

enum { HEADER = 8, ENTRY = 12, ORIENTATION = 274 };

typedef struct directory {
    const uint8_t *data;
    size_t bytes, at, entries; /* file size; where the entries begin, and how many there are */
    bool big;
} directory;

/* An unsigned number with `bytes` bytes. */
static uint32_t number_at(const uint8_t *data, int bytes, bool big) {
    uint32_t number = 0;
    for (int i = 0; i < bytes; i++)
        number |= (uint32_t)data[i] << 8 * (big ? bytes - 1 - i : i);
    return number;
}

/* Opens the directory at an offset; its entries cannot exceed the file. */
static bool open_at(directory *to, size_t at) {
    if (at < HEADER || at > to->bytes - 2)
        return false;
    const size_t room = (to->bytes - at - 2) / ENTRY, entries = number_at(to->data + at, 2, to->big);
    to->at = at + 2;
    to->entries = entries < room ? entries : room;
    return true;
}

static bool open_first(directory *to, const uint8_t *data, size_t bytes) {
    if (bytes < HEADER || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0))
        return false;
    *to = (directory){.data = data, .bytes = bytes, .big = data[0] == 'M'};
    return open_at(to, number_at(data + 4, 4, to->big));
}

/* An entry's first value (2: tag, 2: type, 4: count, 4: value, or where the values are), if it is an unsigned number
 * with one to four bytes. */
static uint32_t value_of(const directory *from, const uint8_t *entry, uint32_t none) {
    static const uint8_t sizes[] = {0, 1, 0, 2, 4}; /* BYTE, SHORT, LONG */
    const uint32_t type = number_at(entry + 2, 2, from->big), count = number_at(entry + 4, 4, from->big);
    const uint32_t size = type < sizeof sizes ? sizes[type] : 0, place = number_at(entry + 8, 4, from->big);
    if (!size || !count)
        return none;
    if (count <= 4 / size)
        return number_at(entry + 8, (int)size, from->big);
    return from->bytes < size || place > from->bytes - size ? none
                                                             : number_at(from->data + place, (int)size, from->big);
}

static const uint8_t *find(const directory *from, uint32_t tag) {
    const uint8_t *entry = from->data + from->at;
    for (size_t i = 0; i < from->entries; i++, entry += ENTRY)
        if (number_at(entry, 2, from->big) == tag)
            return entry;
    return NULL;
}

static uint32_t read_tag(const directory *from, uint32_t tag, uint32_t none) {
    const uint8_t *entry = find(from, tag);
    return entry ? value_of(from, entry, none) : none;
}

unsigned mr_tiff_orientation(const uint8_t *data, size_t bytes) {
    directory first;
    return open_first(&first, data, bytes) ? read_tag(&first, ORIENTATION, 0) : 0;
}

size_t mr_tiff_pictures(const uint8_t *data, size_t bytes) {
    enum { ENOUGH = 10000 };
    directory page;
    if (!open_first(&page, data, bytes))
        return 1;
    for (size_t count = 1; count < ENOUGH; count++) {
        const size_t end = page.at + page.entries * ENTRY;
        if (bytes - end < 4 || !open_at(&page, number_at(data + end, 4, page.big)))
            return count;
    }
    return ENOUGH;
}

/* ---- kinds that are not decoded ---------------------------------------------------------------------------------- */

/* libavcodec claims to know JPEG, but decodes it only in DNG. "": supported. */
static const char *name_compression(uint32_t compression) {
    static const struct {
        uint32_t number;
        const char *name;
    } known[] = {{1, ""}, {2, ""}, {3, ""}, {4, ""}, {5, ""}, {8, ""}, {32773, ""}, {32946, ""}, {34925, ""},
                 {6, "JPEG"}, {7, "JPEG"}, {34712, "JPEG 2000"}, {34887, "LERC"}, {50000, "Zstandard"},
                 {50001, "WebP"}, {50002, "JPEG XL"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == compression)
            return known[i].name;
    return "an unknown method";
}

static void describe(const directory *of, char *text, size_t room) {
    enum { BITS = 258, COMPRESSION = 259, COLOURS = 262, SAMPLES = 277, TILE_WIDTH = 322, SAMPLE_KIND = 339 };
    enum { CMYK = 5, YCBCR = 6, SIGNED = 2, FLOATING = 3 };
    const char *compression = name_compression(read_tag(of, COMPRESSION, 1));
    const uint32_t bits = read_tag(of, BITS, 1), samples = read_tag(of, SAMPLES, 1);
    const uint32_t kind = read_tag(of, SAMPLE_KIND, 1), colours = read_tag(of, COLOURS, 1);
    text[0] = '\0';
    if (*compression)
        snprintf(text, room, "with %s compression", compression);
    else if (find(of, TILE_WIDTH))
        snprintf(text, room, "in tiles");
    else if (kind == SIGNED || kind == FLOATING)
        snprintf(text, room, "of %s samples", kind == SIGNED ? "signed" : "floating-point");
    else if (bits > 16 || (colours == CMYK && bits != 8))
        snprintf(text, room, "of %s%u-bit samples", colours == CMYK ? "CMYK in " : "", bits);
    else if (samples > 4)
        snprintf(text, room, "of %u samples a pixel", samples);
    else if (colours > YCBCR)
        snprintf(text, room, "of colours of kind %u", colours);
}

bool mr_tiff_trouble(const uint8_t *data, size_t bytes, char *text, size_t room) {
    enum { DNG_VERSION = 50706 };
    char what[64] = "";
    directory first;
    const bool large = bytes >= 4 && (memcmp(data, "II+\0", 4) == 0 || memcmp(data, "MM\0+", 4) == 0);
    if (open_first(&first, data, bytes) && !find(&first, DNG_VERSION))
        describe(&first, what, sizeof what);
    if (!large && !*what)
        return false;
    snprintf(text, room, "is a %s%s%s, which is not supported: make a PNG of it, or a TIFF in strips with LZW",
             large ? "BigTIFF" : "TIFF", *what ? " " : "", what);
    return true;
}
