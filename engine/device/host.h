/* The host's processors and memory. One call; values that the system does not report stay "" or 0. Any thread. */
#pragma once

#include <stdint.h>

typedef struct mr_host {
    char model[128];
    int cores;                /* online in the machine */
    int usable;               /* how many of them this process can keep busy (mr_usable_cores) */
    int nodes;                /* NUMA nodes; 1 if the machine is not divided */
    uint64_t memory_bytes;    /* the machine's */
    uint64_t available_bytes; /* that can be taken now without swapping */
} mr_host;

void mr_host_probe(mr_host *host);
