/* A sample of what passes a stage of a running pipeline: for people who look into it, and for pages that show it.
 *
 * Nothing in the run waits for a sample (mr_pipeline_tap). */
#ifndef MILLRACE_SAMPLE_H
#define MILLRACE_SAMPLE_H

#include "millrace/millrace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_sample_choices {
    int64_t wait_ns; /* how long to wait for a frame */
    int values;      /* how many of a tensor's first values to give */
    bool picture;    /* give a picture as JPEG, upright */
} mr_sample_choices;

typedef struct mr_sample {
    const char *stage, *source; /* live as long as the pipeline */
    char *record;         /* the frame's record as JSON, as the stage jsonl writes it, without a newline; with the named
                           * tensors if they have at most 256 values together */
    char format[160];     /* of the payload, in words */
    size_t count, given;  /* a tensor's values, and how many are in `first` */
    double least, most, mean, *first;
    uint8_t *jpeg;        /* NULL: no picture */
    size_t jpeg_bytes;
    bool elsewhere;       /* the payload lies in a device's memory, so it is not given */
} mr_sample;

/* Waits for the next frame that passes, and takes a sample of it; the caller must call mr_sample_fini. As
 * mr_pipeline_tap; MR_ERROR_MEMORY; MR_ERROR_DATA: the picture cannot be encoded, or takes more than 24 MiB. */
MR_API int mr_sample_take(mr_pipeline *pipeline, const char *stage, const mr_sample_choices *choices,
                          mr_sample *sample);
MR_API void mr_sample_fini(mr_sample *sample);

#ifdef __cplusplus
}
#endif

#endif
