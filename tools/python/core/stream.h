/* A queue of frames between a stage's thread and the program, and the iterator that reads it.
 *
 * It has room for as many frames with buffers as the plan allows the stage to queue. Frames that the program still
 * holds count: their buffers come from planned pools, and a program that kept them all would stop the pipeline. Of
 * frames without buffers, MR_PY_LIGHT have room. If the program holds all of them, the iterator raises instead of
 * waiting for ever.
 *
 * Threads: the stage's thread gives frames, any thread of the program takes them. */
#pragma once

#include "core.h"
#include "session.h"

/* The most that a program may ask for. */
enum { MR_PY_LIGHT = 256, MR_PY_MOST_ROOM = 1 << 20 };

/* Makes a stream with one reference for its owner. `strict`: the room is that for all frames. */
mr_py_stream *mr_py_stream_create(mr_py_session *session, long room, bool strict);
void mr_py_stream_ref(mr_py_stream *stream);
void mr_py_stream_unref(mr_py_stream *stream);
/* Waits for room. The frame is dropped if the stream is closed or the run is stopped at once.
 * MR_ERROR_MEMORY. Without the GIL. */
int mr_py_stream_give(mr_py_stream *stream, const mr_stage *stage, const char *source, const mr_frame *frame);
/* A source has ended: the run may have. Without the GIL. */
void mr_py_stream_expect_end(mr_py_stream *stream);
/* Drops what is queued, and what comes later. Without the GIL. */
void mr_py_stream_close(mr_py_stream *stream);
/* The program has let go of a frame, with buffers if it is `heavy`. */
void mr_py_stream_release(mr_py_stream *stream, bool heavy);
/* The iterator. Takes a reference to the stream. */
PyObject *mr_py_stream_iterator(mr_py_stream *stream);
int mr_py_stream_add_type(PyObject *module);
