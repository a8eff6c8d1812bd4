#include "stages/media/still/heif.h"

#include <string.h>

/* ---- boxes (ISO/IEC 14496-12, 4.2) ------------------------------------------------------------------------------- */

/* Bytes being read from the front. If too few are left, `broken` is set and everything read is 0. */
typedef struct span {
    const uint8_t *at, *end;
    bool broken;
} span;

static size_t left(const span *from) {
    return (size_t)(from->end - from->at);
}

/* An unsigned number with `bytes` bytes, at most 8. */
static uint64_t take(span *from, int bytes) {
    uint64_t number = 0;
    if (left(from) < (size_t)bytes) {
        from->broken = true;
        from->at = from->end;
        return 0;
    }
    for (int i = 0; i < bytes; i++)
        number = number << 8 | *from->at++;
    return number;
}

typedef struct box {
    char type[5];
    span body;
} box;

/* Reads the next box, which may be truncated; false: there is none. Size 0 means the last box, 1 means that a 64-bit
 * size follows the name. */
static bool next_box(span *from, box *next) {
    enum { HEAD = 8 };
    const uint8_t *begin = from->at;
    const size_t all = left(from);
    if (all < HEAD)
        return false;
    uint64_t size = take(from, 4);
    memcpy(next->type, from->at, 4);
    next->type[4] = '\0';
    from->at += 4;
    if (size == 1)
        size = take(from, 8);
    else if (size == 0)
        size = all;
    if (from->broken || size < (uint64_t)(from->at - begin))
        return false;
    const uint8_t *end = size < all ? begin + size : from->end;
    next->body = (span){from->at, end, false};
    from->at = end;
    return true;
}

static bool is_type(const char *type, const char *name) {
    return memcmp(type, name, 4) == 0;
}

/* Finds the first box with this type. */
static bool find_box(span from, const char *type, box *found) {
    while (next_box(&from, found))
        if (is_type(found->type, type))
            return true;
    return false;
}

/* Takes a full box's version and flags. */
static unsigned take_version(span *body, unsigned *flags) {
    const uint64_t both = take(body, 4);
    if (flags)
        *flags = (unsigned)both & 0xffffff;
    return (unsigned)(both >> 24);
}

/* ---- the file type ----------------------------------------------------------------------------------------------- */

static bool is_one_of(const uint8_t *brand, const char *brands) {
    for (; *brands; brands += 4)
        if (memcmp(brand, brands, 4) == 0)
            return true;
    return false;
}

/* Video files can have a `meta` box too, but not these brands. */
static bool read_brands(span file, mr_heif *heif) {
    static const char stills[] = "mif1mif2heicheixheimheisavifmiafjpeg", sequences[] = "msf1hevchevxavis";
    box type;
    if (!next_box(&file, &type) || !is_type(type.type, "ftyp") || left(&type.body) < 8)
        return false;
    heif->animated = is_one_of(type.body.at, sequences);
    bool still = heif->animated || is_one_of(type.body.at, stills);
    for (type.body.at += 8; left(&type.body) >= 4; type.body.at += 4)
        still |= is_one_of(type.body.at, stills);
    return still;
}

/* ---- items ------------------------------------------------------------------------------------------------------- */

static uint32_t read_primary(span meta) {
    box found;
    if (!find_box(meta, "pitm", &found))
        return 0;
    return (uint32_t)take(&found.body, take_version(&found.body, NULL) == 0 ? 2 : 4);
}

static void read_type(span meta, uint32_t item, char type[5]) {
    box list, entry;
    if (!find_box(meta, "iinf", &list))
        return;
    take(&list.body, take_version(&list.body, NULL) == 0 ? 2 : 4);
    while (next_box(&list.body, &entry)) {
        const unsigned version = take_version(&entry.body, NULL);
        const uint64_t id = take(&entry.body, version == 2 ? 2 : 4);
        take(&entry.body, 2); /* protection */
        if (version < 2 || id != item || left(&entry.body) < 4)
            continue;
        memcpy(type, entry.body.at, 4);
        type[4] = '\0';
    }
}

/* The first item that `item` consists of; 0: none. */
static uint32_t read_tile(span meta, uint32_t item) {
    box list, entry;
    if (!find_box(meta, "iref", &list))
        return 0;
    const int bytes = take_version(&list.body, NULL) == 0 ? 2 : 4;
    while (next_box(&list.body, &entry))
        if (is_type(entry.type, "dimg") && take(&entry.body, bytes) == item && take(&entry.body, 2) > 0)
            return (uint32_t)take(&entry.body, bytes);
    return 0;
}

/* The next item with more about `item`, from reference number `at` on; 0: none. */
static uint32_t read_auxiliary(span meta, uint32_t item, uint32_t *at) {
    box list, entry;
    if (!find_box(meta, "iref", &list))
        return 0;
    const int bytes = take_version(&list.body, NULL) == 0 ? 2 : 4;
    for (uint32_t number = 0; next_box(&list.body, &entry); number++) {
        const uint32_t from = (uint32_t)take(&entry.body, bytes);
        bool is_about = false;
        if (number < *at || !is_type(entry.type, "auxl"))
            continue;
        for (uint64_t count = take(&entry.body, 2); count > 0 && !entry.body.broken; count--)
            is_about |= take(&entry.body, bytes) == item;
        *at = number + 1;
        if (is_about)
            return from;
    }
    return 0;
}

/* Number sizes in a location list (8.11.3). */
typedef struct place_sizes {
    unsigned version;
    int offset, length, base, index;
} place_sizes;

static place_sizes read_sizes(span *list) {
    place_sizes sizes = {.version = take_version(list, NULL)};
    const int both = (int)take(list, 2);
    sizes.offset = both >> 12;
    sizes.length = both >> 8 & 15;
    sizes.base = both >> 4 & 15;
    sizes.index = sizes.version > 0 ? both & 15 : 0;
    list->broken |= sizes.offset > 8 || sizes.length > 8 || sizes.base > 8 || sizes.index > 8;
    return sizes;
}

/* An item's bytes, if they are in one complete piece: in the file, or in the box `idat`. */
static span read_piece(const span *places, const place_sizes *sizes, unsigned method, uint64_t base, span file,
                       span meta) {
    span list = *places, none = {0};
    box stored;
    take(&list, sizes->index);
    const uint64_t offset = take(&list, sizes->offset), length = take(&list, sizes->length);
    if (method == 1 && !find_box(meta, "idat", &stored))
        return none;
    const span in = method == 1 ? stored.body : file;
    if (method > 1 || list.broken || offset > left(&in) || base > left(&in) - offset)
        return none;
    const uint64_t rest = left(&in) - offset - base;
    const uint64_t bytes = length ? length : rest;
    if (bytes > rest)
        return none;
    const uint8_t *at = in.at + offset + base;
    return (span){at, at + bytes, false};
}

static span find_data(span file, span meta, uint32_t item, bool *one_piece) {
    box found;
    if (!find_box(meta, "iloc", &found))
        return (span){0};
    span *list = &found.body;
    const place_sizes sizes = read_sizes(list);
    uint64_t items = take(list, sizes.version < 2 ? 2 : 4);
    for (; items > 0 && !list->broken; items--) {
        const uint64_t id = take(list, sizes.version < 2 ? 2 : 4);
        const unsigned method = sizes.version > 0 ? (unsigned)take(list, 2) & 15 : 0;
        const unsigned other_file = (unsigned)take(list, 2);
        const uint64_t base = take(list, sizes.base), pieces = take(list, 2);
        if (id == item) {
            *one_piece = pieces == 1 && !other_file;
            return *one_piece ? read_piece(list, &sizes, method, base, file, meta) : (span){0};
        }
        for (uint64_t i = 0; i < pieces && !list->broken; i++)
            take(list, sizes.index), take(list, sizes.offset), take(list, sizes.length);
    }
    return (span){0};
}

/* ---- properties of items (ISO/IEC 23008-12, 6.5 and 9.3) --------------------------------------------------------- */

/* Quarter turns are anticlockwise. Axis 0 swaps top and bottom, axis 1 left and right. */
static void read_transform(const box *property, mr_heif *heif) {
    if (left(&property->body) < 1)
        return;
    const int value = property->body.at[0];
    mr_upright then = {0};
    if (is_type(property->type, "irot"))
        then.rotation = (int16_t)((4 - (value & 3)) % 4 * 90);
    else
        then = (mr_upright){value & 1 ? 0 : 180, true};
    heif->upright = mr_upright_then(heif->upright, then);
}

/* Reads a decoder configuration record: hvcC (ISO/IEC 14496-15, 8.3.2.1) or av1C (AV1 in ISOBMFF, 2.3.3). */
static void read_coding(const box *property, mr_heif *heif) {
    const uint8_t *record = property->body.at;
    if (is_type(property->type, "hvcC") && left(&property->body) > 17) {
        const int chroma = record[16] & 3;
        heif->gray = chroma == 0;
        heif->chroma_w = chroma == 1 || chroma == 2;
        heif->chroma_h = chroma == 1;
        heif->depth = 8 + (record[17] & 7);
    } else if (is_type(property->type, "av1C") && left(&property->body) > 2) {
        heif->avif = true;
        heif->gray = record[2] >> 4 & 1;
        heif->chroma_w = record[2] >> 3 & 1;
        heif->chroma_h = record[2] >> 2 & 1;
        heif->depth = record[2] & 0x40 ? record[2] & 0x20 ? 12 : 10 : 8;
    }
}

/* What belongs to an auxiliary item with alpha (ISO/IEC 23008-12, 6.5.8; MIAF, 7.3.5.2). */
static bool is_alpha(const box *property) {
    static const char *const names[] = {"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", "urn:mpeg:hevc:2015:auxid:1"};
    span body = property->body;
    if (!is_type(property->type, "auxC"))
        return false;
    take_version(&body, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (left(&body) > strlen(names[i]) && memcmp(body.at, names[i], strlen(names[i]) + 1) == 0)
            return true;
    return false;
}

/* The picture, the first item that it is made of, or one with more about it. */
typedef enum item_role { PICTURE, TILE, AUXILIARY } item_role;

static void read_property(const box *property, item_role role, mr_heif *heif, bool *cropped) {
    span body = property->body;
    if (role == AUXILIARY)
        heif->alpha |= is_alpha(property);
    else
        read_coding(property, heif);
    if (role != PICTURE)
        return;
    if (is_type(property->type, "irot") || is_type(property->type, "imir"))
        read_transform(property, heif);
    *cropped |= is_type(property->type, "clap");
    if (!is_type(property->type, "ispe"))
        return;
    take(&body, 4);
    const uint64_t width = take(&body, 4), height = take(&body, 4);
    if (!body.broken && width <= INT32_MAX && height <= INT32_MAX) {
        heif->width = (int32_t)width;
        heif->height = (int32_t)height;
    }
}

static bool nth_box(span from, unsigned index, box *found) {
    bool is_there = index > 0;
    while (is_there && index-- > 0)
        is_there = next_box(&from, found);
    return is_there;
}

/* Reads an item's properties in order. */
static void read_properties(span meta, uint32_t item, item_role role, mr_heif *heif, bool *cropped) {
    box properties, store, list, one;
    unsigned flags;
    if (!find_box(meta, "iprp", &properties) || !find_box(properties.body, "ipco", &store) ||
        !find_box(properties.body, "ipma", &list))
        return;
    const unsigned version = take_version(&list.body, &flags);
    const int wide = flags & 1 ? 2 : 1;
    for (uint64_t items = take(&list.body, 4); items > 0 && !list.body.broken; items--) {
        const uint64_t id = take(&list.body, version < 1 ? 2 : 4);
        for (uint64_t count = take(&list.body, 1); count > 0 && !list.body.broken; count--) {
            const unsigned index = (unsigned)take(&list.body, wide) & (wide == 2 ? 0x7fff : 0x7f);
            if (id == item && nth_box(store.body, index, &one))
                read_property(&one, role, heif, cropped);
        }
    }
}

/* Looks at a few items: a file can name millions. */
static void find_alpha(span meta, uint32_t item, mr_heif *heif) {
    enum { MOST = 16 };
    uint32_t at = 0, other = 1;
    bool cropped = false;
    for (int i = 0; i < MOST && other && !heif->alpha; i++)
        if ((other = read_auxiliary(meta, item, &at)))
            read_properties(meta, other, AUXILIARY, heif, &cropped);
}

static void swap_sides(mr_heif *heif) {
    const int32_t width = heif->width;
    heif->width = heif->height;
    heif->height = width;
}

bool mr_heif_read(const uint8_t *data, size_t bytes, mr_heif *heif) {
    const span file = {data, data + bytes, false};
    bool cropped = false;
    box meta;
    *heif = (mr_heif){0};
    if (!read_brands(file, heif))
        return false;
    if (!find_box(file, "meta", &meta)) {
        heif->parts = true;
        return true;
    }
    take_version(&meta.body, NULL);
    const uint32_t item = read_primary(meta.body);
    read_type(meta.body, item, heif->type);
    read_properties(meta.body, item, PICTURE, heif, &cropped);
    if (!heif->depth)
        read_properties(meta.body, read_tile(meta.body, item), TILE, heif, &cropped);
    find_alpha(meta.body, item, heif);
    if (heif->upright.rotation % 180)
        swap_sides(heif);
    bool one_piece = false;
    const span found = find_data(file, meta.body, item, &one_piece);
    heif->parts = cropped || !one_piece || !is_type(heif->type, "av01");
    if (heif->parts)
        return true;
    heif->data = found.at;
    heif->bytes = left(&found);
    return true;
}
