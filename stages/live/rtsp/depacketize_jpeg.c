/* JPEG over RTP (RFC 2435): each packet has a short header and part of the scan. This writes the omitted file headers:
 * quantisation tables as sent or from quality Q, and the Huffman tables in ITU-T T.81, K.3. */
#include <string.h>

#include "engine/base/memory.h"
#include "stages/live/rtsp/assembly.h"

enum { HEADER_BYTES = 8, TABLE = 64, NO_TABLES = 128, RESTARTS = 64, MOST_TYPE = 127, ALWAYS_NEW = 255 };

typedef struct mr_jpeg_tables {
    uint8_t of[256][2 * TABLE]; /* tables sent earlier, by Q */
    uint8_t bytes[256];         /* 0: none yet */
} mr_jpeg_tables;

/* ITU-T T.81, tables K.1 and K.2, in zigzag order. */
static const uint8_t luma[TABLE] = {
    16, 11, 12, 14, 12, 10, 16, 14, 13, 14, 18, 17, 16, 19, 24, 40, 26, 24, 22, 22, 24, 49,
    35, 37, 29, 40, 58, 51, 61, 60, 57, 51, 56, 55, 64, 72, 92, 78, 64, 68, 87, 69, 55, 56,
    80, 109, 81, 87, 95, 98, 103, 104, 103, 62, 77, 113, 121, 112, 100, 120, 92, 101, 103, 99};
static const uint8_t chroma[TABLE] = {
    17, 18, 18, 24, 21, 24, 47, 26, 26, 47, 99, 66, 56, 66, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99};

/* Tables K.3 to K.6: number of codes per length, then values. K.5 and K.6 omit the 16-bit codes: those are all
 * remaining values in order. */
static const uint8_t dc_luma[] = {0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static const uint8_t dc_chroma[] = {0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0,
                                    0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
static const uint8_t ac_luma[] = {
    0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7d,
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,
    0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0,
    0x24, 0x33, 0x62, 0x72, 0x82};
static const uint8_t ac_chroma[] = {
    0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77,
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,
    0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0,
    0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1};
enum { LENGTHS = 16, AC_CODES = 162 };

typedef struct header {
    size_t offset;      /* where this packet's data goes in the scan */
    int type, q, width, height;
    unsigned restarts;  /* MCUs between restart markers; 0: none */
    const uint8_t *tables; /* tables in this packet */
    size_t tables_bytes;
    const uint8_t *scan;
    size_t scan_bytes;
} header;

static bool read_tables(header *head, const uint8_t **at, size_t *left) {
    if (*left < 4)
        return false;
    const size_t bytes = mr_rtp_16(*at + 2);
    const bool wide = (*at)[1]; /* 16-bit values, which these types do not allow */
    *at += 4;
    *left -= 4;
    /* Cameras may send one table per component: Cb's and Cr's are the same. */
    if (wide || bytes > *left || bytes % TABLE)
        return false;
    head->tables = *at;
    head->tables_bytes = bytes < 2 * TABLE ? bytes : 2 * TABLE;
    *at += bytes;
    *left -= bytes;
    return true;
}

static bool read_header(header *head, const uint8_t *payload, size_t bytes) {
    if (bytes < HEADER_BYTES)
        return false;
    *head = (header){.offset = mr_rtp_32(payload) & 0xffffff, .type = payload[4], .q = payload[5],
                     .width = payload[6] * 8, .height = payload[7] * 8};
    const uint8_t *at = payload + HEADER_BYTES;
    size_t left = bytes - HEADER_BYTES;
    if (head->type >= RESTARTS && head->type <= MOST_TYPE) {
        if (left < 4)
            return false;
        head->restarts = mr_rtp_16(at);
        at += 4;
        left -= 4;
    }
    if (head->q >= NO_TABLES && head->offset == 0 && !read_tables(head, &at, &left))
        return false;
    head->scan = at;
    head->scan_bytes = left;
    return true;
}

/* RFC 2435, 4.2. */
static void scale(uint8_t *to, const uint8_t *base, int q) {
    const int factor = q < 50 ? 5000 / q : 200 - 2 * q;
    for (int i = 0; i < TABLE; i++) {
        const int value = (base[i] * factor + 50) / 100;
        to[i] = (uint8_t)(value < 1 ? 1 : value > 255 ? 255 : value);
    }
}

/* Finds a picture's tables: luma first, then chroma. False: not known. */
static bool find_tables(mr_depacketizer *d, const header *head, uint8_t tables[2 * TABLE]) {
    if (head->q < NO_TABLES) {
        if (head->q < 1 || head->q > 99)
            return false;
        scale(tables, luma, head->q);
        scale(tables + TABLE, chroma, head->q);
        return true;
    }
    if (!d->tables && !(d->tables = mr_calloc(1, sizeof *d->tables)))
        return false;
    uint8_t *known = d->tables->of[head->q];
    if (head->tables_bytes) {
        memcpy(known, head->tables, head->tables_bytes);
        d->tables->bytes[head->q] = (uint8_t)head->tables_bytes;
    } else if (head->q == ALWAYS_NEW || !d->tables->bytes[head->q]) {
        return false;
    }
    memcpy(tables, known, 2 * TABLE);
    if (d->tables->bytes[head->q] == TABLE)
        memcpy(tables + TABLE, known, TABLE);
    return true;
}

static void add_marker(mr_assembly *to, int marker, size_t content) {
    const uint8_t head[] = {0xff, (uint8_t)marker, (uint8_t)((content + 2) >> 8), (uint8_t)(content + 2)};
    mr_assembly_add(to, head, sizeof head);
}

static void add_huffman(mr_assembly *to, int class, const uint8_t *table, size_t bytes) {
    const uint8_t index = (uint8_t)class;
    add_marker(to, 0xc4, bytes + 1);
    mr_assembly_add(to, &index, 1);
    mr_assembly_add(to, table, bytes);
}

/* Writes a complete table, adding the omitted 16-bit codes. */
static void add_ac(mr_assembly *to, int class, const uint8_t *table, size_t bytes) {
    enum { MOST_SIZE = 10 };
    uint8_t whole[LENGTHS + AC_CODES];
    size_t count = bytes;
    memcpy(whole, table, bytes);
    for (unsigned value = 0; value < 256 && count < sizeof whole; value++)
        if (value % 16 > 0 && value % 16 <= MOST_SIZE && !memchr(table + LENGTHS, (int)value, bytes - LENGTHS))
            whole[count++] = (uint8_t)value;
    add_huffman(to, class, whole, count);
}

/* ITU-T T.81, annex B; JFIF means that the colours are Y, Cb and Cr. */
static void add_file_header(mr_assembly *to, const header *head, const uint8_t *tables) {
    static const uint8_t start[] = {0xff, 0xd8}, jfif[] = {'J', 'F', 'I', 'F', 0, 1, 1, 0, 0, 1, 0, 1, 0, 0};
    static const uint8_t scan[] = {3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0};
    const uint8_t restarts[] = {(uint8_t)(head->restarts >> 8), (uint8_t)head->restarts};
    const uint8_t sampling = (head->type & 63) == 0 ? 0x21 : 0x22;
    const uint8_t frame[] = {8, (uint8_t)(head->height >> 8), (uint8_t)head->height, (uint8_t)(head->width >> 8),
                             (uint8_t)head->width, 3, 1, sampling, 0, 2, 0x11, 1, 3, 0x11, 1};
    mr_assembly_add(to, start, sizeof start);
    add_marker(to, 0xe0, sizeof jfif);
    mr_assembly_add(to, jfif, sizeof jfif);
    for (uint8_t i = 0; i < 2; i++) {
        add_marker(to, 0xdb, TABLE + 1);
        mr_assembly_add(to, &i, 1);
        mr_assembly_add(to, tables + i * TABLE, TABLE);
    }
    if (head->restarts) {
        add_marker(to, 0xdd, sizeof restarts);
        mr_assembly_add(to, restarts, sizeof restarts);
    }
    add_marker(to, 0xc0, sizeof frame);
    mr_assembly_add(to, frame, sizeof frame);
    add_huffman(to, 0x00, dc_luma, sizeof dc_luma);
    add_ac(to, 0x10, ac_luma, sizeof ac_luma);
    add_huffman(to, 0x01, dc_chroma, sizeof dc_chroma);
    add_ac(to, 0x11, ac_chroma, sizeof ac_chroma);
    add_marker(to, 0xda, sizeof scan);
    mr_assembly_add(to, scan, sizeof scan);
    to->lead = to->bytes;
}

static bool begins_jpeg(const uint8_t *payload, size_t bytes) {
    return bytes >= HEADER_BYTES && (mr_rtp_32(payload) & 0xffffff) == 0;
}

static void begin_picture(mr_depacketizer *d, mr_assembly *to, header *head) {
    uint8_t tables[2 * TABLE];
    if (head->width == 0 || head->height == 0) {
        head->width = d->width;
        head->height = d->height;
    }
    if ((head->type & 63) > 1 || head->type > MOST_TYPE) {
        mr_depacketizer_refuse(d, to, "JPEG packets of type %d", head->type);
    } else if (head->width <= 0 || head->height <= 0 || head->width > UINT16_MAX || head->height > UINT16_MAX) {
        mr_depacketizer_refuse(d, to, "JPEG packets of type %d without a size", head->type);
    } else if (!find_tables(d, head, tables)) {
        mr_depacketizer_refuse(d, to, "JPEG packets with unknown tables, Q %d", head->q);
    } else {
        to->picture = to->key = true;
        to->width = head->width;
        to->height = head->height;
        add_file_header(to, head, tables);
    }
}

static void add_jpeg(mr_depacketizer *d, mr_assembly *to, const mr_rtp_packet *packet) {
    header head;
    if (!read_header(&head, packet->payload, packet->bytes)) {
        if (packet->bytes)
            mr_depacketizer_refuse(d, to, "JPEG packets that are malformed", 0);
        return;
    }
    if (head.offset == 0 && !to->picture)
        begin_picture(d, to, &head);
    if (to->picture && head.offset == to->bytes - to->lead)
        mr_assembly_add(to, head.scan, head.scan_bytes);
    else
        to->damaged = true;
}

static void finish_jpeg(mr_depacketizer *d, mr_assembly *unit) {
    static const uint8_t end[] = {0xff, 0xd9};
    if (!unit->too_large && (unit->bytes < 2 || memcmp(unit->data + unit->bytes - 2, end, sizeof end)))
        mr_assembly_add(unit, end, sizeof end);
}

const mr_payload_type mr_payload_jpeg = {.begins = begins_jpeg, .add = add_jpeg, .finish = finish_jpeg};
