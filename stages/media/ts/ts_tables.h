/* Reads the tables that locate a transport stream's video: PAT and PMT (ISO/IEC 13818-1, 2.4.4). They show whether
 * another video replaces the current one, with another PID or codec; libavformat does not follow that.
 *
 * A table counts only if the checksum is right and it is in use. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MR_TS_BYTES = 188,
    MR_TS_PROGRAMS = 16,
    MR_TS_STREAMS = 32,
    MR_TS_SECTION = 1024,
    MR_TS_PACKETS = 6 /* that a section has */
};

typedef struct mr_ts_section {
    uint8_t bytes[MR_TS_SECTION];
    size_t count;  /* bytes that came */
    bool open;     /* more are to come */
    uint8_t packets[MR_TS_PACKETS][MR_TS_BYTES];
    size_t packet_count;
} mr_ts_section;

typedef struct mr_ts_entry {
    int pid, type; /* stream_type */
} mr_ts_entry;

typedef struct mr_ts_program {
    int number, pid;
    mr_ts_section table;
    mr_ts_entry streams[MR_TS_STREAMS];
    size_t stream_count;
} mr_ts_program;

/* All zero: no table has come. */
typedef struct mr_ts_tables {
    mr_ts_section list;          /* the PAT */
    mr_ts_program programs[MR_TS_PROGRAMS];
    size_t program_count;
    bool watches;
    mr_ts_entry watched;         /* the video; the first one found until it is chosen */
    const mr_ts_program *changed; /* program with the replacing video; NULL: not replaced */
} mr_ts_tables;

/* Reads the next packet, starting at the sync byte. Returns true if the table replaces the video. Further packets are
 * then ignored until mr_ts_tables_go_on. */
bool mr_ts_tables_take(mr_ts_tables *tables, const uint8_t *packet);
/* Chooses the video. */
void mr_ts_tables_watch(mr_ts_tables *tables, int pid);
/* Switches to the video that replaced the other one. */
void mr_ts_tables_go_on(mr_ts_tables *tables);
