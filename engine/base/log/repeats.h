/* The rule for lines of the log that a peer or an input can cause as often as it likes: the first ones are written,
 * later ones are counted, and once a minute one line gives the count and the last text:
 *
 *     cam: away: ... Connection refused (next try in 0.5 s) (1,234 more like it in the last minute)
 *
 * Lines of one kind from one source share a key. A key's first MR_REPEATS_FIRST lines are written if each differs from
 * the one before. Further lines are only counted, while every minute has some. After a minute without any, the key is
 * forgotten. mr_log_repeating (millrace/log.h) applies the rule; the table below is the memory for it.
 *
 * Only one thread may use the table, or the caller must hold a lock. Times are nanoseconds from any monotonic clock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/log.h"

enum {
    MR_REPEATS_FIRST = 5,   /* written lines per key */
    MR_REPEATS_KEYS = 4096, /* further keys share one entry */
    MR_REPEATS_TEXT = 640,
    MR_REPEATS_BUCKETS = 256,
};

/* A zeroed one is empty. */
typedef struct mr_repeats {
    struct mr_repeats_entry *buckets[MR_REPEATS_BUCKETS];
    size_t count;
    int64_t due_ns; /* when the first entry is due; only if count > 0 */
} mr_repeats;

/* Whether the line is to be written now; otherwise it is counted. Call mr_repeats_pop before, until it has none. */
bool mr_repeats_take(mr_repeats *repeats, int64_t now_ns, uint64_t key, mr_log_level level, const char *text);
/* A line that sums up lines that were counted, if one is due; true if there is one. `all`: due or not. */
bool mr_repeats_pop(mr_repeats *repeats, int64_t now_ns, bool all, mr_log_level *level, char line[MR_REPEATS_TEXT]);
/* When the next line or entry is due; INT64_MAX: none. */
int64_t mr_repeats_due_ns(const mr_repeats *repeats);
void mr_repeats_fini(mr_repeats *repeats);

/* What a line is counted by. */
uint64_t mr_log_kind(const char *stage, const char *source, const char *format);
/* mr_log_repeating with a text that is ready, of a level that is wanted. */
void mr_log_of_kind(mr_log_level level, uint64_t kind, const char *text);
/* mr_log_repeating with ": KEY" at the end, a public key. Its 40 characters of Z85 can look like a URL with a password,
 * so they do not pass through mr_url_hide. */
void mr_log_repeating_key(mr_log_level level, const char *source, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A line without user and password of any URL, as it is. */
void mr_log_ready(mr_log_level level, const char *line);
/* Writes the counts for all lines that were only counted so far. Call it when a run ends. Any thread. */
void mr_log_settle(void);
