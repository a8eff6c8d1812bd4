/* The tables of a transport stream that say where its video is: PAT and PMT (ISO/IEC 13818-1, 2.4.4). They show if the
 * video that is read is replaced by one of another number (PID) or codec, which libavformat does not follow.
 *
 * A table is read if its checksum is right and if it is in use already. One thread. */
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

/* All zero: none has come. */
typedef struct mr_ts_tables {
    mr_ts_section list;          /* the PAT */
    mr_ts_program programs[MR_TS_PROGRAMS];
    size_t program_count;
    bool watches;
    mr_ts_entry watched;         /* the video: until it is chosen, the first of all */
    const mr_ts_program *changed; /* which has the video that replaces it; NULL: it was not replaced */
} mr_ts_tables;

/* Reads the next packet, which begins with its sync byte. True if its table replaces the video; then no other packet is
 * looked at until mr_ts_tables_go_on. */
bool mr_ts_tables_take(mr_ts_tables *tables, const uint8_t *packet);
/* The video that is read is that one. */
void mr_ts_tables_watch(mr_ts_tables *tables, int pid);
/* Watches the video that has replaced the other one. */
void mr_ts_tables_go_on(mr_ts_tables *tables);
