/* The operations of the library on one device, to be measured: what `millrace bench ops` does.
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
 * The first ones are ceilings: what the device does at best, such as moving memory, multiplying matrices, copying to
 * and from the host, and starting work. All others are declared with the bytes that have to move and the arithmetic
 * that has to be done, whatever the implementation does; the least time they can take follows from the ceilings.
 *
 * Data. An operation works on pictures and vectors of its own, filled with noise from a fixed seed. There are several
 * sets of them, which its calls use in turn, and all sets together do not fit the caches: what a call reads comes from
 * memory. A simulated device has no caches, and one set.
 *
 * Time is that of the device: on a simulated one it is simulated, from the rates in its name, and has nothing to do
 * with the host's speed. On the processors it is processor time, so that programs beside this one do not count: that of
 * the calling thread, or, of codecs, which may have a thread beside it, that of the process.
 *
 * Ownership: all that the view points to belongs to it and lives until it is closed. Threads: one at a time for each.
 * On the processors work is done by the calling thread, on one core.
 *
 * Unstable: it is made for the command, and may change with any version (version.h). */
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

/* What an operation's bytes pass: the memory of the device, or the link from or to the host. */
typedef enum mr_operation_path {
    MR_PATH_MEMORY,
    MR_PATH_UPLOAD,
    MR_PATH_DOWNLOAD,
    MR_PATHS
} mr_operation_path;

typedef struct mr_operation {
    const char *name;     /* "preprocess-nv12" */
    const char *function; /* of the library: "mr_preprocess_enqueue"; of networks and codecs what computes them */
    const char *works_on; /* shapes and formats of one call, for people; "" until it is prepared if it depends on a
                             file */
    mr_operation_group group;
    mr_operation_path path;
    double bytes;         /* of one call, that have to be read and written, each once; set by mr_operations_prepare, as
                             the next */
    bool integers;        /* its arithmetic is mostly that of integers of 8 or 16 bits, of which processors do more at a
                             time than of floats */
    double flops;         /* of one call: additions, multiplications, comparisons, quotients and roots of values, of
                             whatever type, one each; 0: none, or not counted (codecs) */
} mr_operation;

/* Grows at its end (version.h): a program does not copy it. */
typedef struct mr_operations_view {
    const char *device; /* "cuda:0" */
    const char *model;  /* of the processor or GPU, or of the card that is simulated; "": not known */
    bool simulated;     /* times are simulated */
    size_t count;
    const mr_operation *list;
} mr_operations_view;

typedef struct mr_operations_params {
    const char *device;       /* its name (devices.h) */
    const char *const *models; /* paths of networks in ONNX files, ended by NULL; NULL: none */
} mr_operations_params;

typedef struct mr_operations mr_operations;

/* mr_operations_open for callers that give the size of the struct themselves, as mr_pipeline_open_sized. */
MR_API int mr_operations_open_sized(mr_operations **operations, const mr_operations_params *params,
                                    size_t params_bytes);
/* Opens the device and makes the list. On failure *operations is NULL. MR_ERROR_CONFIG: a malformed name of a device;
 * MR_ERROR_UNAVAILABLE: this machine does not have it; MR_ERROR_DEVICE, MR_ERROR_MEMORY. */
static inline int mr_operations_open(mr_operations **operations, const mr_operations_params *params) {
    return mr_operations_open_sized(operations, params, sizeof *params);
}
/* Also of NULL; sets *operations to NULL. */
MR_API void mr_operations_close(mr_operations **operations);
MR_API const mr_operations_view *mr_operations_look(const mr_operations *operations);

/* Gets operation `index` of the view ready in place of the one before it: memory, data, tables, its declared figures.
 * MR_ERROR_UNAVAILABLE: it cannot be done on this machine or device, for which the message has the reason;
 * MR_ERROR_USAGE: there is no such operation; for networks the errors of model files; MR_ERROR_MEMORY,
 * MR_ERROR_DEVICE. */
MR_API int mr_operations_prepare(mr_operations *operations, size_t index);
/* Does `calls` calls of the operation that is ready, one behind the other on one stream, and waits for the last. *ns:
 * from before the first was enqueued until the last was done. MR_ERROR_USAGE if none is ready, or `calls` is below 1;
 * MR_ERROR_DEVICE and others if the work failed. */
MR_API int mr_operations_run(mr_operations *operations, int calls, int64_t *ns);

/* Clocks as they are at this moment; 0: not known. Grows at its end. */
typedef struct mr_operations_clocks {
    double core_mhz;   /* of the processor's core that runs the calling thread, measured with a chain of additions; of
                          a GPU as NVML reports it */
    double memory_mhz; /* of a GPU */
} mr_operations_clocks;
/* Reads them again, which takes a few milliseconds; of a simulated device all are 0. What it returns lives until the
 * next call or mr_operations_close. */
MR_API const mr_operations_clocks *mr_operations_read_clocks(mr_operations *operations);

#ifdef __cplusplus
}
#endif
#endif
