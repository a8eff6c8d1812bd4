/* A detector's work after the network: what a head's outputs say about one frame's objects.
 *
 * The work reads the outputs in the stream's memory and leaves the best objects in `found`, which is small, so that a
 * device need not give back the outputs. Ownership: as for all work, memory must stay valid until it is done. Errors:
 * MR_ERROR_MEMORY, and those of the stream. Any thread. */
#pragma once

#include "kernels/detect/box_head.h"
#include "kernels/pixel.h"
#include "millrace/stage.h"

/* How many candidates are compared with each other, for `most` objects. If more exceed the score, these are the best
 * ones. The time grows with the square of this number if all lie outside the input. */
enum { MR_DETECT_CANDIDATES = 1 << 13 };
MR_PIXEL_INLINE int32_t mr_detect_compared(int32_t most) {
    return most > MR_DETECT_CANDIDATES / 4 ? 4 * most : (int32_t)MR_DETECT_CANDIDATES;
}

typedef struct mr_found {
    int32_t count;
    int32_t cut; /* 1: there were more than `most`, or than are compared */
    int32_t odd; /* 1: a box above the score was not finite and is left out, or there was none and a score is NaN */
    mr_box item[];
} mr_found;

typedef struct mr_detect_work {
    const mr_box_head *head;
    const void *data[MR_BOX_HEAD_MOST_OUTPUTS]; /* one item of each output */
    const bool *wanted;                     /* a flag for each class; NULL: all */
    float score, overlap;
    int32_t most;
    mr_found *found;                        /* mr_found_bytes */
} mr_detect_work;

static inline size_t mr_found_bytes(const mr_box_head *head, size_t most) {
    return (sizeof(mr_found) + most * (sizeof(mr_box) + (size_t)head->numbers * sizeof(float)) + 63) / 64 * 64;
}
/* The numbers that object `i` has besides its box, head->numbers of them. */
MR_PIXEL_INLINE float *mr_found_numbers(const mr_found *found, const mr_box_head *head, size_t most, int32_t i) {
    return (float *)(uintptr_t)(found->item + most) + (size_t)i * (size_t)head->numbers;
}

/* On this thread. Uses its scratch memory. */
int mr_detect(const mr_detect_work *work);
/* On a CUDA device not DB, and only classes below 4096. */
int mr_detect_enqueue(mr_stream *stream, const mr_detect_work *work);
