/* Compares the outputs of two devices for the same frame: a capture is the output of one stage for one frame, its
 * payload and its results, in memory of its own; two of them are compared value by value.
 *
 * Errors are absolute differences, in the unit of the value. For floats they are given in units in the last place (ULP)
 * too: the count of numbers of the type between the two, over zero as well. NaN equals NaN, and is infinitely far from
 * all else. */
#pragma once

#include <stdbool.h>

#include "millrace/frame.h"

typedef struct mr_part {
    const mr_result_kind *kind; /* NULL: a picture; a payload that is a tensor: that kind */
    const char *name; /* of a result, may be NULL; the pipeline's */
    mr_format format; /* of pictures and arrays */
    size_t count;     /* elements */
    size_t bytes;
    const void *data; /* pictures: rows without padding, plane after plane */
} mr_part;

enum { MR_CAPTURE_PARTS = 16 };

typedef struct mr_capture {
    mr_identity identity;
    size_t part_count;
    mr_part part[MR_CAPTURE_PARTS];
    struct mr_capture *next;
} mr_capture;

/* Copies the output of the stage `id`: the payload if `payload`, and its results (at most MR_CAPTURE_PARTS in all). The
 * frame lies in host memory. NULL: no memory. Freed with free(). */
mr_capture *mr_capture_create(const mr_frame *frame, const char *id, bool payload);

typedef struct mr_error_sum {
    uint64_t values;     /* compared */
    uint64_t differing;  /* of them */
    uint64_t beyond;     /* of them, further than the tolerance */
    uint64_t reordered;  /* places of a list with another element (mr_comparison.moved) */
    double largest, sum; /* absolute errors */
    bool floats;         /* the next two are set: */
    double most_ulps, ulps_sum;
} mr_error_sum;

/* Adds the errors of `b` against `a`. An error of whole numbers is within `tolerance` up to that, one of floats up to
 * tolerance * max(1, |a|). Elements are compared as their kind says; a text that differs is infinitely far. False if
 * the parts are not alike (kind, format, shape, number): nothing is added. */
bool mr_compare_parts(const mr_part *a, const mr_part *b, double tolerance, mr_error_sum *sum);
void mr_error_sum_add(mr_error_sum *to, const mr_error_sum *from);

/* One value each, for mr_compare_parts and for tests. */
double mr_ulps_f32(float a, float b);
double mr_ulps_f16(uint16_t a, uint16_t b);
