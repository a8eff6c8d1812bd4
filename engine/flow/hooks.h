/* What the engine's own stage types (mr_stage_type.hooks) do beside what a stage can do: the ends of cuts see marks, and
 * links. Each may be NULL. Internal to the engine. */
#ifndef MILLRACE_FLOW_HOOKS_H
#define MILLRACE_FLOW_HOOKS_H

#include "engine/flow/link.h"
#include "millrace/stage.h"

typedef struct mr_instance mr_instance;

typedef struct mr_stage_hooks {
    /* Passes a mark on, in its place among the frames. MR_ERROR_AGAIN: to be called again with the same mark when the
     * instance's first entry is woken. The instance has one entry. */
    int (*mark)(mr_stage *self, const mr_item *mark);
    /* The entry's run is over: no more frames come before it is woken again. */
    void (*idle)(mr_stage *self);
    /* The instance will not be opened, and its sources will not be ended by others. Any thread. */
    void (*never_opened)(mr_instance *instance);
} mr_stage_hooks;

#endif
