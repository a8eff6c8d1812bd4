/* Runs kernels on a named device in tests: memory there, copies, and waiting for the work. Failures fail the test. */
#pragma once

#include "engine/device/device.h"
#include "tests/support/suite.h"

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

/* Skips the test if the device is missing. */
void need_device(on_device *d, const char *name);
/* Where the host plays a card, skips a test of anything else: it runs in the suite's other build. */
static inline void need_no_card(void) {
#ifdef MILLRACE_CUDA_HOST
    skip();
#endif
}
#define PLAIN_TEST(name) TEST_THAT(name, need_no_card)

/* A test on simulated and CUDA devices, or on CUDA alone. */
void on_device_test(const char *name, void (*test)(on_device *d));
#define DEVICE_TEST(name)                                                                                              \
    static void name(on_device *d);                                                                                    \
    PLAIN_TEST(name##_sim) {                                                                                           \
        on_device_test("sim:0", name);                                                                                 \
    }                                                                                                                  \
    CUDA_TEST(name)
#define CUDA_TEST(name)                                                                                                \
    static void name(on_device *d);                                                                                    \
    TEST(name##_cuda) {                                                                                                \
        on_device_test("cuda:0", name);                                                                                \
    }                                                                                                                  \
    static void name(on_device *d)
