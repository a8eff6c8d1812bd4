/* Entries of the audit log (millrace/audit.h) that others can cause as often as they like: a limit on how many are
 * made. */
#pragma once

#include "millrace/audit.h"

/* Allows twenty entries at once, here or in the log, and then one a second. One thread only. */
typedef struct mr_audit_allowance {
    double entries;     /* that may still be made */
    int64_t counted_ns; /* when that was counted last */
    uint64_t left_out;  /* reported nowhere so far */
} mr_audit_allowance;

mr_audit_allowance mr_audit_allowance_at(int64_t now_ns);
/* Whether an entry may be written now. Counts it if so; otherwise counts that it was left out. */
bool mr_audit_may(mr_audit_allowance *allowance, int64_t now_ns);

/* One source's states: twenty entries at once, and then one a minute. The last entry must not show a state that has
 * passed for good: a state that stays is entered as soon as the rate allows. Zeroed: none was entered. One thread
 * only. */
typedef struct mr_audit_states {
    double entries;
    int64_t counted_ns;
    int entered, last; /* the state in the log, and the latest one */
    uint64_t changes;  /* since the last entry */
} mr_audit_states;

/* Whether the state is to be entered now; *left_out: how many changes before it were not. `final`: it is, in any
 * case. */
bool mr_audit_may_state(mr_audit_states *states, int64_t now_ns, int state, bool final, uint64_t *left_out);
/* How many were left out since that was asked last: a field of the next entry. */
uint64_t mr_audit_left_out(mr_audit_allowance *allowance);
/* At the end: if entries were left out since the last one, writes "left out" with how many, their event, and where,
 * such as "stage" and an id. */
void mr_audit_settle(mr_audit_allowance *allowance, const char *of, const char *where, const char *id);
