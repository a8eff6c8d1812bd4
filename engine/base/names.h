/* Strings that are kept once, as long as the table: stage ids, labels and reasons that came from another process. A
 * process may be hostile, so each can add only a bounded amount and cannot use up the room for others. A string that is
 * already in the table costs no share. Any thread. */
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

/* The string with these bytes, which must hold no zero; the same pointer for the same bytes. `share` is the sender's;
 * NULL: no known process. MR_ERROR_MEMORY; MR_ERROR_PROTOCOL if the share is used up. */
int mr_names_keep(mr_names *names, mr_names_share *share, const char *text, size_t bytes, const char **kept);
