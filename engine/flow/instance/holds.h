/* References that a slot must keep until a call's device work is done. Only holds.c and the functions below may touch
 * the fields. Internal to the engine. */
#pragma once

#include "engine/flow/instance/abandoned.h"

/* All zero: holds nothing. */
typedef struct mr_holds {
    size_t buffer_count, buffer_room;
    mr_buffer **buffers;   /* scratch buffers */
    size_t result_count, result_room;
    mr_result **results;   /* work may still write to them, even after the call failed and the frame was dropped */
    size_t frame_count, frame_room;
    mr_frame **frames;     /* work may still write to them, even after a full queue dropped them */
    size_t buffers_before, results_before; /* held before the call began */
} mr_holds;

/* Each takes a reference. MR_ERROR_MEMORY. */
int mr_hold_buffer(mr_holds *holds, mr_buffer *buffer);
int mr_hold_result(mr_holds *holds, mr_result *result);
int mr_hold_frame(mr_holds *holds, mr_frame *frame);

static inline bool mr_holds_have_buffers(const mr_holds *holds) {
    return holds->buffer_count > 0;
}
/* A call begins. mr_holds_give_back releases the buffers and results held since then: the call will be repeated. */
static inline void mr_holds_begin(mr_holds *holds) {
    holds->buffers_before = holds->buffer_count;
    holds->results_before = holds->result_count;
}
void mr_holds_give_back(mr_holds *holds);
/* The device work is done. */
void mr_holds_release_all(mr_holds *holds);
static inline void mr_holds_release(mr_holds *holds) {
    if (holds->buffer_count | holds->result_count | holds->frame_count)
        mr_holds_release_all(holds);
}
/* The end of the device work is unknown: keeps the memory and the references. */
void mr_holds_abandon(const mr_holds *holds, mr_abandonment *kept);
/* Releases everything. */
void mr_holds_fini(mr_holds *holds);
