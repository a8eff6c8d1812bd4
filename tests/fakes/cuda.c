/* Replaces libcuda.so.1: a driver with two GPUs. It gives UUIDs and makes contexts current, which fakes/nvcuvid.c
 * checks. It does nothing else. */
#include <string.h>

enum { GPUS = 2, VERSION = 13000, INVALID_DEVICE = 101 };

int cuInit(unsigned flags);
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetUuid_v2(unsigned char uuid[16], int device);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxGetCurrent(void **context);
void fake_cuda_use(int device);

int cuInit(unsigned flags) {
    return 0;
}

int cuDriverGetVersion(int *version) {
    *version = VERSION;
    return 0;
}

int cuDeviceGetCount(int *count) {
    *count = GPUS;
    return 0;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < GPUS ? 0 : INVALID_DEVICE;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    enum { TEXTURE_ALIGNMENT = 14 };
    *value = attribute == TEXTURE_ALIGNMENT ? 512 : 0;
    return device < GPUS ? 0 : INVALID_DEVICE;
}

/* GPU-a0a0..., GPU-a1a1... */
int cuDeviceGetUuid_v2(unsigned char uuid[16], int device) {
    memset(uuid, 0xa0 + device, 16);
    return device < GPUS ? 0 : INVALID_DEVICE;
}

/* One for each device; the address identifies the device. */
static int contexts[GPUS], retained[GPUS];
static _Thread_local void *stack[8];
static _Thread_local int depth;
static void *bottom; /* current on each thread that has pushed none */

int cuDevicePrimaryCtxRetain(void **context, int device) {
    if (device >= GPUS)
        return INVALID_DEVICE;
    contexts[device] = device;
    retained[device]++;
    *context = &contexts[device];
    return 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    return retained[device]-- > 0 ? 0 : INVALID_DEVICE;
}

/* For tests: makes a device current on all threads, as the runtime can. -1: no device. */
void fake_cuda_use(int device) {
    bottom = device >= 0 ? &contexts[device] : NULL;
    if (device >= 0) {
        contexts[device] = device;
        retained[device]++;
    }
}

int cuCtxPushCurrent_v2(void *context) {
    stack[depth++] = context;
    return 0;
}

int cuCtxPopCurrent_v2(void **context) {
    *context = depth ? stack[--depth] : NULL;
    return 0;
}

/* Gives no context if nobody has retained it. */
int cuCtxGetCurrent(void **context) {
    void *current = depth ? stack[depth - 1] : bottom;
    *context = current && retained[*(const int *)current] ? current : NULL;
    return 0;
}
