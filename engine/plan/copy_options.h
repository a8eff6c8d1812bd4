/* Options of the copies that the planner inserts (MR_ROLE_COPY), and the sizes that it plans them by; the copying
 * itself is engine/flow/copy.h. */
#pragma once

#include <stdbool.h>

/* Options for a vertex with that role. */
typedef struct mr_copy_options {
    bool to_host; /* into host memory; else into the stage's device memory */
} mr_copy_options;

/* Limits for frames that are copied together. A copy costs a device some 5 microseconds whatever its size: the call,
 * the start on the copy engine, the event after it, and the thread that polls the event. In this time a processor core
 * moves some 64 KiB in memory (13 GB/s). So the host gathers smaller frames and copies them at once; larger ones are
 * copied alone. Beyond a mebibyte, which takes 20 to 40 microseconds over PCIe, waiting for more gains nothing. */
enum { MR_COPY_SMALL_BYTES = 64 << 10, MR_COPY_GATHERED_BYTES = 1 << 20, MR_COPY_BATCH = 64 };
