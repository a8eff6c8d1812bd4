/* What device work of a call may still use when the call has returned: references that its slot keeps until that work
 * is done. Its fields are read and written by holds.c and the function below alone. Internal to the engine. */
#ifndef MILLRACE_FLOW_INSTANCE_HOLDS_H
#define MILLRACE_FLOW_INSTANCE_HOLDS_H

#include "engine/flow/instance/abandoned.h"

/* Zero: nothing. */
typedef struct mr_holds {
    size_t buffer_count, buffer_room;
    mr_buffer **buffers;   /* scratch buffers */
    size_t result_count, result_room;
    mr_result **results;   /* that work may still write to, even if the call failed and its frame was dropped */
    size_t frame_count, frame_room;
    mr_frame **frames;     /* that work may still write to, even if a full queue dropped them */
} mr_holds;

/* Each keeps a reference. MR_ERROR_MEMORY. */
int mr_hold_buffer(mr_holds *holds, mr_buffer *buffer);
int mr_hold_result(mr_holds *holds, mr_result *result);
int mr_hold_frame(mr_holds *holds, mr_frame *frame);

static inline bool mr_holds_have_buffers(const mr_holds *holds) {
    return holds->buffer_count > 0;
}
/* How much is held at a time; and gives up the buffers and results that were held since. */
typedef struct mr_holds_mark {
    size_t buffers, results;
} mr_holds_mark;
mr_holds_mark mr_holds_now(const mr_holds *holds);
void mr_holds_give_back(mr_holds *holds, mr_holds_mark then);
/* The work is done. */
void mr_holds_release(mr_holds *holds);
/* It is not known when the work is done: keeps the memory, and the references too. */
void mr_holds_abandon(const mr_holds *holds, mr_abandonment *kept);
/* Releases all. */
void mr_holds_fini(mr_holds *holds);

#endif
