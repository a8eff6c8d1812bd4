/* A stream's recurring launches, as CUDA graphs.
 *
 * Launches are deferred until the next other request to the stream. A launch series that was seen before, argument for
 * argument, is then recorded as a graph. From the next time on the device gets it in one call instead of one for each
 * kernel, memset and product. Pools and slots hand out the same memory again and again, so the same few series recur.
 * Arguments are compared byte by byte, and a launch must depend on nothing else, so a graph does the same as its
 * launches.
 *
 * Launches that one stream takes over from another (cuda_record.c) join its series, so that consecutive stages on a
 * device are one graph.
 *
 * A stream keeps MR_CUDA_GRAPHS series and forgets the least recently used one. Each stage has separate buffers, so a
 * series that covers several stages may recur too seldom. The stream then records each stage's series separately. If
 * those also recur too seldom, or the device refuses to record (logged once), it returns to plain launches for good.
 *
 * Threads: as for the stream. */
#pragma once

#include <cuda_runtime_api.h>

#include "engine/device/cuda/cuda_launch.h"
#include "engine/device/device.h"

enum { MR_CUDA_GRAPHS = 64, MR_CUDA_PARTS = 8 };

typedef struct mr_cuda_series {
    uint64_t hash, used; /* used: when it last came, as counted by the stream; 0: nothing is kept here */
    uint8_t *bytes;      /* the launches' bytes */
    size_t count;
    cudaGraphExec_t graph; /* NULL: it came only once so far */
} mr_cuda_series;

typedef struct mr_cuda_part {
    size_t bytes;
    int calls;
} mr_cuda_part;

/* A stream's launches; must be zero at first. */
typedef struct mr_cuda_launches {
    bool graphs;     /* are made */
    atomic_bool *refused; /* if `graphs`: set once a stream of the device could not record one, which is logged once */
    uint8_t *room;   /* the deferred launches, one after another */
    size_t bytes, capacity;
    int calls;       /* runtime calls that they need */
    size_t part_count; /* how many other stages' launches come before; beyond MR_CUDA_PARTS the last are one */
    mr_cuda_part parts[MR_CUDA_PARTS]; /* where they end */
    bool apart;      /* each stage has separate graphs */
    uint64_t since_recorded, since_launched; /* counts when that was decided */
    uint64_t missed; /* series that were not there, or no more, before that */
    uint64_t now;
    mr_cuda_series *kept; /* MR_CUDA_GRAPHS entries, once there is a first one */
    mr_cuda_graph_counts counts;
} mr_cuda_launches;

/* Puts a launch off; see mr_cuda_launch. MR_ERROR_MEMORY. */
int mr_cuda_launches_add(mr_cuda_launches *self, mr_cuda_launch_function *function, const void *arguments, size_t bytes,
                         int calls);
/* Moves the deferred launches of another stream's call to the front, and notes that they are a stage's.
 * MR_ERROR_MEMORY: nothing has changed. */
int mr_cuda_launches_take(mr_cuda_launches *self, mr_cuda_launches *from);
/* Submits the deferred launches. Errors: the device's and the functions'. */
int mr_cuda_launches_flush(mr_cuda_launches *self, mr_device *device, cudaStream_t handle);
void mr_cuda_launches_fini(mr_cuda_launches *self);
