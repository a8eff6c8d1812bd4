/* The source of a pipeline's frames and results: free lists, so that a frame costs no allocation once the pipeline has
 * warmed up. Any thread. The store lives until it is released and its last frame and result have returned, so that a
 * program may keep frames after the pipeline is gone. */
#ifndef MILLRACE_DATA_STORE_H
#define MILLRACE_DATA_STORE_H

#include "millrace/frame.h"
#include "millrace/stage.h"

typedef struct mr_store mr_store;

int mr_store_create(mr_store **store);
void mr_store_release(mr_store **store);
/* From now on results are in pinned memory, so that devices read and write them without waiting. The first named device
 * that has not failed allocates it, for the others too; if all have failed, plain memory is used. The store holds
 * references to the first eight. Before the first result is made. */
void mr_store_pin(mr_store *store, mr_device *device);

/* A zeroed frame with one reference; times unknown. MR_ERROR_MEMORY. */
int mr_store_frame(mr_store *store, mr_frame **frame);
/* A zeroed result of that kind with one reference, whose `data` has room for `capacity` elements, or bytes of an array.
 * MR_ERROR_MEMORY. */
int mr_store_result(mr_store *store, const mr_result_kind *kind, size_t capacity, mr_result **result);

mr_result *mr_result_ref(mr_result *result);
/* Drops *result, and all of the list behind it that has no other holder, and sets it to NULL. */
void mr_result_unref(mr_result **result);

/* For mr_frame_unref: takes back frames and results without references. */
void mr_store_take_frame(mr_store *store, mr_frame *frame);

#endif
