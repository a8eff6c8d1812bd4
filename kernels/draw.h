/* Random numbers from a seed, the same on every machine: SplitMix64 (Steele, Lea and Flood, Fast Splittable
 * Pseudorandom Number Generators, 2014). The state is one number, which the caller must keep; any value can begin
 * one. */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t mr_draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Uniform below `limit`, at most 2^32: a product's upper half (Lemire, Fast Random Integer Generation in an Interval,
 * 2019). The bias of limit / 2^32 does not matter here. */
static inline size_t mr_draw_below(uint64_t *state, size_t limit) {
    return (size_t)(((mr_draw(state) >> 32) * (uint64_t)limit) >> 32);
}

/* Uniform in 0 < x <= 1. */
static inline double mr_draw_unit(uint64_t *state) {
    return ldexp((double)((mr_draw(state) >> 11) + 1), -53);
}

/* Normal, with mean 0 and variance 1 (Box and Muller, 1958; one of the two). */
static inline double mr_draw_normal(uint64_t *state) {
    double length = sqrt(-2.0 * log(mr_draw_unit(state)));
    return length * cos(6.283185307179586 * mr_draw_unit(state));
}
