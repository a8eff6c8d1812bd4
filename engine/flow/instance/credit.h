/* Downstream room, counted for each source separately.
 *
 * A stage that serves several sources must emit frames in the order in which it took them. If one source's lane
 * downstream is full, its frame holds up all other sources. Paths that meet again in a join can then deadlock: one path
 * is held up by source a, the other by source b, and the join needs a frame from each.
 *
 * So if a join follows, such a stage takes a frame only if every lane that may get the output has room. No source then
 * waits for another. A taken frame has credit until the call's outputs are pushed. If a call makes several frames from
 * one, only the first has credit; the others may be held up.
 *
 * Needs the instance's lock. Internal to the engine. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* Only the functions below may touch the fields. All zero: frames need no credit. */
typedef struct mr_credit {
    uint32_t *taken; /* by source: frames with credit */
} mr_credit;

/* MR_ERROR_MEMORY. */
static inline int mr_credit_create(mr_credit *credit, size_t source_count) {
    credit->taken = mr_calloc(source_count, sizeof *credit->taken);
    return credit->taken ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
}
static inline void mr_credit_destroy(mr_credit *credit) {
    mr_free(credit->taken);
    credit->taken = NULL;
}
static inline bool mr_credit_is_needed(const mr_credit *credit) {
    return credit->taken;
}
/* Only if credit is needed: frames from this source that have credit. */
static inline uint32_t mr_credit_of(const mr_credit *credit, uint32_t source) {
    return credit->taken[source];
}
/* Only if credit is needed: one more frame has credit. */
static inline void mr_credit_give(mr_credit *credit, uint32_t source) {
    credit->taken[source]++;
}
static inline void mr_credit_return(mr_credit *credit, uint32_t source) {
    if (credit->taken)
        credit->taken[source]--;
}
