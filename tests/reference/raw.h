/* Reads raw data, for programs that a reference runs. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* Reads `count` values. Ends the program if any is missing. The caller must free the result. */
static inline void *read_many(FILE *file, size_t count, size_t bytes) {
    void *values = malloc(count * bytes + 1);
    if (values && fread(values, bytes, count, file) == count)
        return values;
    fprintf(stderr, "the input is too short\n");
    exit(EXIT_FAILURE);
}
