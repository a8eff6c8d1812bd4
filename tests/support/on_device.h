/* Runs kernels on a named device in tests: memory there, copies, and waiting for the work. Failures fail the test. */
#pragma once

#include <stdio.h>

#include "engine/device/device.h"

typedef struct on_device {
    mr_device *device;
    mr_stream *stream;
} on_device;

/* False if this machine or build has no such device. */
bool on_device_open(on_device *d, const char *name);
void on_device_close(on_device *d);
/* Allocates device memory and copies this many bytes from the host into it. */
void *on_device_put(on_device *d, const void *from, size_t bytes);
/* Waits for all work, copies the memory back and frees it. */
void on_device_take(on_device *d, void *there, void *to, size_t bytes);
void on_device_free(on_device *d, void *there);
/* Waits for all work, which must not have failed. */
void on_device_finish(on_device *d);

/* A test's message about the CUDA device. */
#ifdef MILLRACE_CUDA_HOST
#define ON_CUDA "cuda:0, played by the host"
#else
#define ON_CUDA "cuda:0"
#endif

/* For cmocka: skips the test if the device is missing. */
#define ON_DEVICE_OR_SKIP(d, name)                                                                                     \
    do                                                                                                                 \
        if (!on_device_open(d, name)) {                                                                                \
            printf("skipped: %s\n", mr_message());                                                                     \
            skip();                                                                                                    \
        }                                                                                                              \
    while (0)
