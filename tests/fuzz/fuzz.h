/* What fuzzers share. FUZZ(data, bytes) { ... } is what libFuzzer calls with an input. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define FUZZ(data, bytes)                                                                                            \
    int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length);                                                 \
    static void fuzz_input(const uint8_t *data, size_t bytes);                                                       \
    int LLVMFuzzerTestOneInput(const uint8_t *input, size_t length) {                                                \
        fuzz_input(input, length);                                                                                   \
        return 0;                                                                                                    \
    }                                                                                                                \
    static void fuzz_input(const uint8_t *data, size_t bytes)

static inline void fault_if(bool fault) {
    if (fault)
        abort();
}

/* A status other than MR_OK must have a message. */
void fuzz_expect_reason(int status);

/* Copies data to the end of an allocation, so that the address sanitizer sees a read beyond it; `zeros` bytes follow.
 * The caller must free the copy. */
uint8_t *fuzz_copy(const uint8_t *data, size_t bytes, size_t zeros);
/* Copies the next piece, which follows a length in two bytes (big-endian), and steps over it. The last piece may be
 * shorter than that. */
uint8_t *fuzz_piece(const uint8_t **data, size_t *left, size_t *bytes, size_t zeros);

/* Makes the fuzzer's own folder, once, in TMPDIR or /dev/shm, and returns the path. The folder is removed when the
 * fuzzer ends. Names in it begin with no dot and have no slash. */
const char *fuzz_folder(void);
/* A path in the folder, valid until the next call. */
const char *fuzz_path(const char *name);
/* Writes a file in the folder. Returns the path, valid until the next call. */
const char *fuzz_file(const char *name, const void *data, size_t bytes);
