/* Uploading 1080p NV12 from pinned memory as the engine does it, with an event for each picture, beside a bare loop of
 * cudaMemcpyAsync. Prints one JSON line; exit status 69 where there is no CUDA device.
 *
 *   bench_cuda_upload [pictures] */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/device/cuda.h"
#include "millrace/status.h"

enum { PICTURE_BYTES = 1920 * 1080 * 3 / 2, SLOTS = 4, ROUNDS = 5 };

typedef struct bench {
    mr_device *device;
    mr_stream *stream;
    cudaStream_t handle;
    void *host[SLOTS], *there[SLOTS];
    int pictures;
} bench;

static void check(int error, const char *what) {
    if (!error)
        return;
    fprintf(stderr, "bench_cuda_upload: %s: %s\n", what,
            error < 0 ? mr_message() : cudaGetErrorString((cudaError_t)error));
    exit(70);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void bare(bench *b) {
    for (int i = 0; i < b->pictures; i++)
        check(cudaMemcpyAsync(b->there[i % SLOTS], b->host[i % SLOTS], PICTURE_BYTES, cudaMemcpyHostToDevice, b->handle),
              "a copy");
    check(cudaStreamSynchronize(b->handle), "the copies");
}

/* A slot is used again once its event is done. */
static void wait_for(mr_event **event) {
    while (*event && !mr_event_done(*event))
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    if (*event)
        check(mr_event_status(*event), "a copy");
    mr_event_unref(event);
}

static void ours(bench *b) {
    mr_event *event[SLOTS] = {NULL};
    for (int i = 0; i < b->pictures; i++) {
        int slot = i % SLOTS;
        wait_for(&event[slot]);
        check(mr_event_create(&event[slot], b->device, NULL), "an event");
        check(mr_stream_copy(b->stream, b->there[slot], b->host[slot], PICTURE_BYTES), "a copy");
        check(mr_stream_record(b->stream, event[slot]), "an event");
    }
    for (int slot = 0; slot < SLOTS; slot++)
        wait_for(&event[slot]);
}

/* Bytes a second, the best of a few rounds after one that is not counted. */
static double rate(bench *b, void (*run)(bench *)) {
    double best = 0.0;
    run(b);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now();
        run(b);
        double reached = (double)b->pictures * PICTURE_BYTES / (now() - begin);
        best = reached > best ? reached : best;
    }
    return best;
}

int main(int count, char **arguments) {
    bench b = {.pictures = count > 1 ? atoi(arguments[1]) : 200};
    void *handle;
    if (mr_device_open(&b.device, "cuda:0", 0, false)) {
        fprintf(stderr, "bench_cuda_upload: nothing was measured: %s\n", mr_message());
        return 69;
    }
    check(mr_stream_create(b.device, &b.stream), "a stream");
    check(mr_cuda_enter(b.stream, &handle), "the device");
    b.handle = handle;
    for (int i = 0; i < SLOTS; i++) {
        check(mr_device_allocate(b.device, MR_MEMORY_PINNED, PICTURE_BYTES, &b.host[i]), "pinned memory");
        check(mr_device_allocate(b.device, MR_MEMORY_DEVICE, PICTURE_BYTES, &b.there[i]), "memory of the device");
        memset(b.host[i], 0x5a, PICTURE_BYTES);
    }
    double alone = rate(&b, bare), engine = rate(&b, ours);
    printf("{\"bare_gb_per_s\": %.2f, \"engine_gb_per_s\": %.2f, \"of_bare\": %.3f}\n", alone / 1e9, engine / 1e9,
           engine / alone);
    for (int i = 0; i < SLOTS; i++) {
        mr_device_free(b.device, MR_MEMORY_PINNED, b.host[i]);
        mr_device_free(b.device, MR_MEMORY_DEVICE, b.there[i]);
    }
    mr_stream_destroy(&b.stream);
    mr_device_destroy(&b.device);
    return 0;
}
