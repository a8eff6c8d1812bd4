#include "stages/live/mjpeg/joined.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

enum { LEAST_ROOM = 16384, FIRST_ROOM = 65536, KEPT_ROOM = 1 << 20, LINE = 128 };
enum { SOF_FIRST = 0xc0, DHT = 0xc4, JPG = 0xc8, DAC = 0xcc, SOF_LAST = 0xcf, RST0 = 0xd0, RST7 = 0xd7, SOI = 0xd8,
       EOI = 0xd9, SOS = 0xda, TEM = 0x01 };

typedef enum place { BETWEEN, SEGMENTS, SCAN } place;
/* Steps return MR_OK (a picture is complete), MR_ERROR_AGAIN (needs more bytes), or this: take another step. */
enum { CONTINUE = 1 };

struct mr_joined {
    uint8_t *data;
    size_t room, begin, end; /* the picture's bytes, or those between pictures, start at `begin` */
    size_t at;               /* how far they were examined */
    size_t most, unused;     /* unused: bytes since the last complete picture */
    place place;
    bool scanned;            /* the picture's scan has begun */
    int width, height;
    uint64_t broken;
    /* Headers between pictures. */
    char line[LINE], type[LINE];
    size_t line_bytes;
    size_t declared;         /* this part's Content-Length; 0: none */
    size_t trailing;         /* how many bytes this part has after the picture */
};

int mr_joined_create(mr_joined **joined, size_t most_bytes) {
    mr_joined *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    made->most = most_bytes;
    *joined = made;
    return MR_OK;
}

void mr_joined_destroy(mr_joined **joined) {
    if (!*joined)
        return;
    mr_free((*joined)->data);
    mr_free(*joined);
    *joined = NULL;
}

uint64_t mr_joined_broken(const mr_joined *joined) {
    return joined->broken;
}

const char *mr_joined_type(const mr_joined *joined) {
    return joined->type;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static bool resize(mr_joined *joined, size_t room) {
    uint8_t *moved = mr_realloc(joined->data, room);
    if (moved) {
        joined->data = moved;
        joined->room = room;
    }
    return moved;
}

uint8_t *mr_joined_room(mr_joined *joined, size_t *room) {
    size_t held = joined->end - joined->begin;
    if (joined->begin) {
        memmove(joined->data, joined->data + joined->begin, held);
        joined->at -= joined->begin;
        joined->begin = 0;
        joined->end = held;
    }
    if (joined->room > KEPT_ROOM && held < joined->room / 8)
        (void)resize(joined, joined->room / 2);
    if (joined->room - held < LEAST_ROOM && !resize(joined, joined->room ? joined->room * 2 : FIRST_ROOM))
        return NULL;
    *room = joined->room - held;
    return joined->data + held;
}

void mr_joined_put(mr_joined *joined, size_t bytes) {
    joined->end += bytes;
    joined->unused += bytes;
}

/* ---- between pictures -------------------------------------------------------------------------------------------- */

static const char *value_of(const char *line, const char *name) {
    size_t bytes = strlen(name);
    return strncasecmp(line, name, bytes) == 0 ? line + bytes + strspn(line + bytes, " \t") : NULL;
}

/* Reads a header line. A boundary ends the previous part. */
static void read_line(mr_joined *joined) {
    const char *value;
    joined->line[joined->line_bytes] = '\0';
    joined->line[strcspn(joined->line, "\r")] = '\0';
    if (strncmp(joined->line, "--", 2) == 0) {
        joined->declared = joined->trailing = 0;
        *joined->type = '\0';
    } else if ((value = value_of(joined->line, "Content-Length:"))) {
        const long long declared = strtoll(value, NULL, 10);
        joined->declared = declared > 0 ? (size_t)declared : 0;
        joined->trailing = 0;
    } else if ((value = value_of(joined->line, "Content-Type:"))) {
        memmove(joined->type, value, strlen(value) + 1);
        joined->trailing = 0;
    }
    joined->line_bytes = 0;
}

static void note(mr_joined *joined, uint8_t byte) {
    joined->trailing -= joined->trailing > 0;
    if (byte == '\n')
        read_line(joined);
    else if (joined->line_bytes + 1 < LINE && byte >= ' ' && byte < 127)
        joined->line[joined->line_bytes++] = (char)byte;
    else if (byte != '\r')
        joined->line_bytes = 0;
}

/* Skips bytes up to the next SOI. */
static int find_picture(mr_joined *joined) {
    const uint8_t *data = joined->data;
    for (; joined->at < joined->end; joined->at++) {
        bool may_be = data[joined->at] == 0xff && joined->trailing == 0;
        if (may_be && joined->end - joined->at < 3)
            break;
        if (may_be && data[joined->at + 1] == SOI && data[joined->at + 2] == 0xff)
            break;
        note(joined, data[joined->at]);
    }
    joined->begin = joined->at;
    if (joined->end - joined->at < 3)
        return MR_ERROR_AGAIN;
    joined->at += 2;
    joined->place = SEGMENTS;
    joined->width = joined->height = 0;
    joined->scanned = false;
    joined->line_bytes = 0;
    return CONTINUE;
}

/* ---- within a picture -------------------------------------------------------------------------------------------- */

/* Drops the picture. The search continues here, so that a thumbnail inside it cannot be mistaken for a picture. */
static int give_up(mr_joined *joined) {
    joined->broken++;
    joined->begin = joined->at;
    joined->place = BETWEEN;
    return CONTINUE;
}

static void read_size(mr_joined *joined, int marker, const uint8_t *content, size_t bytes) {
    if (marker < SOF_FIRST || marker > SOF_LAST || marker == DHT || marker == JPG || marker == DAC || bytes < 5)
        return;
    joined->height = content[1] << 8 | content[2];
    joined->width = content[3] << 8 | content[4];
}

/* Ends the picture after `bytes`; the search for the next one starts there. */
static int finish(mr_joined *joined, size_t bytes, mr_joined_picture *picture) {
    *picture = (mr_joined_picture){.data = joined->data + joined->begin, .bytes = bytes, .width = joined->width,
                                   .height = joined->height};
    joined->trailing = joined->declared > bytes ? joined->declared - bytes : 0;
    joined->declared = 0;
    joined->begin += bytes;
    joined->at = joined->begin;
    joined->place = BETWEEN;
    joined->unused = joined->end - joined->begin;
    return MR_OK;
}

/* Skips a segment, or a fill byte before one. */
static int pass_segment(mr_joined *joined, mr_joined_picture *picture) {
    const uint8_t *from = joined->data + joined->at;
    size_t left = joined->end - joined->at;
    if (left < 2)
        return MR_ERROR_AGAIN;
    if (from[0] == 0xff && from[1] == EOI && joined->scanned)
        return finish(joined, joined->at + 2 - joined->begin, picture);
    if (from[0] != 0xff || from[1] == 0 || from[1] == EOI)
        return give_up(joined);
    if (from[1] == SOI) { /* only this one begins a picture */
        joined->begin = joined->at;
        joined->at += 2;
        return CONTINUE;
    }
    bool alone = from[1] == TEM || (from[1] >= RST0 && from[1] <= RST7);
    if (alone || from[1] == 0xff) {
        joined->at += alone ? 2 : 1;
        return CONTINUE;
    }
    if (left < 4)
        return MR_ERROR_AGAIN;
    size_t bytes = (size_t)from[2] << 8 | from[3];
    if (bytes < 2)
        return give_up(joined);
    if (left < 2 + bytes)
        return MR_ERROR_AGAIN;
    read_size(joined, from[1], from + 4, bytes - 2);
    joined->at += 2 + bytes;
    joined->place = from[1] == SOS ? SCAN : SEGMENTS;
    joined->scanned = joined->scanned || from[1] == SOS;
    return CONTINUE;
}

/* Another picture begins inside this one, which lacks EOI: it ended where the headers between them begin. */
static int cut(mr_joined *joined, mr_joined_picture *picture) {
    enum { MOST_HEADERS = 1024 };
    const uint8_t *begin = joined->data + joined->begin, *next = joined->data + joined->at, *end = NULL;
    for (const uint8_t *at = next; !end && at > begin && next - at < MOST_HEADERS; at--)
        if (next - at >= 3 && memcmp(at, "\n--", 3) == 0)
            end = at > begin && at[-1] == '\r' ? at - 1 : at;
    size_t declared = joined->declared;
    finish(joined, (size_t)((end ? end : next) - begin), picture);
    picture->open = true;
    picture->damaged = !end || picture->bytes < declared;
    joined->trailing = 0;
    return MR_OK;
}

/* Whether the declared length has arrived and a boundary follows it. */
static bool ends_as_declared(const mr_joined *joined) {
    const size_t held = joined->end - joined->begin;
    if (!joined->declared || held < joined->declared || held - joined->declared < 4)
        return false;
    const uint8_t *from = joined->data + joined->begin + joined->declared;
    return memcmp(from, "\r\n--", 4) == 0 || memcmp(from, "\n--", 3) == 0;
}

static int pass_scan(mr_joined *joined, mr_joined_picture *picture) {
    const uint8_t *end = joined->data + joined->end, *at = joined->data + joined->at;
    for (; (at = memchr(at, 0xff, (size_t)(end - at))); at++) {
        joined->at = (size_t)(at - joined->data);
        if (end - at < 2 || (at[1] == SOI && end - at < 3))
            break;
        if (at[1] == EOI)
            return finish(joined, joined->at + 2 - joined->begin, picture);
        if (at[1] == SOI && at[2] == 0xff)
            return cut(joined, picture);
        if (at[1] && at[1] != 0xff && (at[1] < RST0 || at[1] > RST7)) { /* a marker other than stuffing or RST: look for
                                                                           the next scan */
            joined->place = SEGMENTS;
            return CONTINUE;
        }
    }
    joined->at = at ? joined->at : joined->end;
    if (!ends_as_declared(joined))
        return MR_ERROR_AGAIN;
    finish(joined, joined->declared, picture);
    picture->open = true;
    return MR_OK;
}

int mr_joined_take(mr_joined *joined, mr_joined_picture *picture) {
    int status;
    do
        status = joined->place == BETWEEN    ? find_picture(joined)
                 : joined->place == SEGMENTS ? pass_segment(joined, picture)
                                             : pass_scan(joined, picture);
    while (status == CONTINUE);
    return status == MR_ERROR_AGAIN && joined->unused > joined->most ? MR_ERROR_DATA : status;
}
