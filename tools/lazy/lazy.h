/* FFmpeg's libraries, loaded when the command first calls one of their functions. Debian's FFmpeg comes with more than
 * a hundred others, and loading them takes most of the time in which a command such as `millrace ctl` starts.
 *
 * lazy.S defines each function that the library calls, as a jump through a slot. tools/lazy/lazy.cmake lists them while
 * building, so the linker has no reason to name FFmpeg's libraries in the program. A slot's first content leads to
 * mr_lazy_load, which fills all slots; the call then goes on with its arguments. Shared libraries and packages name
 * FFmpeg as usual. */
#pragma once

extern void *mr_lazy_slots[], *mr_lazy_slots_end[]; /* a function's address each */
extern const char *const mr_lazy_names[];           /* theirs, in the same order */
extern const char *const mr_lazy_libraries[];       /* sonames; the last is NULL */

/* Loads the libraries and fills the slots, once. Any thread. If a library is missing or lacks a function, it prints a
 * message and ends the process with code 69, as the dynamic loader would end it at the start. */
void mr_lazy_load(void);
