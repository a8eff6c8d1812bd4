/* Why a frame's memory is still there: a reference to the frame, or to its buffers alone, that a Frame and arrays of
 * its payload share.
 *
 * Threads: with the GIL. */
#pragma once

#include "core.h"
#include "session.h"

typedef struct mr_py_hold {
    long references;
    mr_frame *frame; /* NULL: buffers alone, or a copy */
    mr_buffer *buffers[MR_MAX_PLANES];
    uint8_t *copy;          /* memory of its own */
    bool brief;             /* the frame belongs to a call that will return */
    mr_py_stream *stream;   /* Optional. It counts the frame. */
    bool heavy;             /* as one with buffers */
    mr_py_session *session; /* Optional. Its texts are those of the frame. */
    long *kept;             /* Optional. Counts holds that outlive their call. */
} mr_py_hold;

/* Makes a hold with one reference, which takes that of the frame. On failure the frame is released, and an exception
 * is set. */
mr_py_hold *mr_py_hold_create(mr_frame *frame);
/* A hold of memory of its own, which is freed with it. */
mr_py_hold *mr_py_hold_copy(size_t bytes);
mr_py_hold *mr_py_hold_ref(mr_py_hold *hold);
void mr_py_hold_unref(mr_py_hold *hold);
/* The call is over: keeps the buffers that arrays still use, and lets go of the frame. `kept` counts the hold until it
 * is released. */
void mr_py_hold_narrow(mr_py_hold *hold, long *kept);
