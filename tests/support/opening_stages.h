/* Stages that misbehave while they are opened: they take long, block, wait for calls of others, or fail. Their outcomes
 * are counted in one place, so that one pipeline of them runs at a time. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "millrace/stage.h"

extern struct opening_seen {
    atomic_int tried, sinks_tried; /* calls of open */
    atomic_int opens, closes;
    atomic_int calls;    /* of map */
    atomic_int taken;    /* frames that have reached an end */
    atomic_int unopened; /* calls of an instance that is not open: never */
    atomic_int early;    /* calls before `all` instances were open, of one that must wait for them: never */
    atomic_int all;
} opening_seen;

/* Begins to count anew; so many instances are to be open before those are called that wait for all. */
void opening_forget(int all);
void opening_rest(int64_t ns);

/* read, work, last and take; and the source that programs push into. */
const mr_stage_type *const *opening_stage_types(void);
