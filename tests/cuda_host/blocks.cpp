/* Launches in the imitated CUDA runtime: each block's threads run as fibers, in turn from barrier to barrier. */
#include "cuda_runtime_api.h"

#include <assert.h>
#include <mutex>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

dim3 threadIdx, blockIdx, blockDim, gridDim;

enum { MOST_THREADS = 1024, STACK_BYTES = 128 << 10 };

/* Created once and reused for threads in other launches. Calls on it always return, as sanitizers that count calls
 * expect. */
struct fiber {
    ucontext_t context;
    char *stack;
    bool finished;
};

static std::mutex turn; /* one launch at a time */
static fiber fibers[MOST_THREADS];
static fiber scheduler;
static unsigned running;
static void (*body)(void *);
static void *body_context;
static void *shared;
static bool descending;

void *mr_host_shared() {
    return shared;
}

static void switch_to(fiber *from, fiber *to) {
    swapcontext(&from->context, &to->context);
}

static void yield() {
    switch_to(&fibers[running], &scheduler);
}

void __syncthreads() {
    yield();
}

static void begin() {
    for (;;) {
        body(body_context);
        fibers[running].finished = true;
        yield();
    }
}

static void prepare(fiber *made) {
    made->finished = false;
    if (made->stack)
        return;
    made->stack = static_cast<char *>(malloc(STACK_BYTES));
    getcontext(&made->context);
    made->context.uc_stack.ss_sp = made->stack;
    made->context.uc_stack.ss_size = STACK_BYTES;
    made->context.uc_link = nullptr;
    makecontext(&made->context, begin, 0);
}

/* Runs all threads to the next barrier or the end; returns whether any is left. */
static bool run_threads(unsigned count) {
    bool left = false;
    for (unsigned i = 0; i < count; i++) {
        running = descending ? count - 1 - i : i;
        if (fibers[running].finished)
            continue;
        threadIdx = dim3(running % blockDim.x, running / blockDim.x % blockDim.y, running / (blockDim.x * blockDim.y));
        switch_to(&scheduler, &fibers[running]);
        left = left || !fibers[running].finished;
    }
    return left;
}

static void run_block() {
    unsigned count = blockDim.x * blockDim.y * blockDim.z;
    for (unsigned i = 0; i < count; i++)
        prepare(&fibers[i]);
    while (run_threads(count))
        ;
}

void mr_host_launch(dim3 grid, dim3 block, size_t shared_bytes, void (*thread)(void *context), void *context) {
    std::lock_guard<std::mutex> lock(turn);
    assert(block.x * block.y * block.z <= MOST_THREADS && shared_bytes <= 48 * 1024 && grid.y <= 65535 &&
           grid.z <= 65535);
    gridDim = grid;
    blockDim = block;
    body = thread;
    body_context = context;
    shared = malloc(shared_bytes ? shared_bytes : 1);
    descending = !descending;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                memset(shared, 0xcd, shared_bytes);
                blockIdx = dim3(x, y, z);
                run_block();
            }
    free(shared);
}

uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t selector) {
    const uint64_t both = (uint64_t)high << 32 | low;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++)
        result |= (uint32_t)(both >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
    return result;
}
