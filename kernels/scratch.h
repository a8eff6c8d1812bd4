/* The calling thread's scratch memory: grown when a kernel needs more, kept between calls, freed when the thread ends.
 * Work that runs on one thread to its end can use it freely; it must not outlive the call. */
#pragma once

#include <stddef.h>

/* At least `bytes` bytes, 64-byte aligned, of undefined content; NULL if memory runs out. Invalidates memory that this
 * thread was given before. */
void *mr_scratch(size_t bytes);
