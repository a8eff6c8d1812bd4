/* Memory for pixels and tensors, aligned to 64; freed with mr_free.
 *
 * libswscale reads whole vectors, and rows as long as those of its output, which have up to 63 pixels more. So it reads
 * up to MR_SLACK_BYTES beyond the last pixel of a picture that is part of a larger one. Any thread. */
#pragma once

#include <stdint.h>

#include "engine/base/memory.h"

enum { MR_SLACK_BYTES = 512 };

/* NULL: there is no memory. */
static inline void *mr_alloc_pixels(size_t bytes) {
    return bytes > SIZE_MAX - MR_SLACK_BYTES ? NULL : mr_alloc_aligned(64, bytes + MR_SLACK_BYTES);
}
