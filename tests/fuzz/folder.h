/* A folder of a fuzzer's own, for parsers that open a file by its name. It is removed when the fuzzer ends. */
#pragma once

#include <stddef.h>

/* Its path, in TMPDIR or /dev/shm. The first call makes it. Names begin with no dot and have no slash. */
const char *fuzz_folder(void);
/* Writes a file of it. Returns its path, valid until the next call. */
const char *fuzz_file(const char *name, const void *data, size_t bytes);
