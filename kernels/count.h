/* MR_COUNT(name) counts how often threads pass, if the kernels' source is compiled for the host, so that tests can
 * compare the iterations of loops with a model of them. On a device it does nothing. */
#ifndef MILLRACE_KERNELS_COUNT_H
#define MILLRACE_KERNELS_COUNT_H

#include <cuda_runtime_api.h>

#ifdef MR_HOST_COUNTS
#define MR_COUNT(what) mr_host_add(#what)
#else
#define MR_COUNT(what) ((void)0)
#endif

#endif
