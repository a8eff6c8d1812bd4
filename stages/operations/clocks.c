#include "stages/operations/clocks.h"

#include "engine/base/thread.h"
#include "engine/device/probe/gpu.h"

enum { TRIES = 7, ADDITIONS = 16, ROUNDS = 20000 };

/* Every processor adds in one cycle, and each addition waits for the previous one: additions count cycles. The asm
 * makes the compiler keep each sum. The summand must be in a register: some processors (Intel since Alder Lake) merge
 * additions of constants and do several per cycle. This also works where the system shows no frequency. */
static uint64_t add_on(uint64_t sum) {
    uint64_t step = 3;
    __asm__ volatile("" : "+r"(step));
    for (int round = 0; round < ROUNDS; round++)
#pragma GCC unroll 16
        for (int i = 0; i < ADDITIONS; i++) {
            sum += step;
            __asm__ volatile("" : "+r"(sum));
        }
    return sum;
}

/* The fastest try counts: others were interrupted. */
static double core_mhz(void) {
    int64_t least_ns = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t begin_ns = mr_thread_cpu_ns();
        volatile uint64_t sum = add_on((uint64_t)i);
        (void)sum;
        int64_t ns = mr_thread_cpu_ns() - begin_ns;
        least_ns = ns < least_ns ? ns : least_ns;
    }
    return least_ns > 0 ? 1e3 * ADDITIONS * ROUNDS / (double)least_ns : 0;
}

static mr_operations_clocks gpu_clocks(int index) {
    mr_operations_clocks clocks = {0};
    mr_gpu_access access;
    mr_gpus found;
    mr_gpu_access_open(&access);
    if (!mr_gpus_probe(&access, &found)) {
        for (int i = 0; i < found.count; i++)
            if (found.gpu[i].index == index)
                clocks = (mr_operations_clocks){found.gpu[i].core_mhz, found.gpu[i].memory_mhz};
        mr_gpus_fini(&found);
    }
    mr_gpu_access_close(&access);
    return clocks;
}

mr_operations_clocks mr_clocks_read(const mr_device *device) {
    switch (device->type->kind) {
    case MR_DEVICE_CPU:
        return (mr_operations_clocks){.core_mhz = core_mhz()};
    case MR_DEVICE_CUDA:
        return gpu_clocks(device->index);
    case MR_DEVICE_SIM:
        break;
    }
    return (mr_operations_clocks){0};
}
