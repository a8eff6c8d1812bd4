/* Preprocess plans of the picture formats that a stage has seen lately: frames carry their own format, and a plan is
 * made when a new one comes. Pictures of mixed sizes are normal.
 *
 * Threads: any number may enqueue at once. The resizer must outlive the work that was enqueued with them.
 * Errors: those of mr_preprocess_create, and of the stream. */
#ifndef MILLRACE_STAGES_IMAGE_RESIZER_H
#define MILLRACE_STAGES_IMAGE_RESIZER_H

#include <pthread.h>

#include "kernels/preprocess/preprocess.h"
#include "millrace/stage.h"

/* The inputs of stages with a resizer: any pictures; and what these accept. */
extern const mr_format_set mr_pictures[];
extern const mr_port mr_picture_inputs[];

typedef struct mr_resizer_plan mr_resizer_plan;

/* Part of a stage's state; zeroed memory may be passed to _fini. */
typedef struct mr_resizer {
    mr_preprocess_params params; /* width 0: as large as the picture is */
    pthread_mutex_t lock;        /* of the list; held for a look-up only, never while a plan is made */
    bool has_lock;
    mr_resizer_plan *entries;
    int count;
} mr_resizer;

/* negotiate: declares the memory of the tables on CUDA devices, and the work there, for pictures of the inputs. */
void mr_resizer_promise(mr_negotiation *negotiation, const mr_preprocess_params *params);
int mr_resizer_init(mr_resizer *resizer, const mr_preprocess_params *params);
void mr_resizer_fini(mr_resizer *resizer);

/* A picture and its destination: `dst` has room for mr_preprocess_output of the parameters. `geometry` is optional:
 * receives the map from there to the source's picture. */
typedef struct mr_resizer_item {
    const mr_frame *picture;
    void *dst;
    mr_geometry *geometry;
} mr_resizer_item;

/* Enqueues preprocessing of `count` pictures, together if the device can. The frames' planes and all `dst` must stay
 * until the work is done. */
int mr_resizer_enqueue(mr_resizer *resizer, mr_stream *stream, const mr_resizer_item *items, size_t count);

#endif
