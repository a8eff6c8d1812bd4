/* Downloads a call's results with one copy and one host function for all frames: each costs a device as much time as a
 * small kernel, whatever the size.
 *
 * The device leaves `each` bytes per frame, contiguously. They are copied to a call buffer, and a host function after
 * the copy calls `finish` for each frame in order. On the processors nothing is copied: `finish` is called at once with
 * the device's bytes.
 *
 * `finish` is called even if earlier work failed: it must not trust the bytes.
 *
 * Threads and errors: as a stage's process. */
#pragma once

#include "millrace/stage.h"

/* Makes one frame's result from `found`, which it may change. `context` must stay valid until the work is done: the
 * stage's state, or NULL. */
typedef void mr_download_finish(const void *context, mr_result *result, uint8_t *found, size_t each);

/* A finish function: copies the first bytes in `found` to a tensor result from mr_io_add_tensor. */
mr_download_finish mr_download_tensor;

typedef struct mr_download {
    mr_download_finish *finish;
    const void *context;
    size_t each;
    size_t count;
    size_t room;       /* frames */
    mr_buffer *buffer; /* all frames' bytes, then a pointer to each result; NULL on the processors */
} mr_download;

/* negotiate: declares at most `each` bytes per frame. */
void mr_download_plan(mr_negotiation *negotiation, size_t each);

/* Takes the call's memory; must be called before any work is submitted. The caller must set finish, context and each.
 * MR_ERROR_AGAIN as mr_io_buffer. */
int mr_download_begin(mr_download *download, const mr_stage *self, mr_io *io);
/* Adds the next frame's result. `found`: where the device leaves that frame's bytes. The work must have been
 * submitted. */
void mr_download_add(mr_download *download, mr_result *result, uint8_t *found);
/* Submits the copy and the host function; `found`: the first frame's. */
int mr_download_end(const mr_download *download, mr_io *io, const uint8_t *found);
/* Accepts one that was not begun. */
void mr_download_release(mr_download *download);
