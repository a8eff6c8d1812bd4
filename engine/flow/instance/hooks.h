/* What only the engine's own stage types can see. Internal to the engine. */
#pragma once

#include "engine/flow/link/link.h"

typedef struct mr_instance mr_instance;

/* Extra hooks for the engine's own stage types (mr_stage_type.hooks): the ends of cuts see marks and links. Each may be
 * NULL. */
typedef struct mr_stage_hooks {
    /* Passes a mark on, in order with the frames. MR_ERROR_AGAIN: call it again with the same mark when the instance's
     * first entry is woken. The instance must have one entry. */
    int (*mark)(mr_stage *self, const mr_item *mark);
    /* Whether there is room for one more frame when `coming` frames from this source are already taken. If not, the
     * instance's first entry will be woken when there may be. The instance's lock, if any, is held. */
    bool (*has_room)(mr_stage *self, uint32_t source, uint32_t coming);
    /* The entry's run is over: no more frames come until it is woken. */
    void (*idle)(mr_stage *self);
    /* The instance will not open, and nothing else ends its sources. Any thread. */
    void (*never_opened)(mr_instance *instance);
} mr_stage_hooks;
