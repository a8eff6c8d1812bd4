#include "engine/flow/run/ends.h"

#include <stdatomic.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

typedef struct source_ends {
    size_t all;
    _Atomic size_t left;  /* ends still to come */
    _Atomic bool leaves;  /* ends that came leave the slot to another source */
} source_ends;

struct mr_ends {
    mr_task *task;
    source_ends of[]; /* by source */
};

int mr_ends_create(mr_ends **ends, size_t source_count, mr_task *task) {
    mr_ends *made = mr_calloc(1, sizeof *made + source_count * sizeof *made->of);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for waiting sources");
    made->task = task;
    *ends = made;
    return MR_OK;
}

void mr_ends_destroy(mr_ends **ends) {
    mr_free(*ends);
    *ends = NULL;
}

void mr_ends_expect(mr_ends *ends, uint32_t source, size_t count) {
    ends->of[source].all += count;
    atomic_store(&ends->of[source].left, ends->of[source].all);
}

void mr_ends_note(mr_ends *ends, uint32_t source, bool leaves) {
    if (!ends || !ends->of[source].all)
        return;
    if (leaves)
        atomic_store(&ends->of[source].leaves, true);
    if (atomic_fetch_sub(&ends->of[source].left, 1) == 1)
        mr_task_wake(ends->task);
}

bool mr_ends_have_passed(const mr_ends *ends, uint32_t source) {
    return !atomic_load(&ends->of[source].left);
}

bool mr_ends_leave(const mr_ends *ends, uint32_t source) {
    return atomic_load(&ends->of[source].leaves);
}

void mr_ends_renew(mr_ends *ends, uint32_t source) {
    mr_ends_expect(ends, source, 0);
    atomic_store(&ends->of[source].leaves, false);
}
