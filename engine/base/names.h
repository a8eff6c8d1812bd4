/* Strings that are kept once, for as long as the table: ids of stages, labels and reasons that came from another
 * process. The amount that each process may add is bounded, since it may be hostile, so that no process uses the room
 * of others. A string that is in the table already costs no share. Any thread. */
#pragma once

#include <stddef.h>

typedef struct mr_names mr_names;

/* The amount that one process has added. Zeroed at first; guarded by the table. */
typedef struct mr_names_share {
    size_t count, bytes;
} mr_names_share;

/* A table to which each share may add at most `most` strings with at most `most_bytes` in all. */
int mr_names_create(mr_names **names, size_t most, size_t most_bytes);
void mr_names_destroy(mr_names **names);

/* The string of these bytes, which hold no zero; the same pointer for the same bytes. `share` is that of its sender;
 * NULL: no known process. MR_ERROR_MEMORY; MR_ERROR_PROTOCOL if the share is used up. */
int mr_names_keep(mr_names *names, mr_names_share *share, const char *text, size_t bytes, const char **kept);
