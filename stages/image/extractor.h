/* The common part of the classical features: preprocess makes each picture small, and numbers are computed from the
 * small one. They become the frame's payload, or a named result of a frame that is passed on unchanged.
 *
 * Everything is enqueued: the small pictures of a call in one buffer, then one piece of work for up to MR_PIECE of
 * them; numbers that become results are downloaded together (download.h). Threads and errors: those of a stateless
 * stage. */
#pragma once

#include "kernels/classical/classical.h"
#include "stages/image/resizer.h"

/* Small pictures, and the addresses of their numbers. */
typedef struct mr_image_batch {
    int32_t count;
    const uint8_t *src[MR_PIECE];
    void *dst[MR_PIECE];
} mr_image_batch;

/* Part of a stage's state, at its beginning. */
typedef struct mr_extractor {
    mr_resizer resizer;
    mr_format tensor;  /* of the numbers of one frame; all dimensions fixed */
    const char *name;  /* of the result; NULL: the numbers become the payload */
    int (*enqueue)(const mr_stage *self, mr_stream *stream, const mr_image_batch *work);
} mr_extractor;

/* The outputs of a stage whose numbers become the payload. */
extern const mr_port mr_vector_outputs[];

/* u8 planes, as all of the features take them, of size.width x size.height; stretched, all values as they are. */
mr_preprocess_params mr_extractor_look(mr_size size, bool gray);

/* negotiate: declares the output and the memory of a call, for `look`, `tensor` and `name` as below and above;
 * `launches` make the numbers of up to MR_PIECE frames. */
int mr_extractor_promise(mr_negotiation *negotiation, const mr_preprocess_params *look, const mr_format *tensor,
                         const char *name, int launches);
/* Declares what kernels of the stage's own work in, for one picture of a piece. */
void mr_extractor_plan_workspace(mr_negotiation *negotiation, size_t bytes);
/* The part of it that declares the output. */
int mr_extractor_promise_result(mr_negotiation *negotiation, const mr_format *tensor, const char *name);

/* open, close and process of a stage whose state begins with an mr_extractor: its other fields are filled in
 * before. */
int mr_extractor_open(mr_stage *self, const mr_preprocess_params *look);
void mr_extractor_close(mr_stage *self);
int mr_extractor_process(mr_stage *self, mr_io *io);
