/* The audit log: connections with their keys, refusals, runs, and changes to a run.
 *
 *     mr_audit_open("audit.jsonl");
 *     mr_audit("run begins", mr_audit_text("pipeline", "lobby"), mr_audit_number("user", getuid()));
 *     ...
 *     mr_audit_close();
 *
 * It belongs to the process, like the log: one file for all pipelines, opened before they are. The library makes the
 * entries of connections and of changes to a run; the program adds its own. An entry is one line of JSON,
 *
 *     {"time":"2026-11-21T11:19:39.123456Z","pid":4711,"event":"peer refused","pipeline":"...",...}
 *
 * with `time` in UTC and the fields of the event after `event`, each a text, a whole number or null. Lines are only
 * ever appended (O_APPEND), each with one write(2) under the file's lock (flock), so that several processes may share a
 * file, and each is on the disk (fdatasync) before mr_audit returns: events are rare, and the last one before a crash
 * of the machine matters. A line is whole or absent: if the disk is full, the part that was written is removed again;
 * if that fails, or a process died while writing, the next entry begins on a line of its own. Entries that cannot be
 * written are logged once and counted ("entries lost", as soon as there is room again), and never stop a run.
 *
 * Any thread, but no other call may run during open and close. Without an open log mr_audit does nothing. */
#ifndef MILLRACE_AUDIT_H
#define MILLRACE_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the file to append to it, or creates it (mode 0640); a log that is open is closed then. On failure the log is
 * as before. MR_ERROR_PERMISSION, MR_ERROR_IO. */
MR_API int mr_audit_open(const char *path);
/* Opens the file of that name anew, if the log is open: it may have been moved (logrotate). On failure the log stays as
 * it is, and goes to the moved file. Any thread, also while entries are made. */
MR_API int mr_audit_reopen(void);
/* Also without an open log. */
MR_API void mr_audit_close(void);
/* True if there is a log; to be asked before values are computed that cost time. */
MR_API bool mr_audit_wanted(void);

typedef struct mr_audit_field {
    const char *name; /* NULL behind the last field */
    const char *text; /* UTF-8; NULL is null, unless it is a number */
    uint64_t number;  /* below 2^63 */
    bool counts;      /* it is a number */
} mr_audit_field;

static inline mr_audit_field mr_audit_text(const char *name, const char *text) {
    mr_audit_field field = {name, text, 0, false};
    return field;
}

static inline mr_audit_field mr_audit_number(const char *name, uint64_t number) {
    mr_audit_field field = {name, NULL, number, true};
    return field;
}

/* One entry; the fields are borrowed for the call and end with one whose name is NULL. */
MR_API void mr_audit_enter(const char *event, const mr_audit_field *fields);
/* In C: an entry with fields made by the two functions above. */
#define mr_audit(event, ...) mr_audit_enter(event, (const mr_audit_field[]){__VA_ARGS__, {.name = NULL}})

#ifdef __cplusplus
}
#endif
#endif
