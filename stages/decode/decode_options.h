/* decode's options, memory and threads: everything known before decoding starts. */
#pragma once

#include "millrace/stage.h"

enum { MR_SKIP_NONE, MR_SKIP_NONREF, MR_SKIP_NONKEY };
enum { MR_DAMAGED_DROP, MR_DAMAGED_KEEP, MR_DAMAGED_MARK };
enum { MR_REDUCED_OFF, MR_REDUCED_AUTO };

typedef struct mr_decode_choices {
    const char *threads;
    int skip;     /* MR_SKIP_... */
    int damaged;  /* MR_DAMAGED_... */
    int reduced;  /* MR_REDUCED_... */
    int64_t max_pixels;
    int hardware; /* mr_hardware */
    int background; /* mr_background */
    struct {
        bool given;
        int matrix; /* mr_matrix */
        int range;  /* mr_range */
    } untagged;
} mr_decode_choices;

extern const mr_option mr_decode_options[];

/* The largest picture that decode accepts from a live source, and from this media. Nobody has seen a live source's
 * pictures before: the planned size counts. */
int64_t mr_decode_live_pixels(const mr_stage *self);
int64_t mr_decode_most_pixels(const mr_stage *self, const mr_media *media);

/* As mr_stage_type has them. */
int mr_decode_negotiate(mr_negotiation *negotiation);
int mr_decode_check(const void *options, const char *device);
int mr_decode_check_input(const void *options, const mr_format_set *input, const char *device, bool *otherwise);
