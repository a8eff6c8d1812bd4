/* `millrace bench ops`: measures every library operation on a device and compares it with the device's ceilings.
 *
 * The ceilings must be measured first. Any other operation needs at least the time to move its bytes through the memory
 * or the link that they pass, or to do its arithmetic, whichever is longer. Its share is that time divided by the
 * measured median. This equals its arithmetic per second as a fraction of min(bandwidth x intensity, peak). One
 * thread. */
#pragma once

#include <stdio.h>

#include "engine/base/json.h"
#include "millrace/operations.h"

/* Choices for all devices. */
typedef struct mr_ops_params {
    const char *only;          /* a name pattern, as the shell's; NULL: all */
    const char *const *models; /* networks, ended by NULL */
    double seconds;            /* how long to measure each */
    bool progress;             /* prints progress on standard error */
} mr_ops_params;

/* The best measured value; 0: not known. */
typedef struct mr_ops_ceilings {
    double bytes_s[MR_PATHS];
    double flops_s, launch_ns;
} mr_ops_ceilings;

typedef struct mr_ops_figure {
    const mr_operation *operation;
    char *left_out; /* the reason if it was not measured; NULL: it was */
    int samples, calls; /* measured, and calls in each */
    double ns, low_ns, high_ns, best_ns; /* per call: the median, the quartiles and the least */
    double share;      /* 0: it has neither bytes nor arithmetic */
    const char *bound; /* "memory", "upload", "download", "compute" or "launch"; "" if share is 0 */
} mr_ops_figure;

typedef struct mr_ops {
    mr_operations *operations; /* owned */
    const mr_operations_view *view;
    mr_ops_ceilings ceilings;
    mr_operations_clocks before, after;
    size_t count, matching; /* matching: operations that match the pattern, measured or not */
    mr_ops_figure *figure;
} mr_ops;

/* Measures the ceilings and all operations that match the pattern. An operation that cannot run here is left out, with
 * the reason. Otherwise MR_ERROR_DEVICE, MR_ERROR_MEMORY, or an error of mr_operations_open. The caller must call
 * mr_ops_fini in any case. */
int mr_ops_measure(mr_ops *ops, const char *device, const mr_ops_params *params);
void mr_ops_fini(mr_ops *ops);

/* Prints for people, no wider than the terminal. MR_ERROR_MEMORY. */
int mr_ops_print(const mr_ops *ops);
/* Writes one object in an array. */
void mr_ops_put_json(yajl_gen json, const mr_ops *ops);

/* The words for a path or group, as in JSON: "memory", "kernel". */
const char *mr_ops_path_name(mr_operation_path path);
const char *mr_ops_group_name(mr_operation_group group);
