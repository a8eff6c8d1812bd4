/* A frame that has passed a stage of a run, as JSON: `millrace tap` and programs ask for it at the control socket. */
#pragma once

#include <yajl/yajl_gen.h>

#include "millrace/millrace.h"

typedef struct mr_sample_choices {
    int64_t wait_ns; /* how long to wait for a frame */
    int values;      /* how many of a tensor's first values to give */
    bool picture;    /* give a picture as JPEG */
} mr_sample_choices;

/* KEY=VALUE options of a request: wait (seconds, at most 10), values (at most 1000), picture (true, false). MR_ERROR_USAGE
 * for others. */
int mr_sample_choose(mr_sample_choices *choices, size_t count, const mr_override *options);

/* What is kept of a frame once the run has it back. */
typedef struct mr_sample {
    const char *stage, *source;
    char *record;         /* as jsonl writes it, without the newline */
    char format[160];
    size_t count, given;  /* a tensor's values, and how many are in `first` */
    double least, most, mean, *first;
    uint8_t *jpeg;
    size_t jpeg_bytes;
    bool elsewhere;       /* the payload lies in a device's memory, so it is not given */
} mr_sample;

/* Waits for the next frame and takes a sample of it; as mr_pipeline_tap. */
int mr_sample_take(mr_pipeline *pipeline, const char *stage, const mr_sample_choices *choices, mr_sample *sample);
/* Writes the members of an object. */
void mr_sample_put(yajl_gen json, const mr_sample *sample);
void mr_sample_fini(mr_sample *sample);
