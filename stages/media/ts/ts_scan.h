/* Lost bytes of transport streams (ISO/IEC 13818-1), found by their packets alone: each stream (PID) numbers its
 * packets from 0 to 15. Missing packets show, unless sixteen in a row, or a multiple of that, are missing.
 *
 * libavformat notices the same, but marks the picture that its parser gives next, which is one before the damaged one,
 * or loses the mark. Here the place is exact: bytes are fed as libavformat reads them, PES packets are kept with their
 * offsets, and a picture is looked up by the offset that libavformat gives it, and its size.
 *
 * Packets of 188 bytes, with 4 before or 16 behind each, are found by their sync bytes. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_ts_scan mr_ts_scan;

/* The end of the last picture that was looked up; zeros: none was. */
typedef struct mr_ts_cursor {
    bool known;
    uint64_t pes;    /* counted from the first */
    uint32_t offset; /* in the bytes of pictures in it */
} mr_ts_cursor;

typedef struct mr_ts_found {
    bool known; /* the picture was found */
    bool lacks; /* bytes are missing in it, or at its end */
    bool within; /* in it */
    bool gap;   /* bytes are missing between the picture looked up before and it */
    bool open;  /* it reaches up to the last byte that was fed: later bytes may show that its end is missing */
} mr_ts_found;

/* NULL: out of memory. */
mr_ts_scan *mr_ts_scan_create(void);
void mr_ts_scan_destroy(mr_ts_scan **scan);
/* The next bytes, of that offset in the stream. Another offset than that behind the last byte begins anew there. */
void mr_ts_scan_feed(mr_ts_scan *scan, int64_t offset, const uint8_t *data, size_t bytes);
/* The offset behind the last byte that was fed; 0: none was. */
int64_t mr_ts_scan_end(const mr_ts_scan *scan);

/* Bytes that the last packet lacks; 0: it is whole, or where packets begin is not known. */
size_t mr_ts_scan_rest(const mr_ts_scan *scan);
/* Offsets of packets that came a second time, as they may (2.4.3.3), since the last call. Demuxers take them for other
 * data. Of more than MR_TS_REPEATED the later ones are missing. */
enum { MR_TS_REPEATED = 256 };
const int64_t *mr_ts_scan_repeated(mr_ts_scan *scan, size_t *count);
/* Pictures of the video that is read, or PES packets, that are scrambled: no demuxer finds them. Counted since bytes
 * last began anew. */
uint64_t mr_ts_scan_scrambled(const mr_ts_scan *scan);

enum { MR_TS_RAW = 204, MR_TS_CHANGE = 2 * 6 * MR_TS_RAW };

/* Tables (ts_tables.h) that put another video in the place of the one that is read. */
typedef struct mr_ts_change {
    int64_t begins, ends;         /* offsets of the last packet of these tables, with what is around it */
    uint8_t tables[MR_TS_CHANGE]; /* their packets */
    size_t bytes;
} mr_ts_change;

/* NULL: there is none. Later ones are not looked for, until `go_on` or `stay`. */
const mr_ts_change *mr_ts_scan_change(const mr_ts_scan *scan);
/* The video that is read is that one; until then it is the first. */
void mr_ts_scan_watch(mr_ts_scan *scan, int pid);
/* The video is the other one from now on; or it is still the same, as what was read before is read again. */
void mr_ts_scan_go_on(mr_ts_scan *scan);
void mr_ts_scan_stay(mr_ts_scan *scan);

/* Looks up the next picture of stream `pid`: `bytes` long, from the PES packet at `offset`; below 0: from where the one
 * before ended. Moves the cursor behind it. */
mr_ts_found mr_ts_scan_find(const mr_ts_scan *scan, mr_ts_cursor *cursor, int pid, int64_t offset, size_t bytes);
