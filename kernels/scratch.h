/* The calling thread's scratch memory: grows when a kernel needs more, stays between calls, and is freed when the
 * thread ends. Work that runs to the end on one thread can use it freely; it must not outlive the call. */
#pragma once

#include <stddef.h>

/* At least `bytes` bytes, 64-byte aligned, with undefined content; NULL if there is no memory. Memory that this thread
 * got before must not be used any more. */
void *mr_scratch(size_t bytes);
