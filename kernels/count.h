/* MR_COUNT(what): how often threads come by, in the kernels' source as it is compiled for the host, so that tests can hold
 * the iterations of loops against what a model of them says. On a device it is nothing. */
#ifndef MILLRACE_KERNELS_COUNT_H
#define MILLRACE_KERNELS_COUNT_H

#include <cuda_runtime_api.h>

#ifdef MR_HOST_COUNTS
#define MR_COUNT(what) mr_host_add(#what)
#else
#define MR_COUNT(what) ((void)0)
#endif

#endif
