/* Determines from the environment which process of a pipeline this is.
 *
 *     MILLRACE_NODE, MILLRACE_REPLICA    the node by its name, and which of its processes: 0, 1, ... (a pod, a unit);
 *                                        without the second, JOB_COMPLETION_INDEX, or the number that ends HOSTNAME,
 *                                        if the name of the pod has one
 *     MILLRACE_HOSTS                     the machines of all processes, in order, with commas
 *     SLURM_PROCID, SLURM_NTASKS         a task of a Slurm step, with SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE
 *     OMPI_COMM_WORLD_RANK, _SIZE; PMI_RANK, PMI_SIZE    a process of an MPI launcher
 *
 * A launcher must number the first node's processes first, then the second's, and so on. */
#pragma once

#include "millrace/millrace.h"

enum { MR_LAUNCH_MOST = 4096 /* processes */ };

typedef struct mr_launch {
    const char *by;       /* "Slurm", "MPI", "MILLRACE_NODE"; NULL: none is set */
    const char *node;     /* its name; NULL: only the number is known */
    int replica;
    int process;          /* 0, 1, ... up to `processes` */
    int processes;        /* 0: not known */
    size_t host_count;    /* each process's, if they are known; else 0 */
    char **hosts;
} mr_launch;

/* Reads the environment. MR_ERROR_USAGE if it contradicts itself. */
int mr_launch_find(mr_launch *launch);
void mr_launch_fini(mr_launch *launch);

/* Whether an endpoint's host is this machine. */
bool mr_launch_is_here(const char *endpoint);
