/* Entries of the audit log (millrace/audit.h) that others can cause as often as they like: a limit on how many are
 * made. */
#pragma once

#include "millrace/audit.h"

/* Twenty entries at once, here or in the log, and then one a second. Of one thread. */
typedef struct mr_audit_allowance {
    double entries;     /* that may still be made */
    int64_t counted_ns; /* when that was counted last */
    uint64_t left_out;  /* told nowhere so far */
} mr_audit_allowance;

mr_audit_allowance mr_audit_allowance_at(int64_t now_ns);
/* If it may be told now; then that is counted, and otherwise that it was left out. */
bool mr_audit_may(mr_audit_allowance *allowance, int64_t now_ns);

/* States of one source: twenty entries at once, and then one a minute. The last entry is never of a state that has
 * passed for good: one that stays is entered as soon as it may be. Zeroed: none was entered. Of one thread. */
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
/* At the end: if entries were left out since the last one, writes "left out" with their number, their event, and their
 * place, such as "stage" and its id. */
void mr_audit_settle(mr_audit_allowance *allowance, const char *of, const char *where, const char *id);
