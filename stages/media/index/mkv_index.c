#include "stages/media/index/mkv_index.h"

#include "engine/base/memory.h"
#include "stages/media/index/gathered.h"

enum { MOST_DEPTH = 16, ID_BYTES = 4 };

/* Stands for an unknown end. */
#define OPEN (INT64_MAX - MR_MOST_GATHERED)

/* Names as in the RFC. */
enum {
    EBML = 0x1a45dfa3, SEGMENT = 0x18538067, CLUSTER = 0x1f43b675, INFO = 0x1549a966, TRACKS = 0x1654ae6b,
    CHAPTERS = 0x1043a770, TAGS = 0x1254c367, CUES = 0x1c53bb6b, ATTACHMENTS = 0x1941a469, SEEK_HEAD = 0x114d9b74,
    TRACK_ENTRY = 0xae, CONTENT_ENCODINGS = 0x6d80, CONTENT_ENCODING = 0x6240, TRACK_OPERATION = 0xe2,
    TRACK_COMBINE_PLANES = 0xe3, TRACK_PLANE = 0xe4, BLOCK_ADDITION_MAPPING = 0x41e4, EDITION_ENTRY = 0x45b9,
    CHAPTER_ATOM = 0xb6, TAG = 0x7373, SIMPLE_TAG = 0x67c8, CUE_POINT = 0xbb, CUE_TRACK_POSITIONS = 0xb7,
    ATTACHED_FILE = 0x61a7, SEEK = 0x4dbb
};

/* Elements that libavformat (5.1) parses, and how many bytes each costs. Others cost no more than their size. */
static const struct element {
    uint32_t parent; /* 0: the file, or a segment */
    uint32_t id;
    uint32_t cost;
} elements[] = {
    {0, TRACKS, 0}, {TRACKS, TRACK_ENTRY, 2048}, {TRACK_ENTRY, CONTENT_ENCODINGS, 0},
    {CONTENT_ENCODINGS, CONTENT_ENCODING, 128}, {TRACK_ENTRY, TRACK_OPERATION, 0},
    {TRACK_OPERATION, TRACK_COMBINE_PLANES, 0}, {TRACK_COMBINE_PLANES, TRACK_PLANE, 32},
    {TRACK_ENTRY, BLOCK_ADDITION_MAPPING, 64}, {0, CHAPTERS, 0}, {CHAPTERS, EDITION_ENTRY, 0},
    {EDITION_ENTRY, CHAPTER_ATOM, 256}, {0, TAGS, 0}, {TAGS, TAG, 128}, {TAG, SIMPLE_TAG, 128},
    {SIMPLE_TAG, SIMPLE_TAG, 128}, {0, CUES, 0}, {CUES, CUE_POINT, 64}, {CUE_POINT, CUE_TRACK_POSITIONS, 32},
    {0, ATTACHMENTS, 0}, {ATTACHMENTS, ATTACHED_FILE, 128}, {0, SEEK_HEAD, 0}, {SEEK_HEAD, SEEK, 32},
};

/* Follows elements from an offset. */
typedef struct element_walk {
    bool lost;                       /* searches for the segment's next element, byte by byte */
    mr_gathered next;
    int depth;
    struct {
        uint32_t id;
        int64_t end;
    } parent[MOST_DEPTH];
} element_walk;

struct mr_mkv_index {
    element_walk main, side;                 /* `side` follows a part that libavformat has jumped to; depth -1: none */
    uint64_t bytes;
    int64_t end;                     /* where the last fed bytes ended */
};

static uint64_t number(const uint8_t *from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | from[i];
    return value;
}

/* Size in bytes of a number, from its first byte; more than eight: not a number. */
static size_t length_of(uint8_t first) {
    size_t length = 1;
    for (int mask = 0x80; length < 9 && !(first & mask); mask >>= 1)
        length++;
    return length;
}

static bool is_of_segment(uint32_t id) {
    return id == TRACKS || id == CHAPTERS || id == TAGS || id == CUES || id == ATTACHMENTS || id == SEEK_HEAD ||
           id == CLUSTER || id == INFO;
}

bool mr_mkv_begins(const uint8_t *data, size_t bytes) {
    return bytes >= ID_BYTES && number(data, ID_BYTES) == EBML;
}

/* ---- walking ----------------------------------------------------------------------------------------------------- */

static void begin_at(element_walk *walk, int64_t at) {
    mr_gathered_move(&walk->next, at, walk->lost ? ID_BYTES : 1);
}

/* libavformat searches for the next known element. */
static void lose(element_walk *walk, int64_t from) {
    walk->lost = true;
    walk->depth = 0;
    begin_at(walk, from);
}

static void search(element_walk *walk) {
    if (is_of_segment((uint32_t)number(walk->next.data, ID_BYTES))) {
        walk->lost = false;
        begin_at(walk, walk->next.at);
    } else
        begin_at(walk, walk->next.at + 1);
}

/* The element in the enclosing levels up to that depth. */
static const struct element *element_at(const element_walk *walk, int depth, uint32_t id) {
    const uint32_t parent = depth ? walk->parent[depth - 1].id : 0;
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (elements[i].id == id && elements[i].parent == parent)
            return &elements[i];
    return NULL;
}

static int64_t parent_end(const element_walk *walk, int depth) {
    return depth ? walk->parent[depth - 1].end : OPEN;
}

/* An element without a size ends where an element begins that belongs to an outer level. */
static void end_open(element_walk *walk, uint32_t id) {
    int depth = walk->depth;
    while (depth && parent_end(walk, depth) == OPEN && !element_at(walk, depth, id))
        depth--;
    if (element_at(walk, depth, id) || (!depth && is_of_segment(id)))
        walk->depth = depth;
}

static void next(element_walk *walk, int64_t at) {
    while (walk->depth && at >= walk->parent[walk->depth - 1].end)
        walk->depth--;
    begin_at(walk, at);
}

/* Handles an element whose content begins at `at`. Segments, and clusters without a size, are treated as if their
 * elements were top level. */
static void pass(mr_mkv_index *index, element_walk *walk, uint32_t id, uint64_t size, bool known, int64_t at) {
    end_open(walk, id);
    const struct element *element = element_at(walk, walk->depth, id);
    const int64_t most = parent_end(walk, walk->depth) - at;
    const bool fits = most >= 0 && (known ? size <= (uint64_t)most : parent_end(walk, walk->depth) == OPEN);
    index->bytes += element ? element->cost : 0;
    if (!walk->depth && (id == SEGMENT || (id == CLUSTER && !known)))
        next(walk, at);
    else if (!fits || walk->depth == MOST_DEPTH)
        lose(walk, walk->next.at + 1);
    else if (!element)
        next(walk, at + (known ? (int64_t)size : 0));
    else {
        walk->parent[walk->depth].id = id;
        walk->parent[walk->depth++].end = known ? at + (int64_t)size : OPEN;
        next(walk, at);
    }
}

/* Reads an element's id and size; their lengths become known one after the other. */
static void read_element(mr_mkv_index *index, element_walk *walk) {
    const uint8_t *from = walk->next.data;
    const size_t id = length_of(from[0]);
    if (id > ID_BYTES) {
        lose(walk, walk->next.at + 1);
        return;
    }
    if (walk->next.have <= id) {
        walk->next.wanted = id + 1;
        return;
    }
    const size_t size = length_of(from[id]);
    if (size > 8) {
        lose(walk, walk->next.at + 1);
        return;
    }
    if (walk->next.have < id + size) {
        walk->next.wanted = id + size;
        return;
    }
    const uint64_t unknown = ((uint64_t)1 << 7 * size) - 1, value = number(from + id, size) & unknown;
    pass(index, walk, (uint32_t)number(from, id), value, value != unknown, walk->next.at + (int64_t)(id + size));
}

static void follow(mr_mkv_index *index, element_walk *walk, int64_t offset, const uint8_t *data, size_t bytes) {
    while (walk->depth >= 0) {
        if (!mr_gathered_take(&walk->next, offset, data, bytes))
            return;
        if (!mr_gathered_full(&walk->next))
            continue;
        if (walk->lost)
            search(walk);
        else
            read_element(index, walk);
    }
}

void mr_mkv_index_feed(mr_mkv_index *index, int64_t offset, const uint8_t *data, size_t bytes) {
    const bool jumped = offset != index->end && offset != index->main.next.at;
    if (jumped && bytes >= ID_BYTES && is_of_segment((uint32_t)number(data, ID_BYTES))) {
        index->side = (element_walk){0};
        begin_at(&index->side, offset);
    }
    follow(index, &index->main, offset, data, bytes);
    follow(index, &index->side, offset, data, bytes);
    index->end = offset + (int64_t)bytes;
}

uint64_t mr_mkv_index_bytes(const mr_mkv_index *index) {
    return index->bytes;
}

mr_mkv_index *mr_mkv_index_create(void) {
    mr_mkv_index *index = mr_calloc(1, sizeof *index);
    if (!index)
        return NULL;
    begin_at(&index->main, 0);
    index->side.depth = -1;
    return index;
}

void mr_mkv_index_destroy(mr_mkv_index **index) {
    mr_free(*index);
    *index = NULL;
}
