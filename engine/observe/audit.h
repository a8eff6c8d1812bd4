/* The audit log: connections with their keys, refusals, runs, and changes to a run.
 *
 * It belongs to the process, like the log: one file for all pipelines, opened before they are. An entry is one line of
 * JSON,
 *
 *     {"time":"2026-11-21T11:19:39.123456Z","pid":4711,"event":"peer refused","pipeline":"...",...}
 *
 * with `time` in UTC and the fields of the event after `event`, each a text, a whole number or null. Lines are only
 * ever appended (O_APPEND), each with one write(2) under the file's lock (flock), so that several processes may share a
 * file, and each is on the disk (fdatasync) before mr_audit returns: events are rare, and the last one before a crash of
 * the machine matters. A line is whole or absent: if the disk is full, the part that was written is removed again; if that
 * fails, or a process died while writing, the next entry begins on a line of its own. Entries that cannot be written are
 * logged once and counted ("entries lost", as soon as there is room again), and never stop a run.
 *
 * Any thread, but no other call may run during open and close. Without an open log mr_audit does nothing. */
#ifndef MILLRACE_OBSERVE_AUDIT_H
#define MILLRACE_OBSERVE_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

/* Opens the file to append to it, or makes it (mode 0640). MR_ERROR_PERMISSION, MR_ERROR_IO. */
int mr_audit_open(const char *path);
void mr_audit_close(void);
/* True if there is a log; to be asked before values are computed that cost time. */
bool mr_audit_wanted(void);

typedef struct mr_audit_field {
    const char *name; /* NULL behind the last field */
    const char *text; /* NULL is null, unless it is a number */
    uint64_t number;
    bool counts; /* it is a number */
} mr_audit_field;

static inline mr_audit_field mr_audit_text(const char *name, const char *text) {
    return (mr_audit_field){.name = name, .text = text};
}

static inline mr_audit_field mr_audit_number(const char *name, uint64_t number) {
    return (mr_audit_field){.name = name, .number = number, .counts = true};
}

/* One entry, with fields made by the two above: mr_audit("event", mr_audit_text("a", "b"), mr_audit_number("c", 1)). */
#define mr_audit(event, ...) mr_audit_enter(event, (const mr_audit_field[]){__VA_ARGS__, {.name = NULL}})
void mr_audit_enter(const char *event, const mr_audit_field *fields);

/* How often that is told, here or in the log, which others can bring about as often as they like: twenty times at
 * once, and then once a second. Of one thread. */
typedef struct mr_audit_allowance {
    double entries;     /* that may still be made */
    int64_t counted_ns; /* when that was counted last */
    uint64_t left_out;  /* told nowhere so far */
} mr_audit_allowance;

mr_audit_allowance mr_audit_allowance_at(int64_t now_ns);
/* If it may be told now; then that is counted, and otherwise that it was left out. */
bool mr_audit_may(mr_audit_allowance *allowance, int64_t now_ns);
/* How many were left out since that was asked last: a field of the next entry. */
uint64_t mr_audit_left_out(mr_audit_allowance *allowance);
/* At the end: if entries were left out since the last one, writes "left out" with their number, their event, and their place,
 * such as "stage" and its id. */
void mr_audit_settle(mr_audit_allowance *allowance, const char *of, const char *where, const char *id);

#endif
