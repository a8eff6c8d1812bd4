/* An HLS playlist (RFC 8216) with a stream's last files; each update replaces the whole playlist. One thread. All zero
 * is empty. */
#pragma once

#include "stages/sink/file_name.h"

enum { MR_HLS_MOST = 100000 };

typedef struct mr_hls_entry {
    char name[MR_OUTPUT_NAME];
    int64_t duration_ns, begun_ns; /* begun: on the wall clock */
    bool discontinuity;            /* it does not continue the previous one */
} mr_hls_entry;

typedef struct mr_hls_files {
    mr_hls_entry *entries;
    size_t count, room, most; /* most: limit for the playlist; 0: none */
    uint64_t sequence;        /* first entry's number */
    uint64_t breaks;          /* discontinuities no longer in the list */
} mr_hls_files;

/* MR_ERROR_MEMORY. */
int mr_hls_add(mr_hls_files *hls, const mr_hls_entry *entry);
/* `ended`: no more files follow. Errors: as mr_file_replace. */
int mr_hls_write(const mr_hls_files *hls, const char *path, bool ended);
void mr_hls_fini(mr_hls_files *hls);
