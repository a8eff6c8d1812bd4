/* Measures the library's operations on one device. `millrace bench ops` uses it.
 *
 *     mr_operations *ops;
 *     if (mr_operations_open(&ops, &(mr_operations_params){.device = "cpu"})) { ... mr_message() ... }
 *     const mr_operations_view *view = mr_operations_look(ops);
 *     for (size_t i = 0; i < view->count; i++) {
 *         int64_t ns;
 *         if (!mr_operations_prepare(ops, i) && !mr_operations_run(ops, 100, &ns))
 *             printf("%s: %g GB/s\n", view->list[i].name, 100 * view->list[i].bytes / (double)ns);
 *     }
 *     mr_operations_close(&ops);
 *
 * The first operations are ceilings, the device's best: moving memory, multiplying matrices, copying to and from the
 * host, and starting work. Each other operation declares the bytes that must move, whatever the implementation does;
 * matrix products and networks also declare the arithmetic. The least time it can take follows from the ceilings.
 *
 * Data: each operation has pictures and vectors filled with noise from a fixed seed. Calls alternate between several
 * sets of data. All sets together exceed the caches, so a call must read from memory. A simulated device has no caches
 * and needs only one set.
 *
 * Time is the device's. On a simulated device, the rates in the device's name determine it, independent of the host's
 * speed. On processors it is processor time, so other programs do not count. It is the calling thread's; for codecs,
 * which may have another thread, it is the process's.
 *
 * Ownership: the view owns everything it points to and lives until it is closed. Threads: one at a time per object. On
 * processors the calling thread does the work, on one core.
 *
 * Unstable: made for the command; it may change with any version (version.h). */
#ifndef MILLRACE_OPERATIONS_H
#define MILLRACE_OPERATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_operation_group {
    MR_OPERATION_CEILING,
    MR_OPERATION_KERNEL,
    MR_OPERATION_COPY,
    MR_OPERATION_NETWORK,
    MR_OPERATION_CODEC,
    MR_OPERATION_GROUPS
} mr_operation_group;

/* The path that an operation's bytes must pass: device memory, or the link from or to the host. */
typedef enum mr_operation_path {
    MR_PATH_MEMORY,
    MR_PATH_UPLOAD,
    MR_PATH_DOWNLOAD,
    MR_PATHS
} mr_operation_path;

typedef struct mr_operation {
    const char *name;     /* "preprocess-nv12" */
    const char *function; /* library function: "mr_preprocess_enqueue"; for networks and codecs, the library that
                             computes them */
    const char *works_on; /* Shapes and formats in one call, for people. If it depends on a file, it is "" until
                             prepared. */
    mr_operation_group group;
    mr_operation_path path;
    double bytes;         /* Bytes that one call must read and write, each counted once. mr_operations_prepare sets
                             it, and flops. */
    double flops;         /* Additions and multiplications of one call, for matrix products and networks. 0: not
                             counted. */
} mr_operation;

/* Grows at its end (version.h): a program must not copy it. */
typedef struct mr_operations_view {
    const char *device; /* "cuda:0" */
    const char *model;  /* of the processor, the GPU or the simulated card; "": not known */
    bool simulated;     /* times are simulated */
    size_t count;
    const mr_operation *list;
} mr_operations_view;

typedef struct mr_operations_params {
    const char *device;       /* device name (devices.h) */
    const char *const *models; /* Optional. Paths of networks in ONNX files, ended by NULL. */
} mr_operations_params;

typedef struct mr_operations mr_operations;

/* mr_operations_open for callers that pass the size of the struct themselves; see mr_pipeline_open_sized. */
MR_API int mr_operations_open_sized(mr_operations **operations, const mr_operations_params *params,
                                    size_t params_bytes);
/* Opens the device and makes the list. On failure *operations is NULL. MR_ERROR_CONFIG: a malformed device name.
 * MR_ERROR_UNAVAILABLE: this machine lacks the device. MR_ERROR_DEVICE, MR_ERROR_MEMORY. */
static inline int mr_operations_open(mr_operations **operations, const mr_operations_params *params) {
    return mr_operations_open_sized(operations, params, sizeof *params);
}
/* Frees the operations and sets *operations to NULL; NULL is allowed. */
MR_API void mr_operations_close(mr_operations **operations);
MR_API const mr_operations_view *mr_operations_look(const mr_operations *operations);

/* Prepares operation `index` of the view in place of the previous one: memory, data, tables and declared figures.
 * MR_ERROR_UNAVAILABLE: this machine or device cannot do it; the message has the reason. MR_ERROR_USAGE: there is no
 * such operation. MR_ERROR_MEMORY, MR_ERROR_DEVICE; for networks also the errors of model files. */
MR_API int mr_operations_prepare(mr_operations *operations, size_t index);
/* Runs `calls` calls of the prepared operation, one after another on one stream, and waits for the last. *ns is the
 * time from before the first was enqueued until the last was done. MR_ERROR_USAGE: none is prepared, or `calls` is
 * below 1. MR_ERROR_DEVICE and others: the work failed. */
MR_API int mr_operations_run(mr_operations *operations, int calls, int64_t *ns);

/* Current clocks; 0: not known. Grows at its end. */
typedef struct mr_operations_clocks {
    double core_mhz;   /* Processors: the core that runs the calling thread, measured with a chain of additions.
                          GPUs: as NVML reports it. */
    double memory_mhz; /* GPUs only */
} mr_operations_clocks;
/* Reads the clocks again, which takes a few milliseconds. For a simulated device all are 0. The result lives until the
 * next call or mr_operations_close. */
MR_API const mr_operations_clocks *mr_operations_read_clocks(mr_operations *operations);

#ifdef __cplusplus
}
#endif
#endif
