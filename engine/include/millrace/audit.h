/* The audit log: connections with their keys, refusals, runs, and changes to a run.
 *
 *     mr_audit_open("audit.jsonl");
 *     mr_audit("run begins", mr_audit_text("pipeline", "lobby"), mr_audit_number("user", getuid()));
 *     ...
 *     mr_audit_close();
 *
 * The audit log belongs to the process, like the log: one file for all pipelines. Open it before them. The library
 * makes entries for connections and for changes to a run; the program adds others. An entry is one line of JSON:
 *
 *     {"time":"2026-11-21T11:19:39.123456Z","pid":4711,"event":"peer refused","pipeline":"...",...}
 *
 * `time` is in UTC. The event's fields follow `event`; each is a text, a whole number or null. Lines are only appended
 * (O_APPEND), each with one write(2) under the file's lock (flock), so several processes can share a file. Each line is
 * on the disk (fdatasync) before mr_audit returns: events are rare, and the last one before a machine crash matters. A
 * line is whole or absent. If the disk is full, the written part is removed; if that fails, or a process died while
 * writing, the next entry starts on a new line. Entries that cannot be written are logged once and counted ("entries
 * lost", once there is room again). They never stop a run.
 *
 * Any thread may call these functions, but no other call may run during open and close. Without an open log mr_audit
 * does nothing. */
#ifndef MILLRACE_AUDIT_H
#define MILLRACE_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the file to append to it, or creates it (mode 0640). Closes a log that is open. On failure the log is
 * unchanged. MR_ERROR_PERMISSION, MR_ERROR_IO. */
MR_API int mr_audit_open(const char *path);
/* Reopens the file by name if the log is open, since it may have been moved (logrotate). On failure the log continues
 * in the old file. Any thread, also while entries are made. */
MR_API int mr_audit_reopen(void);
/* Closes the log. Allowed without an open log. */
MR_API void mr_audit_close(void);
/* True if there is a log. Check it before you compute expensive values. */
MR_API bool mr_audit_wanted(void);

typedef struct mr_audit_field {
    const char *name; /* NULL after the last field */
    const char *text; /* UTF-8; NULL is null, unless the field is a number */
    uint64_t number;  /* below 2^63 */
    bool counts;      /* the field is a number */
} mr_audit_field;

static inline mr_audit_field mr_audit_text(const char *name, const char *text) {
    mr_audit_field field = {name, text, 0, false};
    return field;
}

static inline mr_audit_field mr_audit_number(const char *name, uint64_t number) {
    mr_audit_field field = {name, NULL, number, true};
    return field;
}

/* Makes one entry. The fields are borrowed for the call and end with a NULL name. */
MR_API void mr_audit_enter(const char *event, const mr_audit_field *fields);
/* For C: an entry with fields from the two functions above. */
#define mr_audit(event, ...) mr_audit_enter(event, (const mr_audit_field[]){__VA_ARGS__, {.name = NULL}})

#ifdef __cplusplus
}
#endif
#endif
