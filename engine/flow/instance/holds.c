#include "engine/flow/instance/holds.h"

#include "engine/base/grow.h"
#include "engine/data/store.h"

static int no_memory(void) {
    return mr_fail(MR_ERROR_MEMORY, "no memory for the work of a device");
}

int mr_hold_buffer(mr_holds *holds, mr_buffer *buffer) {
    if (!mr_grow((void **)&holds->buffers, holds->buffer_count, &holds->buffer_room, sizeof(mr_buffer *)))
        return no_memory();
    holds->buffers[holds->buffer_count++] = mr_buffer_ref(buffer);
    return MR_OK;
}

int mr_hold_result(mr_holds *holds, mr_result *result) {
    if (!mr_grow((void **)&holds->results, holds->result_count, &holds->result_room, sizeof(mr_result *)))
        return no_memory();
    holds->results[holds->result_count++] = mr_result_ref(result);
    return MR_OK;
}

int mr_hold_frame(mr_holds *holds, mr_frame *frame) {
    if (!mr_grow((void **)&holds->frames, holds->frame_count, &holds->frame_room, sizeof(mr_frame *)))
        return no_memory();
    holds->frames[holds->frame_count++] = mr_frame_ref(frame);
    return MR_OK;
}

void mr_holds_give_back(mr_holds *holds) {
    while (holds->buffer_count > holds->buffers_before)
        mr_buffer_unref(&holds->buffers[--holds->buffer_count]);
    while (holds->result_count > holds->results_before)
        mr_result_unref(&holds->results[--holds->result_count]);
}

void mr_holds_release_all(mr_holds *holds) {
    holds->buffers_before = holds->results_before = 0;
    mr_holds_give_back(holds);
    while (holds->frame_count)
        mr_frame_unref(&holds->frames[--holds->frame_count]);
}

void mr_holds_abandon(const mr_holds *holds, mr_abandonment *kept) {
    for (size_t i = 0; i < holds->frame_count; i++)
        mr_abandon_frame(kept, holds->frames[i]);
    for (size_t i = 0; i < holds->buffer_count; i++)
        mr_abandon_memory(kept, mr_buffer_ref(holds->buffers[i]), NULL);
    for (size_t i = 0; i < holds->result_count; i++)
        mr_abandon_memory(kept, NULL, mr_result_ref(holds->results[i]));
}

void mr_holds_fini(mr_holds *holds) {
    mr_holds_release(holds);
    mr_free(holds->buffers);
    mr_free(holds->results);
    mr_free(holds->frames);
}
