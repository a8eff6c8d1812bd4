/* Why a frame's memory is still there: a frame that the run accounts for no more (mr_frame_keep), or a copy of its
 * payload. A Frame and arrays share it.
 *
 * Threads: with the GIL. */
#pragma once

#include "core.h"
#include "session.h"

typedef struct mr_py_hold {
    long references;
    mr_frame *frame;        /* NULL: a copy */
    uint8_t *copy;          /* memory of its own */
    mr_py_stream *stream;   /* Optional. It counts the frame. */
    bool heavy;             /* as one with buffers */
    mr_py_session *session; /* Optional. Its texts are those of the frame. */
    long *kept;             /* Optional. Counts holds that outlive their call. */
} mr_py_hold;

/* Makes a hold with one reference, which takes that of the frame. On failure the frame is released, and an exception
 * is set. */
mr_py_hold *mr_py_hold_create(mr_frame *frame);
/* The same for a frame of a call that will return. */
mr_py_hold *mr_py_hold_keep(const mr_frame *frame);
/* A hold of memory of its own, which is freed with it. */
mr_py_hold *mr_py_hold_copy(size_t bytes);
mr_py_hold *mr_py_hold_ref(mr_py_hold *hold);
void mr_py_hold_unref(mr_py_hold *hold);
/* The call is over, and arrays still use the frame: `kept` counts the hold until it is released. */
void mr_py_hold_count(mr_py_hold *hold, long *kept);
