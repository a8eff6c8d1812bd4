/* Caches preprocess plans for recent picture formats. Each frame carries a format, and a new one needs a new plan.
 * Pictures with mixed sizes are normal.
 *
 * Any number of threads may enqueue at once. The resizer must outlive all enqueued work. Errors: as
 * mr_preprocess_create, and stream errors. */
#pragma once

#include <pthread.h>

#include "kernels/preprocess/preprocess.h"
#include "millrace/stage.h"

/* Input ports for stages with a resizer: they accept any pictures. */
extern const mr_format_set mr_pictures[];
extern const mr_port mr_picture_inputs[];

typedef struct mr_resizer_plan mr_resizer_plan;

/* Lies in a stage's state. _fini accepts zeroed memory. */
typedef struct mr_resizer {
    mr_preprocess_params params; /* width 0: as large as the picture is */
    pthread_mutex_t lock;        /* guards the list; held only during look-up, never while a plan is made */
    bool has_lock;
    mr_resizer_plan *entries;
    int count;
} mr_resizer;

/* negotiate: declares table memory and work on CUDA devices, for the pictures on the inputs. */
void mr_resizer_promise(mr_negotiation *negotiation, const mr_preprocess_params *params);
int mr_resizer_init(mr_resizer *resizer, const mr_preprocess_params *params);
void mr_resizer_fini(mr_resizer *resizer);

/* A picture and its destination. `dst` must have room for mr_preprocess_output. `geometry` (optional) receives the map
 * from there to the source picture. */
typedef struct mr_resizer_item {
    const mr_frame *picture;
    void *dst;
    mr_geometry *geometry;
    uint64_t *bars; /* Optional. As in mr_preprocess_work. */
} mr_resizer_item;

/* Enqueues preprocessing of `count` pictures, together if the device can. The frames' planes and all `dst` must stay
 * until the work is done. */
int mr_resizer_enqueue(mr_resizer *resizer, mr_stream *stream, const mr_resizer_item *items, size_t count);
