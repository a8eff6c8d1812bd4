/* What frame rate a plan is expected to reach on cards that are not at hand: `plan --assume cuda:1xH100`, or on simulated
 * devices that are like one.
 *
 * It is a model, not a measurement. Of every stage on such a card:
 *
 *     bytes that it reads and writes there / the memory's rate
 *     instructions of threads / the rate at which they are issued
 *     operations of networks / the rate of that precision
 *
 * The longest of the three keeps the card's processors busy; launches come beside it, which calls in flight hide from each
 * other. Copies take their bytes at the rate of their direction, and are alone on their engine. NVDEC takes what its table
 * says for the codec, by the number of pixels. Stages on the host take what a profile has measured (--costs), or are said
 * not to be modelled. All frames of a stage's sources are taken to come to it, and all sources to give equally many.
 *
 * Frames a second: as many as the resource with most to do can serve, or the stage whose calls in flight are too few, or
 * the sources that keep to a clock give. What is not modelled can only make it slower, so a rate is then an upper bound. */
#ifndef MILLRACE_PLAN_EXPECTATION_H
#define MILLRACE_PLAN_EXPECTATION_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/device/sim/card.h"

/* What one frame takes of a card, in nanoseconds; of a batch its share. */
typedef struct mr_expected_part {
    double upload_ns, download_ns; /* of a copy engine */
    double launch_ns;              /* between kernels that depend on each other */
    double memory_ns, instruction_ns, operation_ns; /* of the processors: the longest counts */
    double decode_ns;              /* of one decoder */
} mr_expected_part;

typedef struct mr_expected_stage {
    int device;           /* the first of its devices that is like a card; -1: it is not on one */
    mr_expected_part part;
    double host_ns;       /* of a processor, as a profile has measured it; 0: not known */
    double rate;          /* frames of its own a second, with the card to itself; 0: not known */
    const char *limit;    /* what it takes most of: "uploads", "launches", ... */
    const char *missing;  /* what of it is not modelled, and why; NULL: all is */
} mr_expected_stage;

/* Of one device, for a frame that the sources give. */
typedef struct mr_expected_device {
    const mr_card *card;  /* NULL: it is not like a card; all else is 0 then */
    double upload_ns, download_ns, compute_ns, decode_ns; /* decode_ns: all its decoders together */
} mr_expected_device;

typedef struct mr_expectation {
    mr_expected_stage *stages;   /* by vertex */
    mr_expected_device *devices; /* by index */
    double rate;       /* source frames a second, of all sources together; 0: nothing limits it that is modelled */
    const char *limit; /* "uploads", "downloads", "the card's processors", "decoders", "calls in flight", "processors",
                          "sources"; NULL: nothing */
    int device;        /* whose resource it is; -1: of none */
    int stage;         /* the vertex that takes most of it; -1: none */
    size_t missing;    /* vertices of which something is not modelled */
} mr_expectation;

#endif
