/* Downloads the results of a call: one copy and one host function for all frames of the call, since each costs a device
 * as much time as a small kernel, whatever its size.
 *
 * The device leaves `each` bytes a frame, one behind the other. They are copied into a buffer of the call, and a host
 * function behind the copy calls `finish` for each frame in order. On the processors nothing is copied: `finish` is
 * called at once with the device's bytes.
 *
 * `finish` is called also if the work before it has failed: it must not trust the bytes.
 *
 * Threads and errors: those of a stage's process. */
#pragma once

#include "millrace/stage.h"

/* Makes the result of one frame from `found`, which it may change. `context` outlives the call's work: the stage's
 * state, or NULL. */
typedef void mr_download_finish(const void *context, mr_result *result, uint8_t *found, size_t each);

/* A finish function: copies the first bytes of `found` to the tensor of a result of mr_io_add_tensor. */
mr_download_finish mr_download_tensor;

typedef struct mr_download {
    mr_download_finish *finish;
    const void *context;
    size_t each;
    size_t count;
    size_t room;       /* frames */
    mr_buffer *buffer; /* the bytes of all frames, then a pointer to the result of each; NULL on the processors */
} mr_download;

/* negotiate: a call's frames have at most `each` bytes. */
void mr_download_plan(mr_negotiation *negotiation, size_t each);

/* Takes the call's memory, before any work is submitted; finish, context and each are filled in. MR_ERROR_AGAIN as
 * mr_io_buffer. */
int mr_download_begin(mr_download *download, const mr_stage *self, mr_io *io);
/* Adds the next frame's result. `found` is where the device leaves that frame's bytes; their work has been
 * submitted. */
void mr_download_add(mr_download *download, mr_result *result, uint8_t *found);
/* Submits the copy and the host function; `found`: that of the first frame. */
int mr_download_end(const mr_download *download, mr_io *io, const uint8_t *found);
/* Also of one that was not begun. */
void mr_download_release(mr_download *download);
