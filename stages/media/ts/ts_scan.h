/* Finds lost bytes in transport streams (ISO/IEC 13818-1) from packet numbers: each stream (PID) counts packets from 0
 * to 15. A loss shows unless it is a multiple of sixteen packets.
 *
 * libavformat notices losses too, but marks the next picture that its parser gives, which can be the one before the
 * damaged one, or loses the mark. Here the place is exact. Bytes are fed as libavformat reads them, and PES packets are
 * kept with offsets. A picture is looked up by size and by libavformat's offset.
 *
 * Packets have 188 bytes, with 4 bytes before or 16 after each; sync bytes locate them. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mr_ts_scan mr_ts_scan;

/* Where the last picture that was looked up ended; zeros: none. */
typedef struct mr_ts_cursor {
    bool known;
    uint64_t pes;    /* counted from the first */
    uint32_t offset; /* within its elementary stream bytes */
} mr_ts_cursor;

typedef struct mr_ts_found {
    bool known; /* the picture was found */
    bool lacks; /* bytes are missing inside, or at the end */
    bool within; /* in it */
    bool gap;   /* bytes are missing between the previous lookup and this picture */
    bool open;  /* it reaches the last fed byte: later bytes may show that the end is missing */
} mr_ts_found;

/* NULL: no memory. */
mr_ts_scan *mr_ts_scan_create(void);
void mr_ts_scan_destroy(mr_ts_scan **scan);
/* Feeds the next bytes, at this stream offset. If the offset does not continue the last bytes, scanning restarts
 * there. */
void mr_ts_scan_feed(mr_ts_scan *scan, int64_t offset, const uint8_t *data, size_t bytes);
/* The offset after the last fed byte; 0: none. */
int64_t mr_ts_scan_end(const mr_ts_scan *scan);

/* How many bytes the last packet lacks; 0: complete, or packet positions are unknown. */
size_t mr_ts_scan_rest(const mr_ts_scan *scan);
/* Offsets of packets that came twice, which is allowed (2.4.3.3), since the last call. Demuxers would take the
 * repetition for new data. Beyond MR_TS_REPEATED, later ones are not recorded. */
enum { MR_TS_REPEATED = 256 };
const int64_t *mr_ts_scan_repeated(mr_ts_scan *scan, size_t *count);
/* How many scrambled pictures or PES packets the chosen video has had since the last restart: no demuxer finds them. */
uint64_t mr_ts_scan_scrambled(const mr_ts_scan *scan);

enum { MR_TS_RAW = 204, MR_TS_CHANGE = 2 * 6 * MR_TS_RAW };

/* Tables (ts_tables.h) that replace the current video by another. */
typedef struct mr_ts_change {
    int64_t begins, ends;         /* where the last table packet begins and ends, with surrounding bytes */
    uint8_t tables[MR_TS_CHANGE]; /* table packets */
    size_t bytes;
} mr_ts_change;

/* NULL: none. Later changes are not searched for until `go_on` or `stay`. */
const mr_ts_change *mr_ts_scan_change(const mr_ts_scan *scan);
/* Chooses the video; until then it is the first one. */
void mr_ts_scan_watch(mr_ts_scan *scan, int pid);
/* Call after a change: the other video is now the chosen one; with _stay the first one, since earlier bytes are read
 * again. */
void mr_ts_scan_go_on(mr_ts_scan *scan);
void mr_ts_scan_stay(mr_ts_scan *scan);

/* Looks up a picture in stream `pid`: `bytes` long, in the PES packet at `offset`; below 0: where the previous picture
 * ended. Moves the cursor past it. */
mr_ts_found mr_ts_scan_find(const mr_ts_scan *scan, mr_ts_cursor *cursor, int pid, int64_t offset, size_t bytes);
