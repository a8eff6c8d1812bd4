#include "stages/media/index/mp4_index.h"

#include "engine/base/memory.h"
#include "stages/media/index/gathered.h"

/* libavformat's structures (FFmpeg 5.1, 64 bits): AVIndexEntry, MOVCtts, MOVFragmentIndexItem and one
 * MOVFragmentStreamInfo a track, with malloc's own bytes. */
enum { ENTRY_BYTES = 24, TIME_BYTES = 8, FRAGMENT_BYTES = 48, FRAGMENT_TRACK_BYTES = 64 };

/* libavformat gives up at eleven nested boxes. */
enum { MOST_DEPTH = 12 };

#define TYPE(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))

/* What the next bytes are: a box header; a table's fields; its rows; a track's handler; a box header inside "free"; a
 * position in "meta" where boxes may begin; bytes where no table is expected; unknown. */
typedef enum box_part { HEAD, FIELDS, ROWS, HANDLER, FREE, META, BYTES, LOST } box_part;

/* Follows boxes from an offset. */
typedef struct box_walk {
    box_part part;
    mr_gathered next;
    uint32_t type;              /* type of the current box */
    int64_t end;                /* where it ends */
    uint32_t rows;              /* that are left */
    int depth;
    struct {
        uint32_t type;
        int64_t end;
    } parent[MOST_DEPTH];
} box_walk;

typedef struct mp4_track {
    uint64_t samples, times, edits, chunks, most_per_chunk;
    bool sound, other;          /* handlers that it names */
    bool timed, unticked;       /* has a table of times; has one whose samples do not last one tick each */
} mp4_track;

struct mr_mp4_index {
    box_walk main, side;            /* `side` follows a part that libavformat has jumped to */
    uint64_t bytes;             /* without `track` */
    uint64_t tracks;
    mp4_track track;
    bool hidden;
};

static uint32_t u32(const uint8_t *from) {
    return TYPE(from[0], from[1], from[2], from[3]);
}

static uint64_t u64(const uint8_t *from) {
    return (uint64_t)u32(from) << 32 | u32(from + 4);
}

static uint64_t most_of(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

/* PCM sound (one tick a sample) has one entry per 1,024 samples in a chunk; sound counts as PCM until the times are
 * known. Each edit has entries for the samples that it shows, and for those they need. */
static uint64_t track_bytes(const mp4_track *track) {
    const uint64_t pieces = track->chunks * ((track->most_per_chunk + 1023) / 1024);
    const bool pcm = track->sound && !track->other && !track->unticked;
    const uint64_t samples = pcm ? track->timed ? pieces : 0 : most_of(track->samples, pieces);
    const uint64_t each = most_of(track->edits, 1);
    if (samples > UINT32_MAX || each > UINT32_MAX / TIME_BYTES)
        return UINT64_MAX / 2;
    return samples * each * ENTRY_BYTES + track->times * TIME_BYTES * each;
}

static void add_fragments(mr_mp4_index *index, uint64_t count) {
    index->bytes += count * (FRAGMENT_BYTES + index->tracks * FRAGMENT_TRACK_BYTES);
}

static void begin_track(mr_mp4_index *index) {
    index->bytes += track_bytes(&index->track);
    index->track = (mp4_track){0};
    index->tracks++;
}

uint64_t mr_mp4_index_bytes(const mr_mp4_index *index) {
    return index->hidden ? UINT64_MAX : index->bytes + track_bytes(&index->track);
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

static bool holds_boxes(uint32_t type) {
    static const uint32_t types[] = {
        TYPE('m', 'o', 'o', 'v'), TYPE('t', 'r', 'a', 'k'), TYPE('m', 'd', 'i', 'a'), TYPE('m', 'i', 'n', 'f'),
        TYPE('s', 't', 'b', 'l'), TYPE('e', 'd', 't', 's'), TYPE('d', 'i', 'n', 'f'), TYPE('m', 'v', 'e', 'x'),
        TYPE('m', 'o', 'o', 'f'), TYPE('t', 'r', 'a', 'f'), TYPE('u', 'd', 't', 'a'), TYPE('t', 'r', 'e', 'f'),
        TYPE('s', 'i', 'n', 'f'), TYPE('s', 'c', 'h', 'i'), TYPE('i', 'l', 's', 't'), TYPE('w', 'a', 'v', 'e'),
        TYPE('m', 'f', 'r', 'a')};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i] == type)
            return true;
    return false;
}

/* Boxes whose fields are read. libavformat reads them even if the box is shorter. */
static const struct table {
    uint32_t type;
    uint8_t fields; /* bytes: version, flags and the fields after them */
    uint8_t head;   /* size without rows */
    uint8_t count;  /* where the row count is */
    uint8_t row;    /* bytes per row; 0: it varies */
    bool read;      /* rows are looked at */
} tables[] = {
    {TYPE('s', 't', 's', 'z'), 12, 12, 8, 4, false}, {TYPE('s', 't', 'z', '2'), 12, 12, 8, 0, false},
    {TYPE('s', 't', 't', 's'), 16, 8, 4, 8, false},  {TYPE('c', 't', 't', 's'), 8, 8, 4, 8, true},
    {TYPE('s', 't', 's', 'c'), 8, 8, 4, 12, true},   {TYPE('s', 't', 'c', 'o'), 8, 8, 4, 4, false},
    {TYPE('c', 'o', '6', '4'), 8, 8, 4, 8, false},   {TYPE('s', 't', 's', 's'), 8, 8, 4, 4, false},
    {TYPE('s', 't', 'p', 's'), 8, 8, 4, 4, false},   {TYPE('e', 'l', 's', 't'), 8, 8, 4, 12, true},
    {TYPE('t', 'r', 'u', 'n'), 8, 8, 4, 0, false},   {TYPE('s', 'i', 'd', 'x'), 32, 24, 20, 12, false},
    {TYPE('t', 'f', 'r', 'a'), 16, 16, 12, 0, false}};

static const struct table *table_of(uint32_t type) {
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (tables[i].type == type)
            return &tables[i];
    return NULL;
}

static unsigned ones(uint32_t bits) {
    unsigned count = 0;
    for (; bits; bits &= bits - 1)
        count++;
    return count;
}

/* The table for a box with these fields; some sizes depend on flags. */
static struct table measured(const struct table *table, const uint8_t *fields, uint32_t *count) {
    struct table exact = *table;
    if (table->type == TYPE('s', 't', 's', 'z') && u32(fields + 4))
        exact.row = 0;
    if (table->type == TYPE('e', 'l', 's', 't') && *fields == 1)
        exact.row = 20;
    if (table->type == TYPE('t', 'r', 'u', 'n')) {
        exact.head = (uint8_t)(8 + 4 * ones(u32(fields) & 5));
        exact.row = (uint8_t)(4 * ones(u32(fields) & 0xf00));
    }
    if (table->type == TYPE('s', 'i', 'd', 'x') && *fields) {
        exact.head = 32;
        exact.count = 28;
    }
    *count = u32(fields + exact.count) & (table->type == TYPE('s', 'i', 'd', 'x') ? UINT16_MAX : UINT32_MAX);
    return exact;
}

static uint64_t rows_bytes(const struct table *table, const uint8_t *fields, uint32_t count) {
    return table->type == TYPE('s', 't', 'z', '2') ? ((uint64_t)count * fields[7] + 7) / 8
                                                   : (uint64_t)count * table->row;
}

/* Boxes that must not appear in a sample description. */
static bool is_claim(uint32_t type) {
    return type == TYPE('c', 'm', 'o', 'v') || type == TYPE('m', 'o', 'o', 'f') || table_of(type);
}

/* ---- walking ----------------------------------------------------------------------------------------------------- */

/* Moves to the next part, at `at`. */
static void go_on(box_walk *walk, box_part part, size_t wanted, int64_t at) {
    mr_gathered_move(&walk->next, at, wanted);
    walk->part = part;
}

static void begin_walk(box_walk *walk, int64_t at) {
    walk->depth = 0;
    walk->next.have = 0;
    go_on(walk, HEAD, 8, at);
}

static int64_t parent_end(const box_walk *walk) {
    return walk->depth ? walk->parent[walk->depth - 1].end : INT64_MAX;
}

/* Continues after a box that ends at `at`. A box has at least eight bytes. */
static void next_box(box_walk *walk, int64_t at) {
    while (walk->depth && at > parent_end(walk) - 8)
        at = walk->parent[--walk->depth].end;
    go_on(walk, at > INT64_MAX - 2 * MR_MOST_GATHERED ? LOST : HEAD, 8, at);
}

/* Skips the rest of the parent box. */
static void leave(box_walk *walk) {
    if (walk->depth)
        next_box(walk, walk->parent[walk->depth - 1].end);
    else
        walk->part = LOST;
}

static void enter(mr_mp4_index *index, box_walk *walk, int64_t at) {
    if (walk->type == TYPE('t', 'r', 'a', 'k'))
        begin_track(index);
    if (walk->type == TYPE('m', 'o', 'o', 'f'))
        add_fragments(index, 1);
    if (walk->depth == MOST_DEPTH) {
        walk->part = LOST;
        return;
    }
    walk->parent[walk->depth].type = walk->type;
    walk->parent[walk->depth++].end = walk->end;
    next_box(walk, at);
}

/* libavformat ends the parent after a box with a track or media data, unless the parent is "moov". */
static bool ends_parent(const box_walk *walk) {
    const bool outermost = walk->type == TYPE('t', 'r', 'a', 'k') || walk->type == TYPE('m', 'd', 'a', 't');
    return outermost && walk->depth && walk->parent[walk->depth - 1].type != TYPE('m', 'o', 'o', 'v');
}

static bool is_entry(const box_walk *walk) {
    return walk->depth && walk->parent[walk->depth - 1].type == TYPE('s', 't', 's', 'd');
}

/* Opens a box whose content begins at `at`. */
static void open_box(mr_mp4_index *index, box_walk *walk, int64_t at) {
    const uint32_t type = walk->type;
    const struct table *table = table_of(type);
    if (is_entry(walk))
        go_on(walk, BYTES, 8, at);
    else if (type == TYPE('s', 't', 's', 'd'))
        enter(index, walk, at + 8);
    else if (holds_boxes(type))
        enter(index, walk, at);
    else if (type == TYPE('m', 'e', 't', 'a'))
        go_on(walk, META, 8, at);
    else if (type == TYPE('f', 'r', 'e', 'e') || type == TYPE('h', 'o', 'o', 'v'))
        go_on(walk, FREE, 8, at);
    else if (type == TYPE('h', 'd', 'l', 'r'))
        go_on(walk, HANDLER, 12, at);
    else if (table)
        go_on(walk, FIELDS, table->fields, at);
    else
        next_box(walk, walk->end);
}

static void read_head(mr_mp4_index *index, box_walk *walk) {
    const uint8_t *from = walk->next.data;
    uint64_t size = u32(from);
    int64_t head = 8, most = parent_end(walk) - walk->next.at;
    walk->type = u32(from + 4);
    if (size == 1 && most >= 16) {
        if (walk->next.have < 16) {
            walk->next.wanted = 16;
            return;
        }
        size = u64(from + 8);
        head = 16;
    }
    size = size ? size : (uint64_t)most;
    if (size < (uint64_t)head || size > INT64_MAX || (ends_parent(walk) && !is_entry(walk))) {
        leave(walk);
        return;
    }
    walk->end = (int64_t)size < most ? walk->next.at + (int64_t)size : parent_end(walk);
    index->hidden |= walk->type == TYPE('c', 'm', 'o', 'v') || (is_entry(walk) && size > (uint64_t)most);
    open_box(index, walk, walk->next.at + head);
}

static void take_fields(mr_mp4_index *index, uint32_t type, const uint8_t *fields, uint32_t count) {
    mp4_track *track = &index->track;
    switch (type) {
    case TYPE('s', 't', 's', 'z'):
    case TYPE('s', 't', 'z', '2'):
        track->samples += count;
        break;
    case TYPE('s', 't', 't', 's'):
        track->timed = true;
        track->unticked |= count != 1 || u32(fields + 12) != 1;
        break;
    case TYPE('s', 't', 'c', 'o'):
    case TYPE('c', 'o', '6', '4'):
        track->chunks += count;
        break;
    case TYPE('t', 'r', 'u', 'n'):
        index->bytes += (uint64_t)count * (ENTRY_BYTES + TIME_BYTES);
        break;
    case TYPE('t', 'f', 'r', 'a'):
    case TYPE('s', 'i', 'd', 'x'):
        add_fragments(index, count);
        break;
    default:
        break;
    }
}

static void read_fields(mr_mp4_index *index, box_walk *walk) {
    uint32_t count;
    const struct table table = measured(table_of(walk->type), walk->next.data, &count);
    const int64_t left = walk->end - walk->next.at - table.head;
    const uint64_t room = left > 0 ? (uint64_t)left : 0;
    take_fields(index, walk->type, walk->next.data, count);
    walk->rows = count;
    if (table.type == TYPE('e', 'l', 's', 't')) /* libavformat reads as many as there are. */
        walk->rows = room / table.row < count ? (uint32_t)(room / table.row) : count;
    else /* libavformat would read the others from the following boxes. */
        index->hidden |= rows_bytes(&table, walk->next.data, count) > room;
    if (table.read && walk->rows)
        go_on(walk, ROWS, table.row, walk->next.at + table.head);
    else
        next_box(walk, walk->end);
}

static void read_row(mr_mp4_index *index, box_walk *walk) {
    mp4_track *track = &index->track;
    const uint8_t *row = walk->next.data;
    const uint32_t first = u32(row), second = u32(row + 4);
    if (walk->type == TYPE('s', 't', 's', 'c'))
        track->most_per_chunk = most_of(track->most_per_chunk, second);
    else if (walk->type == TYPE('c', 't', 't', 's'))
        track->times += first <= INT32_MAX ? first : 0;
    else /* An edit without media has the time -1. */
        track->edits += walk->next.wanted == 12 ? second != UINT32_MAX : u64(row + 8) != UINT64_MAX;
    if (--walk->rows)
        go_on(walk, ROWS, walk->next.wanted, walk->next.at + (int64_t)walk->next.wanted);
    else
        next_box(walk, walk->end);
}

static void read_handler(mr_mp4_index *index, box_walk *walk) {
    const uint32_t handler = u32(walk->next.data + 8);
    index->track.sound |= handler == TYPE('s', 'o', 'u', 'n');
    index->track.other |= handler == TYPE('v', 'i', 'd', 'e');
    next_box(walk, walk->end);
}

/* libavformat treats "free" and "hoov" as an index if one begins inside. */
static void read_free(mr_mp4_index *index, box_walk *walk) {
    const uint32_t type = u32(walk->next.data + 4);
    walk->type = TYPE('m', 'o', 'o', 'v');
    if (type == TYPE('m', 'v', 'h', 'd') || type == TYPE('c', 'm', 'o', 'v'))
        enter(index, walk, walk->next.at);
    else
        next_box(walk, walk->end);
}

/* The first "hdlr" size marks where boxes begin. */
static void read_meta(mr_mp4_index *index, box_walk *walk) {
    if (walk->next.at > walk->end - 8)
        next_box(walk, walk->end);
    else if (u32(walk->next.data + 4) == TYPE('h', 'd', 'l', 'r'))
        enter(index, walk, walk->next.at);
    else
        go_on(walk, META, 8, walk->next.at + 4);
}

/* After a sample description's fields, libavformat accepts any box type. How long the fields are depends on the
 * type. */
static void read_byte(mr_mp4_index *index, box_walk *walk) {
    index->hidden |= is_claim(u32(walk->next.data + 4));
    if (walk->next.at > walk->end - 8)
        next_box(walk, walk->end);
    else
        go_on(walk, BYTES, 8, walk->next.at + 1);
}

static void step(mr_mp4_index *index, box_walk *walk) {
    switch (walk->part) {
    case HEAD:
        read_head(index, walk);
        break;
    case FIELDS:
        read_fields(index, walk);
        break;
    case ROWS:
        read_row(index, walk);
        break;
    case HANDLER:
        read_handler(index, walk);
        break;
    case FREE:
        read_free(index, walk);
        break;
    case META:
        read_meta(index, walk);
        break;
    case BYTES:
        read_byte(index, walk);
        break;
    case LOST:
        break;
    }
}

static void follow(mr_mp4_index *index, box_walk *walk, int64_t offset, const uint8_t *data, size_t bytes) {
    while (walk->part != LOST && !index->hidden) {
        if (!mr_gathered_take(&walk->next, offset, data, bytes))
            return;
        if (mr_gathered_full(&walk->next))
            step(index, walk);
    }
}

/* Whether a fragment box begins where libavformat's fragment index points. Media data begins with other bytes. */
static bool begins_fragment(const uint8_t *data, size_t bytes) {
    const uint32_t type = bytes >= 8 ? u32(data + 4) : 0;
    return type == TYPE('m', 'o', 'o', 'f') || type == TYPE('m', 'f', 'r', 'a') || type == TYPE('s', 'i', 'd', 'x') ||
           type == TYPE('s', 't', 'y', 'p') || type == TYPE('e', 'm', 's', 'g') || type == TYPE('p', 'r', 'f', 't');
}

void mr_mp4_index_feed(mr_mp4_index *index, int64_t offset, const uint8_t *data, size_t bytes) {
    const bool jumped = index->main.part == LOST || offset > index->main.next.at + (int64_t)index->main.next.have;
    if (jumped && begins_fragment(data, bytes) &&
        (index->side.part == LOST || offset != index->side.next.at + (int64_t)index->side.next.have))
        begin_walk(&index->side, offset);
    follow(index, &index->main, offset, data, bytes);
    follow(index, &index->side, offset, data, bytes);
}

mr_mp4_index *mr_mp4_index_create(void) {
    mr_mp4_index *index = mr_calloc(1, sizeof *index);
    if (!index)
        return NULL;
    begin_walk(&index->main, 0);
    index->side.part = LOST;
    return index;
}

void mr_mp4_index_destroy(mr_mp4_index **index) {
    mr_free(*index);
    *index = NULL;
}
