/* Where a pipeline's frames and results come from: free lists, so that a frame costs no allocation once the pipeline
 * has warmed up. Any thread. The store lives until it was released and its last frame and result came back, so that a
 * program may keep frames after the pipeline is gone. */
#ifndef MILLRACE_DATA_STORE_H
#define MILLRACE_DATA_STORE_H

#include "millrace/frame.h"
#include "millrace/stage.h"

typedef struct mr_store mr_store;

int mr_store_create(mr_store **store);
void mr_store_release(mr_store **store);
/* From now on the room of results is pinned memory, so that work of devices reads and writes there without anybody
 * waiting. It is had from the first device that is named and has not failed, and serves the others as well; where all
 * have failed, plain memory does. The store holds references to the first eight. Before the first result is made. */
void mr_store_pin(mr_store *store, mr_device *device);

/* A zeroed frame with one reference; times unknown. MR_ERROR_MEMORY. */
int mr_store_frame(mr_store *store, mr_frame **frame);
/* A zeroed result with one reference and room for `capacity` classes. MR_ERROR_MEMORY. */
int mr_store_result(mr_store *store, size_t capacity, mr_result **result);

mr_result *mr_result_ref(mr_result *result);
/* Drops *result, and all of the list behind it that nobody else holds, and sets it to NULL. */
void mr_result_unref(mr_result **result);

/* For mr_frame_unref: takes back what nobody refers to any more. */
void mr_store_take_frame(mr_store *store, mr_frame *frame);

#endif
