/* Launches of a stream that come again and again in the same way, as CUDA graphs.
 *
 * What kernels are launched with is put off until something else is asked of the stream. A series of launches that has
 * been seen before, argument for argument, is then recorded as a graph, and from the next time on given to the device
 * by one call in place of one for each kernel, memset and product. Pools and slots hand out the same memory again and
 * again, so that the same few series recur. Arguments are compared byte by byte, and a launch does nothing but what
 * follows from them, so a graph does what its launches would.
 *
 * What one stream takes over from another (cuda_record.c) becomes one series with its own, so that stages that follow each
 * other on a device are one graph.
 *
 * A stream keeps MR_CUDA_GRAPHS series, and forgets that which came last the longest ago. Where those of several stages
 * recur too seldom, since each has buffers of its own, it goes back to graphs of each stage's; and to plain launches for
 * good where those too recur too seldom, or where the device refuses to record, which is said once.
 *
 * Threads: those of the stream. */
#ifndef MILLRACE_DEVICE_CUDA_CUDA_GRAPH_H
#define MILLRACE_DEVICE_CUDA_CUDA_GRAPH_H

#include <cuda_runtime_api.h>

#include "engine/device/cuda/cuda.h"

enum { MR_CUDA_GRAPHS = 64, MR_CUDA_PARTS = 8 };

typedef struct mr_cuda_series {
    uint64_t hash, used; /* used: when it last came, as counted by the stream; 0: nothing is kept here */
    uint8_t *bytes;      /* of its launches */
    size_t count;
    cudaGraphExec_t graph; /* NULL: it came only once so far */
} mr_cuda_series;

typedef struct mr_cuda_part {
    size_t bytes;
    int calls;
} mr_cuda_part;

/* Of a stream; zero at first. */
typedef struct mr_cuda_launches {
    bool graphs;     /* are made */
    uint8_t *room;   /* the launches that are put off, behind each other */
    size_t bytes, capacity;
    int calls;       /* of the runtime that they take */
    size_t part_count; /* those of so many other stages stand in front; of more than MR_CUDA_PARTS the last are one */
    mr_cuda_part parts[MR_CUDA_PARTS]; /* where they end */
    bool apart;      /* graphs are made of each stage's */
    uint64_t since_recorded, since_launched; /* counts when that was decided */
    uint64_t missed; /* series that were not there, or no more, before that */
    uint64_t now;
    mr_cuda_series *kept; /* MR_CUDA_GRAPHS of them, once there is a first one */
    mr_cuda_graph_counts counts;
} mr_cuda_launches;

/* Puts a launch off; see mr_cuda_launch. MR_ERROR_MEMORY. */
int mr_cuda_launches_add(mr_cuda_launches *self, mr_cuda_launch_function *function, const void *arguments, size_t bytes,
                         int calls);
/* Takes over what another has put off, which is empty then, and remembers that this is a stage's. MR_ERROR_MEMORY:
 * nothing has happened. */
int mr_cuda_launches_take(mr_cuda_launches *self, mr_cuda_launches *from);
/* Gives the device what was put off. Its failures, and those of the functions. */
int mr_cuda_launches_flush(mr_cuda_launches *self, mr_device *device, cudaStream_t handle);
void mr_cuda_launches_fini(mr_cuda_launches *self);

#endif
