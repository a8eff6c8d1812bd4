/* Shared by the classical features. preprocess makes each picture small, and numbers are computed from the small one.
 * The numbers become the frame's payload, or a named result on a frame that is passed on unchanged.
 *
 * All work is enqueued. A call's small pictures share one buffer, and one piece of work handles up to MR_PIECE
 * pictures. Numbers that become results are downloaded together (download.h). Threads and errors: as for any stateless
 * stage. */
#pragma once

#include "kernels/classical/classical.h"
#include "stages/image/resizer.h"

/* Small pictures, and where their numbers must be written. */
typedef struct mr_image_batch {
    int32_t count;
    const uint8_t *src[MR_PIECE];
    void *dst[MR_PIECE];
} mr_image_batch;

/* Must be the first member in the stage's state. */
typedef struct mr_extractor {
    mr_resizer resizer;
    mr_format tensor;  /* one frame's numbers; all dimensions fixed */
    const char *name;  /* result name; NULL: the numbers become the payload */
    int (*enqueue)(const mr_stage *self, mr_stream *stream, const mr_image_batch *work);
} mr_extractor;

/* Outputs for stages whose numbers become the payload. */
extern const mr_port mr_vector_outputs[];

/* Small pictures as all features take them: u8 planes with the given size, stretched, values unchanged. */
mr_preprocess_params mr_extractor_look(mr_size size, bool gray);

/* negotiate: declares the output and a call's memory, for `look`, `tensor` and `name` as in mr_extractor. `launches`:
 * kernel launches for up to MR_PIECE frames. */
int mr_extractor_promise(mr_negotiation *negotiation, const mr_preprocess_params *look, const mr_format *tensor,
                         const char *name, int launches);
/* Declares the workspace that a stage's kernels need per picture. */
void mr_extractor_plan_workspace(mr_negotiation *negotiation, size_t bytes);
/* Like mr_extractor_promise, but declares only the output. */
int mr_extractor_promise_result(mr_negotiation *negotiation, const mr_format *tensor, const char *name);

/* open, close and process for a stage whose state begins with an mr_extractor. The stage must set the other fields
 * first. */
int mr_extractor_open(mr_stage *self, const mr_preprocess_params *look);
void mr_extractor_close(mr_stage *self);
int mr_extractor_process(mr_stage *self, mr_io *io);

/* What their stage types have in common. */
#define MR_EXTRACTOR_TYPE                                                                                              \
    .inputs = mr_picture_inputs, .entry = MR_ENTRY_STATELESS, .batches = true, .streams = true, .cuda = true,          \
    .process = mr_extractor_process
