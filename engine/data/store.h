/* Where a pipeline's frames and results come from: free lists, so that a warm pipeline allocates nothing for a frame.
 * Any thread. The store lives until it is released and the last frame and result have returned, so that a program can
 * keep frames after the pipeline is gone. */
#pragma once

#include "millrace/frame.h"
#include "millrace/stage.h"

typedef struct mr_store mr_store;

int mr_store_create(mr_store **store);
void mr_store_release(mr_store **store);
/* Puts results into pinned memory, so that devices can read and write them without waiting. The first added device that
 * has not failed allocates for all; if all have failed, plain memory is used. The store references the first eight
 * devices. Must be called before the first result is made. */
void mr_store_pin(mr_store *store, mr_device *device);

/* Returns a zeroed frame with one reference and unknown times. MR_ERROR_MEMORY. */
int mr_store_frame(mr_store *store, mr_frame **frame);
/* The same with everything of `from` but its receipt: a run can account for `from` while the copy is kept. */
int mr_store_copy(mr_store *store, const mr_frame *from, mr_frame **frame);
/* Returns a zeroed result with one reference. `data` has room for `capacity` elements, or bytes for an array.
 * MR_ERROR_MEMORY. */
int mr_store_result(mr_store *store, const mr_result_kind *kind, size_t capacity, mr_result **result);

mr_result *mr_result_ref(mr_result *result);
/* Drops *result and every following result without another holder, and sets it to NULL. */
void mr_result_unref(mr_result **result);

/* For mr_frame_unref: takes back a frame that has no references. */
void mr_store_take_frame(mr_store *store, mr_frame *frame);
