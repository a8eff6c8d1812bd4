/* Raw data for programs that a reference drives. */
#pragma once

#include <stdio.h>
#include <stdlib.h>

/* Reads values, which must all be there; ends the program if they are not. The caller must free them. */
static inline void *read_many(FILE *file, size_t count, size_t bytes) {
    void *values = malloc(count * bytes + 1);
    if (values && fread(values, bytes, count, file) == count)
        return values;
    fprintf(stderr, "the input is too short\n");
    exit(EXIT_FAILURE);
}
