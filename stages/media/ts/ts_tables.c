#include "stages/media/ts/ts_tables.h"

#include <libavutil/crc.h>
#include <string.h>

enum { PAT_PID = 0, PAT = 0, PMT = 2, HEAD = 8, CHECKSUM = 4, FIELD = 0x20, PAYLOAD = 0x10, BEGINS = 0x40 };

/* ---- sections ---------------------------------------------------------------------------------------------------- */

static int number_of(const uint8_t *data, int mask) {
    return (data[0] << 8 | data[1]) & mask;
}

/* Section size including three header bytes; 0: not known yet. */
static size_t bytes_of(const mr_ts_section *section) {
    return section->count < 3 ? 0 : 3 + (size_t)number_of(section->bytes + 1, 0xfff);
}

static void keep_packet(mr_ts_section *section, const uint8_t *packet, bool begins) {
    section->packet_count = begins ? 0 : section->packet_count;
    section->open = section->packet_count < MR_TS_PACKETS;
    if (section->open)
        memcpy(section->packets[section->packet_count++], packet, MR_TS_BYTES);
}

/* Adds a packet; returns whether the section is complete and in use. If a packet holds several, only the first is
 * read. */
static bool add(mr_ts_section *section, const uint8_t *packet) {
    const bool begins = packet[1] & BEGINS;
    size_t at = 4 + (packet[3] & FIELD ? 1u + packet[4] : 0);
    if (!(packet[3] & PAYLOAD) || at >= MR_TS_BYTES || (!begins && !section->open))
        return false;
    keep_packet(section, packet, begins);
    if (begins) {
        at += 1u + packet[at];
        section->count = 0;
    }
    const size_t bytes = at < MR_TS_BYTES ? MR_TS_BYTES - at : 0, room = MR_TS_SECTION - section->count;
    const size_t more = bytes < room ? bytes : room;
    memcpy(section->bytes + section->count, packet + at, more);
    section->count += more;
    const size_t needed = bytes_of(section);
    if (!needed || needed > section->count)
        return false;
    section->open = false;
    return needed >= HEAD + CHECKSUM && section->bytes[5] & 1 &&
           av_crc(av_crc_get_table(AV_CRC_32_IEEE), UINT32_MAX, section->bytes, needed) == 0;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* 2.4.4.3. The program's index among known ones; the count if unknown. */
static size_t place_of(const mr_ts_tables *tables, int number, int pid) {
    size_t at = 0;
    while (at < tables->program_count && (tables->programs[at].number != number || tables->programs[at].pid != pid))
        at++;
    return at;
}

/* Keeps what is known about programs that stay. A list in several sections is not read. */
static void read_list(mr_ts_tables *tables) {
    enum { LAST_SECTION = 7 };
    const uint8_t *data = tables->list.bytes;
    const size_t end = bytes_of(&tables->list) - CHECKSUM;
    bool listed[MR_TS_PROGRAMS] = {false};
    if (data[0] != PAT || data[LAST_SECTION])
        return;
    for (size_t at = HEAD; at + 4 <= end; at += 4) {
        const int number = number_of(data + at, 0xffff), pid = number_of(data + at + 2, 0x1fff);
        const size_t place = place_of(tables, number, pid);
        if (number == 0 || place == MR_TS_PROGRAMS) /* the network's table, or one program too many */
            continue;
        if (place == tables->program_count)
            tables->programs[tables->program_count++] = (mr_ts_program){.number = number, .pid = pid};
        listed[place] = true;
    }
    for (size_t i = tables->program_count; i-- > 0;)
        if (!listed[i])
            tables->programs[i] = tables->programs[--tables->program_count];
}

/* 2.4.4.8. */
static void read_program(mr_ts_program *program) {
    const uint8_t *data = program->table.bytes;
    const size_t end = bytes_of(&program->table) - CHECKSUM;
    size_t at = HEAD + 4;
    program->stream_count = 0;
    for (at += at <= end ? (size_t)number_of(data + HEAD + 2, 0xfff) : 0; at + 5 <= end;
         at += 5 + (size_t)number_of(data + at + 3, 0xfff))
        if (program->stream_count < MR_TS_STREAMS)
            program->streams[program->stream_count++] =
                (mr_ts_entry){.pid = number_of(data + at + 1, 0x1fff), .type = data[at]};
}

/* ---- the video --------------------------------------------------------------------------------------------------- */

/* MPEG-1, MPEG-2, MPEG-4, H.264, HEVC, VVC, AVS, Dirac, VC-1. */
static const mr_ts_entry *video_of(const mr_ts_program *program) {
    static const uint8_t videos[] = {0x01, 0x02, 0x10, 0x1b, 0x24, 0x33, 0x42, 0xd1, 0xd2, 0xd4, 0xea};
    for (size_t i = 0; i < program->stream_count; i++)
        if (memchr(videos, program->streams[i].type, sizeof videos))
            return &program->streams[i];
    return NULL;
}

static const mr_ts_entry *find(const mr_ts_tables *tables, int pid) {
    for (size_t i = 0; i < tables->program_count; i++)
        for (size_t k = 0; k < tables->programs[i].stream_count; k++)
            if (tables->programs[i].streams[k].pid == pid)
                return &tables->programs[i].streams[k];
    return NULL;
}

static void watch(mr_ts_tables *tables, const mr_ts_entry *video) {
    tables->watches = video;
    tables->watched = video ? *video : (mr_ts_entry){0};
}

/* Newer tables may give it another type. */
void mr_ts_tables_watch(mr_ts_tables *tables, int pid) {
    if (!tables->watches || tables->watched.pid != pid)
        watch(tables, find(tables, pid));
}

void mr_ts_tables_go_on(mr_ts_tables *tables) {
    watch(tables, tables->changed ? video_of(tables->changed) : NULL);
    tables->changed = NULL;
}

static void compare(mr_ts_tables *tables, const mr_ts_program *program) {
    const mr_ts_entry *video = video_of(program), *now = find(tables, tables->watched.pid);
    if (!tables->watches && video)
        watch(tables, video);
    else if (video && (!now || now->type != tables->watched.type))
        tables->changed = program;
}

bool mr_ts_tables_take(mr_ts_tables *tables, const uint8_t *packet) {
    const int pid = number_of(packet + 1, 0x1fff);
    if (tables->changed)
        return false;
    if (pid == PAT_PID && add(&tables->list, packet))
        read_list(tables);
    for (size_t i = 0; pid != PAT_PID && i < tables->program_count && !tables->changed; i++) {
        mr_ts_program *program = &tables->programs[i];
        if (program->pid != pid || !add(&program->table, packet) || program->table.bytes[0] != PMT ||
            number_of(program->table.bytes + 3, 0xffff) != program->number)
            continue;
        read_program(program);
        compare(tables, program);
    }
    return tables->changed;
}
