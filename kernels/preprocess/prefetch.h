/* Fetches rows that are needed soon into the second-level cache while others are computed. The first-level cache cannot
 * take them: it accepts few lines at a time, and would lose them before they are needed.
 *
 * Where fetching takes longer than computing, the memory must never be idle. Then the rows that a batch of results
 * needs are fetched one after another, a few cache lines in each step. Otherwise the rows that one result needs are
 * fetched side by side while another result's rows are weighed, which needs fewer instructions.
 *
 * These are addresses and not pointers, since fetching may pass a picture's end. Threads: one at a time. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { MR_PREFETCH_LINE = 64, MR_PREFETCH_PIECES = 16, MR_PREFETCH_SECOND_CACHE = 2 };

/* Neighbouring rows in a plane. */
typedef struct mr_prefetched_rows {
    uintptr_t row;      /* what is fetched next from the first */
    ptrdiff_t stride;   /* bytes */
    int bytes, rows;    /* bytes per row, and how many rows */
} mr_prefetched_rows;

/* Zeroed: nothing is fetched. */
typedef struct mr_prefetch {
    uintptr_t at, end;        /* the next line, and where its row ends */
    ptrdiff_t apart, onward;  /* from line to line in a step, and from step to step */
    int lines;                /* in a step; 0 if all is fetched */
    int skip;                 /* 1: steps with odd numbers fetch nothing */
    int piece, pieces;        /* the next one, and how many there are */
    mr_prefetched_rows of[MR_PREFETCH_PIECES]; /* none without rows */
} mr_prefetch;

static inline void mr_fetch_line(uintptr_t at) {
    __builtin_prefetch((const void *)at, 0, MR_PREFETCH_SECOND_CACHE);
}

/* Fetches each row's next cache line, so that one call per line in a row fetches them all. */
static inline void mr_fetch_column(mr_prefetched_rows *ahead) {
    uintptr_t at = ahead->row;
    for (int i = 0; i < ahead->rows; i++, at += (uintptr_t)ahead->stride)
        mr_fetch_line(at);
    ahead->row += MR_PREFETCH_LINE;
}

/* Continues with the next row. What a step fetched after the last row does no harm. */
static inline void mr_prefetch_next_row(mr_prefetch *ahead) {
    if (ahead->piece == ahead->pieces) {
        ahead->lines = 0;
        return;
    }
    mr_prefetched_rows *of = &ahead->of[ahead->piece];
    ahead->at = of->row;
    ahead->end = of->row + (uintptr_t)of->bytes;
    of->row += (uintptr_t)of->stride;
    of->rows--;
    ahead->piece += of->rows == 0;
}

/* Begins to fetch the pieces, one row after the other, within about `steps` steps; every other step is used. */
static inline void mr_prefetch_begin(mr_prefetch *ahead, int steps) {
    int lines = 0, used = steps / 2;
    for (int i = 0; i < ahead->pieces; i++)
        lines += ahead->of[i].rows * ((ahead->of[i].bytes + MR_PREFETCH_LINE - 1) / MR_PREFETCH_LINE);
    ahead->piece = 0;
    ahead->lines = used > 0 ? (lines + used - 1) / used : 0;
    ahead->skip = 1;
    ahead->apart = MR_PREFETCH_LINE;
    ahead->onward = (ptrdiff_t)MR_PREFETCH_LINE * ahead->lines;
    if (ahead->lines > 0)
        mr_prefetch_next_row(ahead);
}

/* Begins to fetch rows side by side: a line of each in every step. */
static inline void mr_prefetch_begin_columns(mr_prefetch *ahead, mr_prefetched_rows rows) {
    ahead->at = rows.row;
    ahead->end = rows.row + (uintptr_t)rows.bytes;
    ahead->apart = rows.stride;
    ahead->onward = MR_PREFETCH_LINE;
    ahead->lines = rows.rows;
    ahead->skip = ahead->piece = ahead->pieces = 0;
}

/* Fetches the lines for step `number` in a row. */
static inline void mr_fetch(mr_prefetch *ahead, int number) {
    int lines = ahead->lines;
    if (lines == 0 || (number & ahead->skip))
        return;
    uintptr_t at = ahead->at;
    const uintptr_t apart = (uintptr_t)ahead->apart;
    do {
        mr_fetch_line(at);
        at += apart;
    } while (--lines > 0);
    ahead->at += (uintptr_t)ahead->onward;
    if (ahead->at >= ahead->end)
        mr_prefetch_next_row(ahead);
}
