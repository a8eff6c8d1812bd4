/* Numbers for tests, the same in every run. Each file that includes this draws a separate sequence. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

static uint32_t random_state = 20261121;

/* Uniform in -1..1. */
static inline float draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) / 8388608.0f - 1.0f;
}

/* The caller must free the result. */
static inline float *draw_many(size_t count) {
    float *values = malloc(count * sizeof *values);
    for (size_t i = 0; i < count; i++)
        values[i] = draw();
    return values;
}
