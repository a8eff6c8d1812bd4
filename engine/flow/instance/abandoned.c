#include "engine/flow/instance/abandoned.h"

#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "engine/data/pool.h"
#include "engine/data/store.h"

/* One is set, the other is NULL. */
struct mr_abandoned {
    mr_buffer *buffer;
    mr_result *result;
};

void mr_abandonment_init(mr_abandonment *kept) {
    pthread_mutex_init(&kept->lock, NULL);
}

void mr_abandonment_fini(mr_abandonment *kept) {
    mr_abandonment_release(kept);
    pthread_mutex_destroy(&kept->lock);
}

static bool is_kept(const mr_abandonment *kept, const mr_buffer *buffer) {
    for (size_t i = 0; i < kept->count; i++)
        if (kept->items[i].buffer == buffer)
            return true;
    return false;
}

static void note(mr_abandonment *to, mr_abandoned item) {
    if (mr_grow((void **)&to->items, to->count, &to->room, sizeof *to->items))
        to->items[to->count++] = item;
}

/* Without room to note it, the memory is never released, which does no harm. A buffer that several planes or lists
 * share is replaced only once. */
void mr_abandon_memory(mr_abandonment *kept, mr_buffer *buffer, mr_result *result) {
    pthread_mutex_lock(&kept->lock);
    const bool again = buffer && is_kept(kept, buffer);
    if (!again)
        note(kept, (mr_abandoned){buffer, result});
    pthread_mutex_unlock(&kept->lock);
    if (again)
        mr_buffer_unref(&buffer);
    else if (buffer && buffer->pool)
        mr_pool_replace(buffer->pool);
}

void mr_abandon_frame(mr_abandonment *kept, const mr_frame *frame) {
    for (int i = 0; frame && i < MR_MAX_PLANES; i++)
        if (frame->plane[i].buffer)
            mr_abandon_memory(kept, mr_buffer_ref(frame->plane[i].buffer), NULL);
    if (frame && frame->results)
        mr_abandon_memory(kept, NULL, mr_result_ref(frame->results));
}

void mr_abandonment_release(mr_abandonment *kept) {
    for (size_t i = 0; i < kept->count; i++) {
        mr_buffer_unref(&kept->items[i].buffer);
        mr_result_unref(&kept->items[i].result);
    }
    mr_free(kept->items);
    kept->items = NULL;
    kept->count = kept->room = 0;
}

bool mr_abandonment_is_sound(const mr_abandonment *kept) {
    for (size_t i = 0; i < kept->count; i++)
        for (size_t other = 0; other < i; other++)
            if (kept->items[i].buffer && kept->items[i].buffer == kept->items[other].buffer)
                return false;
    return true;
}
