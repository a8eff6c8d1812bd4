#include "stages/decode/jpeg/decode_jpeg.h"

#include <string.h>

#include "engine/base/memory.h"
#include "kernels/jpeg/jpeg_rows.h"
#include "millrace/status.h"
#include "stages/decode/jpeg/decode_jpeg_code.h"

enum { SOF0 = 0xc0, SOF1 = 0xc1, DHT = 0xc4, RST0 = 0xd0, SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DQT = 0xdb, DRI = 0xdd,
       APP0 = 0xe0, APP15 = 0xef, COM = 0xfe, FILL = 0xff };
/* MOST_BLOCKS: blocks in an MCU, all components together. GROUPS: MCUs that are read before the transform. */
enum { TABLES = 4, COMPONENTS = 3, MOST_FACTOR = 4, MOST_BLOCKS = 10, BLOCK = 8, GROUPS = 32, MIDDLE = 1024,
       MOST_ROW = GROUPS * MOST_FACTOR * MR_JPEG_FOUR };

typedef struct component {
    int id, across, down; /* sampling factors; 1 and 1 for a single component */
    int table;            /* index of the quantisation table */
    int dc;               /* previous block's value */
} component;

struct mr_jpeg_decoder {
    mr_jpeg_code dc[TABLES], ac[TABLES]; /* from previous pictures unless `has_...` is set */
    bool has_dc[TABLES], has_ac[TABLES], has_steps[TABLES];
    uint16_t mean_steps[TABLES];        /* quantisation step for DC */
    int16_t steps[TABLES][MR_JPEG_LOW]; /* for the other coefficients, as mr_jpeg_rows.fours takes them: 1 for the
                                           mean */
    int width, height;         /* 0: no frame header yet */
    int count;                 /* number of components */
    component components[COMPONENTS];
    int interval;              /* between restart markers, in groups; 0: none */
    mr_jpeg_codes codes[MOST_BLOCKS]; /* for each block in an MCU */
    int period;                /* blocks per MCU */
    const uint8_t *scan, *end; /* data not read yet */
    uint8_t *part;             /* scan data up to the next marker */
    size_t part_room;
    const mr_jpeg_rows *rows;
    mr_jpeg_low blocks[GROUPS * MOST_BLOCKS + MR_JPEG_AT_ONCE]; /* a component's rows, one after another */
    uint8_t samples[2][MOST_ROW + MR_JPEG_AT_ONCE * MR_JPEG_FOUR]; /* such a row's samples */
};

int mr_jpeg_decoder_create(mr_jpeg_decoder **decoder) {
    *decoder = mr_calloc(1, sizeof **decoder);
    if (!*decoder)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    (*decoder)->rows = mr_jpeg_rows_get();
    return MR_OK;
}

void mr_jpeg_decoder_destroy(mr_jpeg_decoder **decoder) {
    if (*decoder)
        mr_free((*decoder)->part);
    mr_free(*decoder);
    *decoder = NULL;
}

/* ---- headers (T.81, annex B) ------------------------------------------------------------------------------------- */

static int big_16(const uint8_t *at) {
    return at[0] << 8 | at[1];
}

static void take_step(mr_jpeg_decoder *decoder, int table, int coefficient, int step) {
    if (coefficient == 0)
        decoder->mean_steps[table] = (uint16_t)step;
    decoder->steps[table][0] = 1;
    if (coefficient == 1 || coefficient == 2 || coefficient == 4)
        decoder->steps[table][coefficient] = (int16_t)step;
}

static bool read_steps(mr_jpeg_decoder *decoder, const uint8_t *at, size_t bytes) {
    enum { STEPS = 64 };
    while (bytes > 0) {
        int wide = at[0] >> 4, table = at[0] & 15;
        size_t length = 1 + STEPS * (1 + (size_t)wide);
        if (wide > 1 || table >= TABLES || bytes < length)
            return false;
        for (int i = 0; i < STEPS; i++) {
            int step = wide ? big_16(at + 1 + 2 * i) : at[1 + i];
            if (step == 0)
                return false;
            take_step(decoder, table, i, step);
        }
        decoder->has_steps[table] = true;
        at += length;
        bytes -= length;
    }
    return true;
}

static bool read_codes(mr_jpeg_decoder *decoder, const uint8_t *at, size_t bytes) {
    while (bytes > 0) {
        size_t length = 1 + MR_JPEG_LENGTHS;
        if (bytes < length || at[0] >> 4 > 1 || (at[0] & 15) >= TABLES)
            return false;
        bool is_ac = at[0] >> 4;
        int table = at[0] & 15;
        for (int i = 1; i <= MR_JPEG_LENGTHS; i++)
            length += at[i];
        if (bytes < length || length == 1 + MR_JPEG_LENGTHS ||
            !mr_jpeg_code_set(is_ac ? &decoder->ac[table] : &decoder->dc[table], at + 1, at + 1 + MR_JPEG_LENGTHS,
                              is_ac))
            return false;
        (is_ac ? decoder->has_ac : decoder->has_dc)[table] = true;
        at += length;
        bytes -= length;
    }
    return true;
}

static bool read_component(mr_jpeg_decoder *decoder, int index, const uint8_t *at) {
    component *read = &decoder->components[index];
    *read = (component){.id = at[0], .across = at[1] >> 4, .down = at[1] & 15, .table = at[2]};
    for (int before = 0; before < index; before++)
        if (decoder->components[before].id == read->id)
            return false;
    return read->across >= 1 && read->across <= MOST_FACTOR && read->down >= 1 && read->down <= MOST_FACTOR &&
           read->table < TABLES;
}

static bool read_frame(mr_jpeg_decoder *decoder, const uint8_t *at, size_t bytes) {
    enum { FIXED = 6, EACH = 3, EIGHT_BITS = 8 };
    if (decoder->width || bytes < FIXED || at[0] != EIGHT_BITS || (at[5] != 1 && at[5] != COMPONENTS) ||
        bytes != FIXED + EACH * (size_t)at[5])
        return false;
    decoder->height = big_16(at + 1);
    decoder->width = big_16(at + 3);
    decoder->count = at[5];
    for (int i = 0; i < decoder->count; i++)
        if (!read_component(decoder, i, at + FIXED + EACH * i))
            return false;
    if (decoder->count == 1)
        decoder->components[0].across = decoder->components[0].down = 1;
    /* The first component is the largest; its factors are multiples of the others'. */
    const component *first = &decoder->components[0];
    for (int i = 1; i < decoder->count; i++)
        if (first->across % decoder->components[i].across || first->down % decoder->components[i].down)
            return false;
    return decoder->width > 0 && decoder->height > 0;
}

/* Reads the single scan: all components in order, with all coefficients. */
static bool read_scan(mr_jpeg_decoder *decoder, const uint8_t *at, size_t bytes) {
    if (!decoder->width || bytes != 4 + 2 * (size_t)decoder->count || at[0] != decoder->count)
        return false;
    decoder->period = 0;
    for (int i = 0; i < decoder->count; i++) {
        const component *of = &decoder->components[i];
        int dc = at[2 + 2 * i] >> 4, ac = at[2 + 2 * i] & 15, blocks = of->across * of->down;
        if (at[1 + 2 * i] != of->id || dc >= TABLES || ac >= TABLES || !decoder->has_dc[dc] || !decoder->has_ac[ac] ||
            !decoder->has_steps[of->table] || decoder->period + blocks > MOST_BLOCKS)
            return false;
        for (int block = 0; block < blocks; block++) {
            int row = decoder->period - block % of->across;
            decoder->codes[decoder->period++] =
                (mr_jpeg_codes){&decoder->dc[dc], &decoder->ac[ac], GROUPS * row + block % of->across, of->across};
        }
    }
    const uint8_t *spectrum = at + 1 + 2 * decoder->count;
    return spectrum[0] == 0 && spectrum[1] == 63 && spectrum[2] == 0;
}

static bool begins(const uint8_t *at, size_t bytes, const char *text) {
    size_t length = strlen(text);
    return bytes >= length && memcmp(at, text, length) == 0;
}

/* Programs that libavcodec recognises by their notes, and whose pictures it decodes differently. */
static bool is_peculiar(const uint8_t *at, size_t bytes) {
    static const char *const notes[] = {"AVI1", "LJIF", "_JPS", "AVID", "CS=ITU601", "Intel(R) JPEG Library",
                                        "Metasoft MJPEG Codec", "MULTISCOPE II"};
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (begins(at, bytes, notes[i]))
            return true;
    return false;
}

static bool read_segment(mr_jpeg_decoder *decoder, int marker, const uint8_t *at, size_t bytes) {
    enum { LEAST_APP = 4 };
    if (marker >= APP0 && marker <= APP15)
        return bytes >= LEAST_APP && !is_peculiar(at, bytes);
    switch (marker) {
    case SOF0:
    case SOF1:
        return read_frame(decoder, at, bytes);
    case DHT:
        return read_codes(decoder, at, bytes);
    case DQT:
        return read_steps(decoder, at, bytes);
    case DRI:
        decoder->interval = bytes == 2 ? big_16(at) : 0;
        return bytes == 2;
    case SOS:
        return read_scan(decoder, at, bytes);
    default:
        return marker == COM && !is_peculiar(at, bytes);
    }
}

static void forget(mr_jpeg_decoder *decoder) {
    memset(decoder->has_dc, 0, sizeof decoder->has_dc);
    memset(decoder->has_ac, 0, sizeof decoder->has_ac);
    memset(decoder->has_steps, 0, sizeof decoder->has_steps);
    decoder->width = decoder->height = decoder->interval = 0;
}

size_t mr_jpeg_open(mr_jpeg_decoder *decoder, const uint8_t *data, size_t bytes) {
    forget(decoder);
    if (bytes < 2 || data[0] != 0xff || data[1] != SOI)
        return 0;
    for (size_t at = 2; bytes - at >= 4 && data[at] == 0xff;) {
        int marker = data[at + 1];
        if (marker == FILL) {
            at++;
            continue;
        }
        size_t length = (size_t)big_16(data + at + 2);
        if (length < 2 || length > bytes - at - 2 || !read_segment(decoder, marker, data + at + 4, length - 2))
            return 0;
        decoder->scan = data + at + 2 + length;
        decoder->end = data + bytes;
        if (marker == SOS)
            return at;
        at += 2 + length;
    }
    return 0;
}

static int divided_up(int number, int by) {
    return (number + by - 1) / by;
}

int mr_jpeg_planes(const mr_jpeg_decoder *decoder, int scale, mr_jpeg_plane planes[3]) {
    int width = divided_up(decoder->width, 1 << scale), height = divided_up(decoder->height, 1 << scale);
    const component *first = &decoder->components[0];
    for (int i = 0; i < decoder->count; i++) {
        const component *of = &decoder->components[i];
        planes[i] = (mr_jpeg_plane){.width = divided_up(width, first->across / of->across),
                                    .height = divided_up(height, first->down / of->down)};
    }
    return decoder->count;
}

/* ---- the scan ---------------------------------------------------------------------------------------------------- */

/* Copies scan data up to the next marker and removes the zero after each byte 255. Returns the marker; 0: none. */
static int take_part(mr_jpeg_decoder *decoder, size_t *bytes) {
    uint8_t *to = decoder->part;
    for (;;) {
        const uint8_t *mark = memchr(decoder->scan, 0xff, (size_t)(decoder->end - decoder->scan));
        if (!mark || mark + 1 == decoder->end)
            return 0;
        size_t plain = (size_t)(mark - decoder->scan);
        memcpy(to, decoder->scan, plain);
        to += plain;
        decoder->scan = mark + 2;
        if (mark[1]) {
            *bytes = (size_t)(to - decoder->part);
            memset(to, 0, MR_JPEG_PADDING);
            return mark[1];
        }
        *to++ = 0xff;
    }
}

/* Whether all bytes were read. Unused bits in the last byte must be 1. */
static bool is_read(const mr_jpeg_bits *bits) {
    int64_t left = mr_jpeg_bits_left(bits);
    return left >= 0 && left < 8 && (bits->end[-1] & ((1 << left) - 1)) == (1 << left) - 1;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

static inline int clip_16(int value) {
    return value < INT16_MIN ? INT16_MIN : value > INT16_MAX ? INT16_MAX : value;
}

/* Turns a component's DC differences into means, in reading order. */
static void sum_means(component *of, mr_jpeg_low *blocks, int groups, int step) {
    int mean = of->dc;
    for (int group = 0; group < groups; group++)
        for (int down = 0; down < of->down; down++) {
            mr_jpeg_low *block = blocks + GROUPS * of->across * down + of->across * group;
            for (int across = 0; across < of->across; across++) {
                mean = clip_16(mean + block[across].at[0] * step);
                block[across].at[0] = (int16_t)mean;
            }
        }
    of->dc = mean;
}

/* One sample per block. */
static void put_ones(uint8_t *to, const mr_jpeg_low *blocks, int count) {
    for (int i = 0; i < count; i++) {
        int sample = (blocks[i].at[0] + 4) >> 3;
        to[i] = (uint8_t)(sample < 0 ? 0 : sample > 255 ? 255 : sample);
    }
}

/* Copies `count` samples, cut at the plane's edge. */
static void copy_row(const mr_jpeg_plane *plane, int x, int y, const uint8_t *from, int count) {
    if (x < plane->width && y < plane->height)
        memcpy(plane->data + y * plane->stride + x, from, (size_t)least(count, plane->width - x));
}

/* Writes `count` blocks from one component, starting at (x, y). */
static void put_row(mr_jpeg_decoder *decoder, const component *of, const mr_jpeg_plane *plane, int x, int y,
                    const mr_jpeg_low *blocks, int count, int scale) {
    uint8_t *const rows[2] = {decoder->samples[0], decoder->samples[1]};
    if (scale == 3) {
        put_ones(rows[0], blocks, count);
        copy_row(plane, x, y, rows[0], count);
        return;
    }
    decoder->rows->fours(rows, blocks->at, count, decoder->steps[of->table]);
    for (int i = 0; i < 2; i++)
        copy_row(plane, 2 * x, 2 * y + i, rows[i], MR_JPEG_FOUR * count);
}

/* Writes `count` MCUs, starting there. */
static void put_groups(mr_jpeg_decoder *decoder, const mr_jpeg_plane *planes, int x, int y, int count, int scale) {
    mr_jpeg_low *blocks = decoder->blocks;
    for (int i = 0; i < decoder->count; i++) {
        component *of = &decoder->components[i];
        sum_means(of, blocks, count, decoder->mean_steps[of->table]);
        for (int down = 0; down < of->down; down++, blocks += GROUPS * of->across)
            put_row(decoder, of, &planes[i], x * of->across, y * of->down + down, blocks, count * of->across, scale);
    }
}

/* Decodes `count` MCUs from number `from`; a row has `columns`. */
static bool decode_part(mr_jpeg_decoder *decoder, mr_jpeg_bits *bits, const mr_jpeg_plane *planes, int from, int count,
                        int columns, int scale) {
    for (int i = 0; i < decoder->count; i++)
        decoder->components[i].dc = MIDDLE;
    for (int end = from + count; from < end;) {
        int x = from % columns, now = least(GROUPS, least(columns - x, end - from));
        if (!mr_jpeg_read_blocks(bits, decoder->codes, decoder->period, now, decoder->blocks, scale == 2))
            return false;
        put_groups(decoder, planes, x, from / columns, now, scale);
        from += now;
    }
    return true;
}

static bool make_room(mr_jpeg_decoder *decoder) {
    size_t room = (size_t)(decoder->end - decoder->scan) + MR_JPEG_PADDING;
    if (room <= decoder->part_room)
        return true;
    mr_free(decoder->part);
    decoder->part = mr_calloc(1, room);
    decoder->part_room = decoder->part ? room : 0;
    return decoder->part;
}

bool mr_jpeg_decode(mr_jpeg_decoder *decoder, int scale, const mr_jpeg_plane planes[3]) {
    const component *first = &decoder->components[0];
    int columns = divided_up(decoder->width, BLOCK * first->across);
    int rows = divided_up(decoder->height, BLOCK * first->down);
    int total = columns * rows, interval = decoder->interval ? decoder->interval : total;
    if (!make_room(decoder))
        return false;
    for (int from = 0, part = 0; from < total; from += interval, part++) {
        int count = least(interval, total - from);
        size_t bytes = 0;
        int marker = take_part(decoder, &bytes), expected = from + count < total ? RST0 + part % 8 : EOI;
        mr_jpeg_bits bits = mr_jpeg_bits_of(decoder->part, bytes);
        if (marker != expected || bytes == 0 || !decode_part(decoder, &bits, planes, from, count, columns, scale) ||
            !is_read(&bits))
            return false;
    }
    return true;
}
