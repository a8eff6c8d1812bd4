/* What the engine's own stage types may see beside what any stage sees. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_HOOKS_H
#define MILLRACE_FLOW_INSTANCE_HOOKS_H

#include "engine/flow/link/link.h"

typedef struct mr_instance mr_instance;

/* Hooks of the engine's own stage types (mr_stage_type.hooks) beside those of any stage: the ends of cuts see marks,
 * and links. Each may be NULL. */
typedef struct mr_stage_hooks {
    /* Passes a mark on, in its place among the frames. MR_ERROR_AGAIN: call again with the same mark when the
     * instance's first entry is woken. The instance has one entry. */
    int (*mark)(mr_stage *self, const mr_item *mark);
    /* Whether `coming` frames of the source are taken already and there is room for one more; if not, the instance's
     * first entry will be woken when there may be. Under its lock, if it has one. */
    bool (*has_room)(mr_stage *self, uint32_t source, uint32_t coming);
    /* The entry's run is over: no more frames come before it is woken again. */
    void (*idle)(mr_stage *self);
    /* The instance will not be opened, and its sources will not be ended by others. Any thread. */
    void (*never_opened)(mr_instance *instance);
} mr_stage_hooks;

#endif
