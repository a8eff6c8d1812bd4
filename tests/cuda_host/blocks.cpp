/* Launches in the imitated CUDA runtime: each block's threads run as fibers, in turn from barrier to barrier. */
#include "cuda_runtime_api.h"

#include <assert.h>
#include <mutex>
#include <stdlib.h>
#include <string.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

dim3 threadIdx, blockIdx, blockDim, gridDim;

enum { MOST_THREADS = 1024, STACK_BYTES = 128 << 10 };

/* Created once and reused for threads in other launches. Calls on it always return, as sanitizers that count calls
 * expect. */
struct fiber {
#ifdef __x86_64__
    void *top; /* its stack pointer while it does not run */
#else
    ucontext_t context;
#endif
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

static void begin();

/* swapcontext makes a system call, and the address sanitizer clears the shadow of a whole stack with each: together
 * three quarters of the time. */
#ifdef __x86_64__
extern "C" void mr_host_switch(void **from_top, void *to_top);
asm(".text\n"
    "mr_host_switch:\n"
    "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
    "movq %rsp, (%rdi)\n"
    "movq %rsi, %rsp\n"
    "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
    "ret\n");

static void switch_to(fiber *from, fiber *to) {
    mr_host_switch(&from->top, to->top);
}

/* As mr_host_switch leaves it: six registers, and the address where it returns to. */
static void set_up(fiber *made) {
    void **end = reinterpret_cast<void **>(made->stack + STACK_BYTES);
    memset(end - 8, 0, 8 * sizeof *end);
    end[-2] = reinterpret_cast<void *>(begin);
    made->top = end - 8;
}
#else
static void switch_to(fiber *from, fiber *to) {
    swapcontext(&from->context, &to->context);
}

static void set_up(fiber *made) {
    getcontext(&made->context);
    made->context.uc_stack.ss_sp = made->stack;
    made->context.uc_stack.ss_size = STACK_BYTES;
    made->context.uc_link = nullptr;
    makecontext(&made->context, begin, 0);
}
#endif

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
    set_up(made);
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
