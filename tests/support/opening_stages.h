/* Stages that misbehave while opening: they take long, block, wait for others' calls, or fail. One place counts all
 * outcomes, so only one pipeline can use them at a time. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "millrace/stage.h"

extern struct opening_seen {
    atomic_int tried, sinks_tried; /* calls to open */
    atomic_int opens, closes;
    atomic_int calls;    /* calls to map */
    atomic_int taken;    /* frames that reached an end */
    atomic_int unopened; /* calls to an unopened instance; must stay 0 */
    atomic_int early;    /* calls before `all` instances were open, to one that must wait for them; must stay 0 */
    atomic_int all;
} opening_seen;

/* Resets the counts; `all` instances must be open before those that wait for all may be called. */
void opening_forget(int all);
void opening_rest(int64_t ns);

/* read, work, last and take; and the source that programs push into. */
const mr_stage_type *const *opening_stage_types(void);
