/* Random cases for suites that compare variants; the environment variable MILLRACE_SEED repeats a run. Each case draws
 * from a random_state derived from the seed and the case number, so that a single case can be repeated too. */
#pragma once

#include <stdint.h>
#include <stdlib.h>

static uint64_t seed, random_state;

/* Before main. */
__attribute__((constructor)) static void find_seed(void) {
    const char *given = getenv("MILLRACE_SEED");
    random_state = seed = given ? strtoull(given, NULL, 10) : 20261121;
}

static inline uint32_t draw(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33);
}

static inline int between(int low, int high) {
    return low + (int)(draw() % (uint32_t)(high - low + 1));
}
