#include "tools/bench/unfused_cuda.h"

#include "kernels/launch.h"
#include "kernels/pixel.h"

enum { THREADS = 256 };

__global__ static void to_rgb(const unfused job) {
    int x = (int)(blockIdx.x * blockDim.x + threadIdx.x), y = (int)blockIdx.y;
    size_t pixels = (size_t)job.width * (size_t)job.height, picture = blockIdx.z;
    if (x >= job.width)
        return;
    const uint8_t *luma = job.nv12 + picture * pixels * 3 / 2,
                  *chroma = luma + pixels + (size_t)(y / 2) * (size_t)job.width;
    float l = 1.164383f * ((float)luma[(size_t)y * (size_t)job.width + (size_t)x] - 16.0f);
    float u = (float)chroma[x / 2 * 2] - 128.0f, v = (float)chroma[x / 2 * 2 + 1] - 128.0f;
    uint8_t *to = job.rgb + (picture * pixels + (size_t)y * (size_t)job.width + (size_t)x) * 3;
    to[0] = mr_float_to_u8(l + 1.792741f * v);
    to[1] = mr_float_to_u8(l - 0.213249f * u - 0.532909f * v);
    to[2] = mr_float_to_u8(l + 2.112402f * u);
}

__device__ static float triangle(float x) {
    x = fabsf(x);
    return x < 1.0f ? 1.0f - x : 0.0f;
}

__global__ static void resize(const unfused job) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), x = i % job.side, y = i / job.side;
    if (y >= job.side)
        return;
    float scale = (float)job.region / (float)job.side;
    float cx = (float)job.left + ((float)x + 0.5f) * scale, cy = (float)job.top + ((float)y + 0.5f) * scale,
          sum[3] = {0, 0, 0};
    float all = 0.0f;
    const uint8_t *src = job.rgb + (size_t)blockIdx.y * (size_t)job.width * (size_t)job.height * 3;
    for (int v = max(0, (int)(cy - scale)); v <= min(job.height - 1, (int)(cy + scale)); v++)
        for (int u = max(0, (int)(cx - scale)); u <= min(job.width - 1, (int)(cx + scale)); u++) {
            float weight = triangle(((float)u + 0.5f - cx) / scale) * triangle(((float)v + 0.5f - cy) / scale);
            const uint8_t *pixel = src + ((size_t)v * (size_t)job.width + (size_t)u) * 3;
            for (int c = 0; c < 3; c++)
                sum[c] += weight * (float)pixel[c];
            all += weight;
        }
    for (int c = 0; c < 3; c++)
        job.small[((size_t)blockIdx.y * (size_t)(job.side * job.side) + (size_t)i) * 3 + (size_t)c] = sum[c] / all;
}

__global__ static void normalise(const unfused job) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x), pixels = job.side * job.side;
    if (i >= pixels)
        return;
    for (int c = 0; c < 3; c++)
        job.dst[((size_t)blockIdx.y * 3 + (size_t)c) * (size_t)pixels + (size_t)i] = mr_float_to_half(
            (job.small[((size_t)blockIdx.y * (size_t)pixels + (size_t)i) * 3 + (size_t)c] - 127.0f) / 128.0f);
}

int unfused_launch(const unfused *job, void *stream) {
    const dim3 large((unsigned)((job->width + THREADS - 1) / THREADS), (unsigned)job->height, (unsigned)job->count);
    const dim3 small((unsigned)((job->side * job->side + THREADS - 1) / THREADS), (unsigned)job->count);
    MR_LAUNCH(to_rgb, large, THREADS, 0, stream, *job);
    MR_LAUNCH(resize, small, THREADS, 0, stream, *job);
    MR_LAUNCH(normalise, small, THREADS, 0, stream, *job);
    return (int)cudaGetLastError();
}
