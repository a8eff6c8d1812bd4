/* Options of the copies that the planner inserts (MR_ROLE_COPY), and the sizes that it plans them by; the copying
 * itself is engine/flow/copy.h. */
#pragma once

#include <stdbool.h>

/* The options of a vertex of that role. */
typedef struct mr_copy_options {
    bool to_host; /* into host memory; else into that of the stage's device */
} mr_copy_options;

/* Frames that are copied together. A copy of any size costs a device some 5 microseconds: the call, its start on the
 * copy engine, the event behind it, and the thread that asks for that. In this time a processor core moves some 64 KiB
 * in memory (13 GB/s): smaller frames are better gathered by the host and copied at once, larger ones copied alone.
 * Beyond a mebibyte, which takes 20 to 40 microseconds over PCIe, waiting for more gains nothing. */
enum { MR_COPY_SMALL_BYTES = 64 << 10, MR_COPY_GATHERED_BYTES = 1 << 20, MR_COPY_BATCH = 64 };
