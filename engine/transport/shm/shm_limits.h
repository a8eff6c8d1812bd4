/* Limits of shared memory between nodes, which both the interface (shm.h) and the rings rest on. */
#pragma once

enum {
    MR_SHM_POOLS = 1024,       /* pools that one link can have at a time; frames from others travel inline */
    MR_SHM_LEASES = 4096,      /* leases that one peer holds; beyond that frames travel inline */
    MR_SHM_LEAST_BYTES = 4096, /* a smaller payload is cheaper inline */
    MR_SHM_RECORD_BYTES = 196608, /* one record in a ring */
    /* Bytes that both ends must not write: the longest cache line of ARM64 processors. x86-64 fetches two of 64. */
    MR_SHM_LINE_BYTES = 128
};
