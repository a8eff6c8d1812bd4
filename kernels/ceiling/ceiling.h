/* Work that shows a device's limits: reading memory, moving it with little arithmetic, and nothing at all. For
 * `millrace bench ops`; no stage uses it.
 *
 * Each operation is a pure function on the calling thread and, with _enqueue, work on a stream. The structs are copied
 * and must have no gaps, as in vector.h. Memory they point to must stay valid until the work is done. All memory
 * belongs to the caller. Any thread; _enqueue returns the stream's errors. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_stream mr_stream; /* as in millrace/stage.h, which C++ cannot include */

/* dst[i] = a[i] + 3 b[i]: the triad from McCalpin's STREAM benchmark. `count` must be a multiple of 4, and the arrays
 * 16-byte aligned. */
typedef struct mr_triad_work {
    float *dst;
    const float *a, *b;
    size_t count;
} mr_triad_work;
void mr_triad(const mr_triad_work *work);
int mr_triad_enqueue(mr_stream *stream, const mr_triad_work *work);

/* *sum = the sum of all `count` words, modulo 2^32. `count` must be a multiple of 4, and src 16-byte aligned. */
typedef struct mr_read_work {
    const uint32_t *src;
    uint32_t *sum;
    size_t count;
} mr_read_work;
void mr_read(const mr_read_work *work);
int mr_read_enqueue(mr_stream *stream, const mr_read_work *work);

/* Starts a piece that does nothing. */
int mr_nothing_enqueue(mr_stream *stream);

#ifdef __cplusplus
}
#endif
