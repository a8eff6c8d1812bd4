/* Constant data that devices have copies of: tables and weights, uploaded once to each device that uses them.
 *
 * Threads: any. Ownership: the owner keeps the data itself, which never changes; the copies belong to the resident,
 * which holds a reference to each device that has one. It must outlive the work that reads them. */
#pragma once

#include <pthread.h>

#include "engine/device/device.h"

typedef struct mr_resident_copy mr_resident_copy;

typedef struct mr_resident {
    pthread_mutex_t lock;
    mr_resident_copy *copies;
    const void *data;
    size_t bytes;
} mr_resident;

/* `data` stays the caller's. MR_ERROR_MEMORY. */
int mr_resident_create(mr_resident **resident, const void *data, size_t bytes);
/* NULLs; accepts NULL. */
void mr_resident_destroy(mr_resident **resident);
/* Returns the copy's address on `stream`'s device. The first call for a device makes the copy and waits for it.
 * MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
int mr_resident_get(mr_resident *resident, mr_stream *stream, const void **there);
