/* What preprocess is measured against: the same job as a chain of kernels that each write the whole picture, as it is
 * often put together from libraries. NV12 of limited range -> RGB as bytes -> resized with a triangle as wide as the
 * scale -> normalised halves, channels first. */
#ifndef MILLRACE_TOOLS_BENCH_UNFUSED_CUDA_H
#define MILLRACE_TOOLS_BENCH_UNFUSED_CUDA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct unfused {
    const uint8_t *nv12;  /* `count` pictures behind each other, rows without gaps, luma before chroma */
    uint8_t *rgb;         /* count x height x width x 3 */
    float *small;         /* count x side x side x 3 */
    uint16_t *dst;        /* count x 3 x side x side */
    int count, width, height, side;
    int left, top, region; /* the square of the picture that is resized, px */
} unfused;
/* Launches three kernels; 0 or the cudaError_t. */
int unfused_launch(const unfused *job, void *stream);

#ifdef __cplusplus
}
#endif
#endif
