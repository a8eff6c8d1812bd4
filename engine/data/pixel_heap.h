/* Host memory for the buffers of pools. Where the system gives huge pages, large buffers are in them: a stage that
 * writes whole pictures or tensors, and the network that reads them, then look up far fewer addresses, and the kernel
 * maps 2 MiB at a time. All pools share one heap of 16 MiB regions, in which buffers are packed; a region is in memory
 * up to the last byte that was used. Small buffers, and all if huge pages are not given, come from mr_alloc_pixels. Any
 * thread. */
#pragma once

#include <stddef.h>

enum { MR_PIXEL_HEAP_LEAST = 256 << 10 }; /* the smallest buffers in huge pages, in bytes */

/* Aligned to 64, with MR_SLACK_BYTES after the end, not cleared. NULL: there is no memory. */
void *mr_pixel_heap_take(size_t bytes);
/* `bytes` as for mr_pixel_heap_take. What is given back is kept for others. */
void mr_pixel_heap_give(void *data, size_t bytes);
/* Returns memory that no buffer uses to the system, as mr_huge_trim: in pages of 2 MiB. */
void mr_pixel_heap_trim(void);
