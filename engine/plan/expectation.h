/* The frame rate that a plan is expected to reach on cards that are not present: `plan --assume cuda:1xH100`, or on
 * simulated devices that are like one.
 *
 * It is a model, not a measurement. For every stage on such a card:
 *
 *     bytes that it reads and writes there / the memory's rate
 *     operations of networks / the rate of that precision
 *
 * The longer of the two keeps the card's processors busy; launches are added to it, and calls in flight hide them
 * from each other. Copies move their bytes at the rate of their direction, and are alone on their engine. NVDEC's rate
 * is that of its table for the codec, by the number of pixels. Stages on the host take the time that a profile has
 * measured (--costs), or are reported as not modelled. All frames of a stage's sources are assumed to reach it, and all
 * sources to emit equally many.
 *
 * Frames a second: limited by the resource with the most work, by a stage with too few calls in flight, or by sources
 * that keep to a clock. The arithmetic of kernels other than networks is not modelled, nor is what a stage names. Both
 * can only make it slower, so the rate is an upper bound. */
#ifndef MILLRACE_PLAN_EXPECTATION_H
#define MILLRACE_PLAN_EXPECTATION_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/device/sim/card.h"

/* Nanoseconds of a card that one frame needs; for a batch, its share. */
typedef struct mr_expected_part {
    double upload_ns, download_ns; /* of a copy engine */
    double launch_ns;              /* between kernels that depend on each other */
    double memory_ns, operation_ns; /* of the processors: the longer counts */
    double decode_ns;              /* of one decoder */
} mr_expected_part;

typedef struct mr_expected_stage {
    int device;           /* the first of its devices that is like a card; -1: it is not on one */
    mr_expected_part part;
    double host_ns;       /* of a processor, as a profile has measured it; 0: not known */
    double rate;          /* frames of its own a second, with the card to itself; 0: not known */
    const char *limit;    /* the resource that it uses most: "uploads", "launches", ... */
    const char *missing;  /* the part of it that is not modelled, and why; NULL: all is */
} mr_expected_stage;

/* Of one device, for one source frame. */
typedef struct mr_expected_device {
    const mr_card *card;  /* NULL: it is not like a card; all else is 0 then */
    double upload_ns, download_ns, compute_ns, decode_ns; /* decode_ns: all its decoders together */
} mr_expected_device;

typedef struct mr_expectation {
    mr_expected_stage *stages;   /* by vertex */
    mr_expected_device *devices; /* by index */
    double rate;       /* source frames a second, of all sources together; 0: no modelled resource limits it */
    const char *limit; /* "uploads", "downloads", "the card's processors", "decoders", "calls in flight", "processors",
                          "sources"; NULL: nothing */
    int device;        /* the device of that resource; -1: none */
    int stage;         /* the vertex that uses most of it; -1: none */
} mr_expectation;

#endif
