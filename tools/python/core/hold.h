/* Why a frame's memory is still there: a frame that the run accounts for no more (mr_frame_keep), or a copy of its
 * payload. A Frame and arrays share it.
 *
 * Threads: with the GIL, unless stated. */
#pragma once

#include <stdatomic.h>

#include "core.h"
#include "session.h"

/* Frames of earlier calls whose arrays a function of the program still keeps, counted for one function in one run. The
 * arrays may outlive the run: the count lives as long as the last of its users. */
typedef struct mr_py_kept {
    atomic_int references;
    long frames;
} mr_py_kept;
/* The most frames that a function may keep. */
enum { MR_PY_MOST_KEPT = 3 };
/* Makes a count with one reference. NULL, without an exception: no memory. */
mr_py_kept *mr_py_kept_create(void);
/* NULL is allowed. Without the GIL too. */
void mr_py_kept_unref(mr_py_kept *kept);

typedef struct mr_py_hold {
    long references;
    mr_frame *frame;        /* NULL: a copy */
    uint8_t *copy;          /* memory of its own */
    mr_py_stream *stream;   /* Optional. It counts the frame. */
    bool heavy;             /* as one with buffers */
    mr_py_session *session; /* Optional. Its texts are those of the frame. */
    mr_py_kept *kept;       /* Optional. Counts the hold, which outlives its call. */
    unsigned generation;    /* of forks, when it was made */
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
void mr_py_hold_count(mr_py_hold *hold, mr_py_kept *kept);
