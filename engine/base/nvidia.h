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

/* The first file that matches `pattern` (as of a shell), relative to the site-packages of a Python environment: that in
 * venv/ beside the program, the one that holds the library of MILLRACE_ONNXRUNTIME, VIRTUAL_ENV, the user's own
 * (~/.local) and the system's, in this order. False, and an empty text, if there is none. */
bool mr_site_find(const char *pattern, char path[PATH_MAX]);

/* The first file of that name, or pattern, in the folders of NVIDIA's packages of one site-packages (NULL: of all those
 * of mr_site_find) or in /usr/local/cuda/lib64. False, and an empty text, if there is none. */
bool mr_nvidia_find(const char *site, const char *name, char path[PATH_MAX]);

/* Loads a library that mr_nvidia_find finds, and those that it needs in its turn; all can then be found by name, by
 * other libraries too. NULL if it cannot be loaded: `name` is then the one that is missing. */
void *mr_nvidia_load(const char *site, char name[MR_LIBRARY_NAME]);

/* The library that a message of the loader says is missing: "libcublas.so.13: cannot open shared object file". */
bool mr_nvidia_missing(const char *message, char name[MR_LIBRARY_NAME]);
