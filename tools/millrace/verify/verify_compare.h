/* Compares two devices' outputs for the same frame. A capture copies one stage's output for one frame, payload and
 * results. Two captures are compared value by value.
 *
 * Errors are absolute differences, in the value's unit. For floats they are also measured in units in the last place
 * (ULP): how many numbers of the type lie between the two, across zero too. NaN equals NaN and is infinitely far from
 * everything else. */
#pragma once

#include <stdbool.h>

#include "millrace/frame.h"

typedef struct mr_part {
    const mr_result_kind *kind; /* NULL: a picture; a payload that is a tensor: that kind */
    const char *name; /* a result's name, may be NULL; owned by the pipeline */
    mr_format format; /* for pictures and arrays */
    size_t count;     /* elements */
    size_t bytes, items_bytes;
    const void *items; /* those of elements (mr_items) */
    const void *data; /* pictures: rows without padding, plane after plane */
} mr_part;

enum { MR_CAPTURE_PARTS = 16 };

typedef struct mr_capture {
    mr_identity identity;
    size_t part_count;
    mr_part part[MR_CAPTURE_PARTS];
    struct mr_capture *next;
} mr_capture;

/* Copies the output of stage `id`: the payload if `payload`, and the results (at most MR_CAPTURE_PARTS in all). The
 * frame must be in host memory. NULL: no memory. The caller must free the copy with free(). */
mr_capture *mr_capture_create(const mr_frame *frame, const char *id, bool payload);

typedef struct mr_error_sum {
    uint64_t values;     /* compared */
    uint64_t differing;  /* among these */
    uint64_t beyond;     /* of these, beyond the tolerance */
    uint64_t reordered;  /* list positions with another element (mr_comparison.moved) */
    double largest, sum; /* absolute errors */
    bool floats;         /* the next two are set: */
    double most_ulps, ulps_sum;
} mr_error_sum;

/* Adds the errors of `b` compared with `a`. An error may be at most `tolerance` for whole numbers, and tolerance *
 * max(1, |a|) for floats. Elements are compared as their kind requires; a text that differs is infinitely far. False:
 * the parts are not alike (kind, format, shape, number), and nothing was added. */
bool mr_compare_parts(const mr_part *a, const mr_part *b, double tolerance, mr_error_sum *sum);
void mr_error_sum_add(mr_error_sum *to, const mr_error_sum *from);

/* Compares one value each, for mr_compare_parts and for tests. */
double mr_ulps_f32(float a, float b);
double mr_ulps_f16(uint16_t a, uint16_t b);
