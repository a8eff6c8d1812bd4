/* Libraries that the command loads when it first calls one of their functions: FFmpeg's, libpq and libcurl. Debian's
 * FFmpeg comes with more than a hundred others, and loading them took two thirds of the processor time of a start.
 *
 * lazy.S defines each function that the command calls there, as a jump through a slot. lazy.cmake lists the functions
 * while building. The linker then finds no reason to name their libraries in the program. A slot first leads to
 * mr_lazy_load, which sets it; the call continues with its arguments. A shared library of millrace, and so a package,
 * names the libraries as usual. */
#pragma once

/* For each function: the address to jump to, the name, and the soname of the library. */
extern void *mr_lazy_slots[];
extern const char *const mr_lazy_names[], *const mr_lazy_libraries[];

/* Loads the library of a slot's function and sets the slot. Any thread. If the library is missing or lacks the
 * function, it prints a message and ends the process with code 69. */
void mr_lazy_load(void **slot);
