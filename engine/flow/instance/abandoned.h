/* Memory that a failed device may use as long as its streams exist, since it can no longer report when it is done. Any
 * thread. Internal to the engine. */
#pragma once

#include <pthread.h>

#include "engine/data/pool.h"
#include "millrace/frame.h"

typedef struct mr_abandoned mr_abandoned;

/* Only abandoned.c may touch the fields. */
typedef struct mr_abandonment {
    pthread_mutex_t lock;
    size_t count, room;
    mr_abandoned *items;
} mr_abandonment;

void mr_abandonment_init(mr_abandonment *kept);
void mr_abandonment_fini(mr_abandonment *kept);
/* Keeps the frame's memory but not the frame, since the receipt must close. Accepts NULL. */
void mr_abandon_frame(mr_abandonment *kept, const mr_frame *frame);
/* Keeps a buffer or a result; takes over the reference. */
void mr_abandon_memory(mr_abandonment *kept, mr_buffer *buffer, mr_result *result);
/* Call it when the streams are gone. */
void mr_abandonment_release(mr_abandonment *kept);
/* For tests: no buffer is kept twice. */
bool mr_abandonment_is_sound(const mr_abandonment *kept);
