/* Room behind a stage, for each source by itself.
 *
 * A stage that serves several sources passes their frames on in the order in which it took them. If a lane behind it is
 * full, the frame for that lane holds up those of all other sources. That is a deadlock if ways meet again in a join:
 * one way is held up by a frame of source a, the other by a frame of source b, and the join waits for a frame of each.
 *
 * So if a join lies behind, such a stage takes a frame only if every lane that may get its output has room for it. Then
 * no source waits for another. A frame that was taken has credit until its call's outputs have been pushed. If several
 * frames come of one, all but the first are without credit, and may be held up.
 *
 * Threads: under the instance's lock. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_CREDIT_H
#define MILLRACE_FLOW_INSTANCE_CREDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

/* Read and written by the functions below alone. Zero: frames need no credit. */
typedef struct mr_credit {
    uint32_t *taken; /* by source: frames that have credit */
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
/* If it is needed: the frames of a source that have credit. */
static inline uint32_t mr_credit_of(const mr_credit *credit, uint32_t source) {
    return credit->taken[source];
}
/* If it is needed: one more frame has credit. */
static inline void mr_credit_give(mr_credit *credit, uint32_t source) {
    credit->taken[source]++;
}
static inline void mr_credit_return(mr_credit *credit, uint32_t source) {
    if (credit->taken)
        credit->taken[source]--;
}

#endif
