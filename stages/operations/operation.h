/* An operation that can be measured, as the tables in this folder describe it. operations.c runs them.
 *
 * A table entry declares the memory that a call uses and the bytes that it needs, and for matrix products and networks
 * the arithmetic; a comment must derive each figure. `enqueue` adds one call to the stream. */
#pragma once

#include "millrace/operations.h"
#include "stages/operations/room.h"

/* Device kinds that can have an operation. */
enum {
    MR_HERE_CPU = 1 << MR_DEVICE_CPU,
    MR_HERE_SIM = 1 << MR_DEVICE_SIM,
    MR_HERE_CUDA = 1 << MR_DEVICE_CUDA,
    MR_HERE_CARDS = MR_HERE_SIM | MR_HERE_CUDA,
    MR_HERE_ALL = MR_HERE_CPU | MR_HERE_CARDS
};

typedef struct mr_operation_call mr_operation_call;

typedef struct mr_operation_type {
    const char *name, *function, *works_on; /* as in mr_operation */
    mr_operation_group group;
    mr_operation_path path;
    int here;
    const void *shape;                      /* the entry's parameters */
    /* If above 0, a call reads the first region, which has that noise, and writes the second, each once. */
    size_t reads, writes;
    mr_noise noise;
    /* Else, sets regions, bytes and flops in a zeroed call; keeps tables in `state`. NULL: nothing to do. */
    int (*open)(mr_operation_call *call);
    int (*enqueue)(mr_operation_call *call, size_t set);
    void (*close)(mr_operation_call *call); /* must accept a half-opened one; NULL: nothing to do */
} mr_operation_type;

enum { MR_WORKS_ON = 160 };

struct mr_operation_call {
    const mr_operation_type *type;
    mr_device *device;
    mr_stream *stream;
    const char *file;           /* the network's file */
    char works_on[MR_WORKS_ON]; /* if the type has none */
    double bytes, flops;
    mr_region region[MR_ROOM_REGIONS];
    size_t regions;
    mr_room room;
    void *state;
};

/* Adds a region and returns its index. */
static inline size_t mr_operation_region(mr_operation_call *call, mr_memory memory, size_t bytes, mr_noise noise) {
    call->region[call->regions] = (mr_region){bytes, noise, memory};
    return call->regions++;
}
static inline void *mr_operation_at(const mr_operation_call *call, size_t set, size_t region) {
    return mr_room_at(&call->room, set, region);
}

/* Declares a copy along the type's path: all `dst_bytes` are written, from `src_bytes` with that noise, which may
 * include padding. Each byte crosses the link once; within a memory it is read and written. Region 0 is the
 * destination, 1 the source. */
int mr_operation_open_copy(mr_operation_call *call, size_t dst_bytes, size_t src_bytes, mr_noise noise);
/* Copies region 1 to region 0, if it has no padding. */
int mr_operation_enqueue_copy(mr_operation_call *call, size_t set);

/* The tables; an entry without a name ends each. */
extern const mr_operation_type mr_operation_ceilings[], mr_operation_pictures[], mr_operation_drawings[],
    mr_operation_features[], mr_operation_vectors[], mr_operation_copies[], mr_operation_codecs[];
/* A network in a file. */
extern const mr_operation_type mr_operation_network;
