/* Finding shared libraries that the loader does not: those that pip put into a Python environment, and the CUDA
 * toolkit's.
 *
 * pip gives each of NVIDIA's packages a folder below site-packages: nvidia/cu13/lib, nvidia/cublas/lib, tensorrt_libs.
 * A library that is loaded from there may need others, which are then loaded from there as well. What was loaded stays
 * until the process ends. Any thread. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { MR_LIBRARY_NAME = 128 };

/* The first file that matches `pattern` (a shell pattern), relative to a Python environment's site-packages. Searches,
 * in this order: venv/ beside the program, the environment that holds MILLRACE_ONNXRUNTIME's library, VIRTUAL_ENV, the
 * user's (~/.local) and the system's. False, and an empty text, if there is none. */
bool mr_site_find(const char *pattern, char path[PATH_MAX]);

/* The first file with that name, or pattern, in the folders where NVIDIA's packages are in one site-packages (NULL: in
 * all that mr_site_find searches) or in /usr/local/cuda/lib64. False, and an empty text, if there is none. */
bool mr_nvidia_find(const char *site, const char *name, char path[PATH_MAX]);

/* Loads a library that mr_nvidia_find finds, and the libraries that it needs. Other libraries can then find all by
 * name. NULL if it cannot be loaded: `name` is then the missing one. */
void *mr_nvidia_load(const char *site, char name[MR_LIBRARY_NAME]);

/* The library that a message of the loader says is missing: "libcublas.so.13: cannot open shared object file". */
bool mr_nvidia_missing(const char *message, char name[MR_LIBRARY_NAME]);
