#include "stages/media/ts/ts_scan.h"

#include <string.h>

#include "engine/base/memory.h"
#include "stages/media/ts/ts_tables.h"

enum { TS_BYTES = MR_TS_BYTES, TS_HEAD = 4, TS_SYNC = 0x47, NULL_PID = 0x1fff, MOST_RAW = MR_TS_RAW,
       WITH_TIMES = 192, HITS = 3, LEAD_MOST = 16, PES_HEAD = 9, MOST_LANES = 64, MOST_PES = 4096,
       CARRY = 2 * HITS * MOST_RAW };
/* Parsers may assign the zeros before a start code to either picture. */
enum { SLACK = 4 };
static const uint32_t none = UINT32_MAX;

/* A PES packet. Bytes count in the elementary stream. */
typedef struct pes {
    int64_t at;        /* where its first packet's sync byte is */
    uint32_t bytes;    /* that came */
    uint32_t announced; /* 0: not */
    uint32_t first_lost, last_lost; /* how many bytes came before the first and last gap */
    uint16_t pid;
    bool gap;          /* packets are missing before it */
    bool cut;          /* its end is missing */
    bool begins;       /* earlier packets are unknown */
    bool ended;
} pes;

/* A stream. */
typedef struct lane {
    int pid;
    int number;        /* last packet's number; below 0: none yet */
    bool open, filled; /* a PES packet is open; its last packet has no stuffing, so more may follow */
    bool gap;          /* packets are missing, and no PES packet is open */
    bool begins;
    uint64_t pes;
    uint8_t last[TS_BYTES]; /* packet, */
    bool repeated;     /* which came twice */
    uint8_t head[PES_HEAD];
    size_t head_bytes, skip; /* header bytes read; header bytes to skip after the first nine */
} lane;

struct mr_ts_scan {
    int64_t end;       /* where the fed bytes ended */
    int raw;           /* packet size including surrounding bytes; 0: not known */
    uint8_t carry[CARRY];
    size_t carried;
    lane lanes[MOST_LANES];
    size_t lane_count;
    pes ring[MOST_PES];
    uint64_t count;    /* number of PES packets */
    mr_ts_tables tables;
    mr_ts_change change;
    int64_t repeated[MR_TS_REPEATED];
    size_t repeated_count;
    uint64_t scrambled;
};

mr_ts_scan *mr_ts_scan_create(void) {
    return mr_calloc(1, sizeof(mr_ts_scan));
}

void mr_ts_scan_destroy(mr_ts_scan **scan) {
    mr_free(*scan);
    *scan = NULL;
}

int64_t mr_ts_scan_end(const mr_ts_scan *scan) {
    return scan->end;
}

size_t mr_ts_scan_rest(const mr_ts_scan *scan) {
    const size_t raw = (size_t)scan->raw;
    return raw ? (raw - scan->carried % raw) % raw : 0;
}

const int64_t *mr_ts_scan_repeated(mr_ts_scan *scan, size_t *count) {
    *count = scan->repeated_count;
    scan->repeated_count = 0;
    return scan->repeated;
}

uint64_t mr_ts_scan_scrambled(const mr_ts_scan *scan) {
    return scan->scrambled;
}

/* ---- PES packets ------------------------------------------------------------------------------------------------- */

static pes *pes_of(mr_ts_scan *scan, const lane *at) {
    pes *found = &scan->ring[at->pes % MOST_PES];
    return at->pes + MOST_PES >= scan->count && found->pid == at->pid ? found : NULL;
}

static bool is_short(const pes *one) {
    return one->bytes < one->announced;
}

static void end_pes(mr_ts_scan *scan, lane *at, bool jumps) {
    pes *one = at->open ? pes_of(scan, at) : NULL;
    at->open = false;
    if (!one)
        return;
    one->cut = is_short(one) || (jumps && at->filled && !one->announced);
    one->ended = true;
}

static void begin_pes(mr_ts_scan *scan, lane *at, int64_t offset) {
    at->pes = scan->count++;
    scan->ring[at->pes % MOST_PES] =
        (pes){.at = offset, .pid = (uint16_t)at->pid, .first_lost = none, .last_lost = none, .gap = at->gap,
              .begins = at->begins};
    at->open = true;
    at->gap = at->begins = false;
    at->head_bytes = at->skip = 0;
}

static void lose(mr_ts_scan *scan, const lane *at) {
    pes *one = pes_of(scan, at);
    if (!one)
        return;
    one->first_lost = one->first_lost == none ? one->bytes : one->first_lost;
    one->last_lost = one->bytes;
}

/* Bytes after the announced end belong to another PES packet, whose first packet is missing. */
static void add_bytes(mr_ts_scan *scan, lane *at, size_t bytes) {
    pes *one = pes_of(scan, at);
    if (!one)
        return;
    const size_t room = one->announced ? one->announced - one->bytes : UINT32_MAX / 2 - one->bytes;
    one->bytes += (uint32_t)(bytes < room ? bytes : room);
}

/* The ninth header byte says how many more header bytes follow. */
static void add_payload(mr_ts_scan *scan, lane *at, const uint8_t *data, size_t bytes) {
    while (bytes > 0 && at->head_bytes < PES_HEAD) {
        at->head[at->head_bytes++] = *data++;
        bytes--;
        if (at->head_bytes < PES_HEAD)
            continue;
        const uint32_t rest = (uint32_t)at->head[4] << 8 | at->head[5], more = 3u + at->head[8];
        pes *one = pes_of(scan, at);
        at->skip = at->head[8];
        if (one && rest > more)
            one->announced = rest - more;
    }
    const size_t skipped = bytes < at->skip ? bytes : at->skip;
    at->skip -= skipped;
    add_bytes(scan, at, bytes - skipped);
}

static bool is_video(const uint8_t *payload, size_t bytes) {
    enum { VIDEO = 0xe0, KIND = 0xf0, EXTENDED = 0xfd, PRIVATE = 0xbd };
    static const uint8_t start[] = {0, 0, 1};
    return bytes > 3 && memcmp(payload, start, 3) == 0 &&
           ((payload[3] & KIND) == VIDEO || payload[3] == EXTENDED || payload[3] == PRIVATE);
}

/* ---- packets ----------------------------------------------------------------------------------------------------- */

static lane *lane_of(mr_ts_scan *scan, int pid) {
    for (size_t i = 0; i < scan->lane_count; i++)
        if (scan->lanes[i].pid == pid)
            return &scan->lanes[i];
    if (scan->lane_count == MOST_LANES)
        return NULL;
    lane *made = &scan->lanes[scan->lane_count++];
    *made = (lane){.pid = pid, .number = -1, .begins = true};
    return made;
}

/* Whether an adaptation field this long has more bytes than its flags need. */
static bool is_stuffed(const uint8_t *field, size_t bytes) {
    enum { PCR = 0x10, OPCR = 0x08, SPLICE = 0x04, PRIVATE = 0x02, EXTENSION = 0x01 };
    if (bytes == 0 || field[0] == 0) /* nothing else explains one without flags */
        return true;
    size_t used = 1 + (field[0] & PCR ? 6u : 0) + (field[0] & OPCR ? 6u : 0) + (field[0] & SPLICE ? 1u : 0);
    if (field[0] & PRIVATE && used < bytes)
        used += 1u + field[used];
    if (field[0] & EXTENSION && used < bytes)
        used += 1u + field[used];
    return bytes > used;
}

/* Keeps all table packets in stream order, so that a demuxer can begin with them. */
static void note_change(mr_ts_scan *scan, int64_t offset) {
    const mr_ts_section *const from[] = {&scan->tables.list, &scan->tables.changed->table};
    mr_ts_change *to = &scan->change;
    const size_t raw = (size_t)scan->raw, lead = raw == WITH_TIMES ? WITH_TIMES - TS_BYTES : 0;
    *to = (mr_ts_change){.begins = offset - (int64_t)lead, .ends = offset + (int64_t)(raw - lead)};
    for (size_t i = 0; i < sizeof from / sizeof *from; i++)
        for (size_t k = 0; k < from[i]->packet_count; k++, to->bytes += raw)
            memcpy(to->tables + to->bytes + lead, from[i]->packets[k], TS_BYTES);
}

/* Handles an unreadable PES packet. */
static void lack_video(mr_ts_scan *scan, lane *at, bool erroneous, bool scrambled) {
    const int watched = scan->tables.watches ? scan->tables.watched.pid : at->pid;
    at->gap |= erroneous || scrambled;
    scan->scrambled += scrambled && watched == at->pid && !at->begins;
}

/* Whether the packet repeats the stream's last one, apart from the clock in its adaptation field. */
static bool is_repeated(const lane *at, const uint8_t *data, size_t head) {
    const bool may_be = at->number >= 0 && !at->repeated && data[3] & 0x10 && head < TS_BYTES;
    return may_be && memcmp(at->last, data, TS_HEAD) == 0 &&
           (!(data[3] & 0x20) || at->last[TS_HEAD] == data[TS_HEAD]) &&
           memcmp(at->last + head, data + head, TS_BYTES - head) == 0;
}

static bool note_repeated(mr_ts_scan *scan, lane *at, int64_t offset, const uint8_t *data, size_t head) {
    at->repeated = is_repeated(at, data, head);
    if (at->repeated && scan->repeated_count < MR_TS_REPEATED)
        scan->repeated[scan->repeated_count++] = offset;
    memcpy(at->last, data, TS_BYTES);
    return at->repeated;
}

static void take(mr_ts_scan *scan, int64_t offset, const uint8_t *data) {
    enum { SCRAMBLED = 0xc0 };
    const bool begins = data[1] & 0x40, erroneous = data[1] & 0x80, has_field = data[3] & 0x20;
    const bool has_payload = data[3] & 0x10, meant = has_field && data[4] && data[5] & 0x80;
    const int pid = (data[1] & 0x1f) << 8 | data[2], number = data[3] & 15;
    const size_t head = TS_HEAD + (has_field ? 1u + data[4] : 0);
    lane *at = pid == NULL_PID ? NULL : lane_of(scan, pid);
    if (at && note_repeated(scan, at, offset, data, head))
        return;
    if (!erroneous && mr_ts_tables_take(&scan->tables, data))
        note_change(scan, offset);
    if (!at)
        return;
    const bool jumps = at->number >= 0 && !meant && number != ((at->number + has_payload) & 15);
    at->number = number;
    at->gap |= jumps && (begins || !at->open);
    if (begins && has_payload && head < TS_BYTES) {
        end_pes(scan, at, jumps);
        if (is_video(data + head, TS_BYTES - head))
            begin_pes(scan, at, offset);
        else
            lack_video(scan, at, erroneous, data[3] & SCRAMBLED);
    }
    if (!at->open)
        return;
    if (erroneous || (jumps && !begins))
        lose(scan, at);
    if (!has_payload || head >= TS_BYTES)
        return;
    at->filled = !has_field || !is_stuffed(data + TS_HEAD + 1, data[4]);
    add_payload(scan, at, data + head, TS_BYTES - head);
}

/* ---- finding packets --------------------------------------------------------------------------------------------- */

static bool is_grid(const uint8_t *data, size_t bytes, size_t at, size_t raw) {
    for (size_t i = 0; i < HITS; i++)
        if (at + i * raw >= bytes || data[at + i * raw] != TS_SYNC)
            return false;
    return true;
}

/* Finds the packet size. Returns how many bytes to skip before the first packet; all if there is none. */
static size_t find_grid(mr_ts_scan *scan, const uint8_t *data, size_t bytes) {
    static const int sizes[] = {TS_BYTES, WITH_TIMES, MOST_RAW};
    for (size_t at = 0; at < bytes; at++)
        for (size_t i = 0; data[at] == TS_SYNC && i < sizeof sizes / sizeof *sizes; i++)
            if (is_grid(data, bytes, at, (size_t)sizes[i])) {
                scan->raw = sizes[i];
                return at;
            }
    return bytes;
}

/* Takes complete packets; returns how many bytes were used. */
static size_t take_all(mr_ts_scan *scan, int64_t offset, const uint8_t *data, size_t bytes) {
    size_t at = 0;
    for (;;) {
        if (!scan->raw) {
            const size_t skipped = find_grid(scan, data + at, bytes - at);
            if (!scan->raw) /* the last bytes may begin a packet */
                return bytes - at < CARRY / 2 ? at : bytes - CARRY / 2;
            at += skipped;
        }
        for (; at + (size_t)scan->raw <= bytes && data[at] == TS_SYNC; at += (size_t)scan->raw)
            take(scan, offset + (int64_t)at, data + at);
        if (at == bytes || data[at] == TS_SYNC)
            return at;
        scan->raw = 0;
    }
}

static void begin_anew(mr_ts_scan *scan) {
    scan->lane_count = 0;
    scan->raw = 0;
    scan->carried = 0;
    scan->scrambled = 0;
}

void mr_ts_scan_feed(mr_ts_scan *scan, int64_t offset, const uint8_t *data, size_t bytes) {
    if (offset != scan->end)
        begin_anew(scan);
    scan->end = offset + (int64_t)bytes;
    while (bytes > 0) {
        if (scan->carried == 0) {
            const size_t used = take_all(scan, offset, data, bytes);
            data += used;
            offset += (int64_t)used;
            bytes -= used;
        }
        const size_t room = CARRY - scan->carried, more = bytes < room ? bytes : room;
        memcpy(scan->carry + scan->carried, data, more);
        scan->carried += more;
        data += more;
        offset += (int64_t)more;
        bytes -= more;
        const size_t used = take_all(scan, offset - (int64_t)scan->carried, scan->carry, scan->carried);
        scan->carried -= used;
        memmove(scan->carry, scan->carry + used, scan->carried);
    }
}

/* ---- another video ----------------------------------------------------------------------------------------------- */

const mr_ts_change *mr_ts_scan_change(const mr_ts_scan *scan) {
    return scan->tables.changed ? &scan->change : NULL;
}

void mr_ts_scan_watch(mr_ts_scan *scan, int pid) {
    mr_ts_tables_watch(&scan->tables, pid);
}

void mr_ts_scan_go_on(mr_ts_scan *scan) {
    mr_ts_tables_go_on(&scan->tables);
}

void mr_ts_scan_stay(mr_ts_scan *scan) {
    scan->tables.changed = NULL;
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static uint64_t oldest(const mr_ts_scan *scan) {
    return scan->count > MOST_PES ? scan->count - MOST_PES : 0;
}

static const pes *pes_at(const mr_ts_scan *scan, uint64_t index) {
    return &scan->ring[index % MOST_PES];
}

static bool find_pes(const mr_ts_scan *scan, int pid, int64_t offset, uint64_t *index) {
    for (uint64_t i = scan->count; i-- > oldest(scan);) {
        const pes *one = pes_at(scan, i);
        if (one->pid == pid && one->at >= offset && one->at - offset <= LEAD_MOST) {
            *index = i;
            return true;
        }
    }
    return false;
}

/* Finds the stream's next PES packet whose data continues there. */
static bool next_pes(const mr_ts_scan *scan, uint64_t *index) {
    const int pid = pes_at(scan, *index)->pid;
    for (uint64_t i = *index + 1; i < scan->count; i++)
        if (pes_at(scan, i)->pid == pid) {
            *index = i;
            return !pes_at(scan, i)->begins;
        }
    return false;
}

static bool lost_within(const pes *one, uint32_t from, uint32_t to) {
    return one->first_lost != none && one->last_lost >= from && one->first_lost < to;
}

static bool lost_behind(const pes *one, uint32_t from) {
    return one->cut || (one->last_lost != none && one->last_lost >= from);
}

/* Whether bytes are missing between the last picture's end and the PES packet. */
static bool is_gap(const mr_ts_scan *scan, const mr_ts_cursor *cursor, uint64_t index) {
    uint64_t at = cursor->pes;
    if (!cursor->known || at > index || at < oldest(scan))
        return pes_at(scan, index)->gap;
    bool gap = pes_at(scan, at)->last_lost != none && pes_at(scan, at)->last_lost >= cursor->offset;
    while (at < index && next_pes(scan, &at))
        gap |= pes_at(scan, at)->gap || (at < index && lost_behind(pes_at(scan, at), 0));
    return gap;
}

/* Follows a picture's bytes from the cursor. */
static void follow(const mr_ts_scan *scan, mr_ts_cursor *cursor, size_t bytes, mr_ts_found *found) {
    for (;;) {
        const pes *one = pes_at(scan, cursor->pes);
        const size_t left = one->bytes - cursor->offset;
        if (bytes + SLACK < left) {
            found->within |= lost_within(one, cursor->offset, cursor->offset + (uint32_t)bytes);
            cursor->offset += (uint32_t)bytes;
            return;
        }
        found->within |= lost_within(one, cursor->offset, one->bytes);
        found->lacks |= one->cut || is_short(one);
        cursor->offset = one->bytes;
        found->open = !one->ended;
        uint64_t next = cursor->pes;
        if (bytes <= left + SLACK || !next_pes(scan, &next))
            return;
        found->within |= pes_at(scan, next)->gap;
        bytes -= left;
        cursor->pes = next;
        cursor->offset = 0;
    }
}

mr_ts_found mr_ts_scan_find(const mr_ts_scan *scan, mr_ts_cursor *cursor, int pid, int64_t offset, size_t bytes) {
    mr_ts_found found = {0};
    uint64_t index = cursor->pes;
    found.known = offset < 0 ? cursor->known && index >= oldest(scan) : find_pes(scan, pid, offset, &index);
    if (!found.known) {
        cursor->known = false;
        return found;
    }
    if (!cursor->known || index != cursor->pes) {
        found.gap = is_gap(scan, cursor, index);
        *cursor = (mr_ts_cursor){.known = true, .pes = index};
    }
    follow(scan, cursor, bytes, &found);
    found.lacks |= found.within;
    return found;
}
