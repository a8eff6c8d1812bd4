/* A model as a stage calls it: one item a frame, several items a call.
 *
 * A frame has no batch dimension, a model usually has one: its first. A call is planned for one batch, that of the plan
 * or the one that the model requires, and always runs with it: if frames are missing at the end of a stream, zeros take
 * their place, so that no result depends on how many come. A model without batch dimension takes one
 * frame a call.
 *
 * The model reads the frames in place if they lie behind each other in one buffer: batches of one do, and those that a
 * batching stage has made. Others are gathered first.
 *
 * Ownership: a call borrows its model. Threads: planned by one thread, then run by several at once. */
#pragma once

#include "millrace/stage.h"
#include "stages/model/runtime.h"

typedef struct mr_call {
    mr_model *model;
    mr_binding binding;
    bool batched;                           /* shapes of the model begin with the batch */
    int batch;                              /* items of every run */
    size_t port[MR_MODEL_MAX_TENSORS];      /* input port that each of the model's inputs is fed from */
    mr_format input[MR_MODEL_MAX_TENSORS];  /* one item of each input */
    mr_format output[MR_MODEL_MAX_TENSORS]; /* one item of each chosen output */
    size_t output_at[MR_MODEL_MAX_TENSORS]; /* offset of each output in a block of output_bytes; 64-byte aligned */
    size_t output_bytes;                    /* of a whole batch, all outputs */
    size_t gathered_bytes;                  /* of a whole batch, all inputs; 0: nothing is gathered */
} mr_call;

/* Planning. Whether shapes of the model begin with a batch, given the format on the port of its first input. */
bool mr_call_is_batched(const mr_model *model, const mr_planned_input *first);
/* One item of a tensor as the model declares it; free dimensions are open. */
mr_format_set mr_call_item_set(const mr_model_tensor *tensor, bool batched);
/* Declares the formats that the model accepts for each input of the stage. MR_ERROR_CONFIG if no frame can hold them.
 */
int mr_call_take(mr_negotiation *negotiation, const mr_model *model, const size_t *port);
/* After mr_call_take: true if the inputs' formats are known, or must be by now; `known` (one for each of the stage's
 * inputs) then has the formats to plan with. */
bool mr_call_foresees(const mr_negotiation *negotiation, mr_planned_input *known);

/* `inputs` are the stage's, as planned, and fit the model's; port[] has the port of each. Outputs by position in the
 * model's list. On failure (MR_ERROR_CONFIG, or as mr_model_bind) the message names the model, the tensor and both
 * shapes. */
int mr_call_plan(mr_call *call, mr_model *model, const mr_planned_input *inputs, const size_t *port, int batch,
                 const size_t *outputs, size_t output_count);

/* Warns of a network that computes across the frames of a batch; remarks on the pictures that it was trained with. */
void mr_call_warn(const mr_call *call, mr_negotiation *negotiation);
/* Declares the work of a call on a GPU in negotiation->work; for stages on the processors nothing is counted. Copies
 * that gather a batch are not counted: if the frames were made together there are none. */
void mr_call_count(const mr_call *call, mr_negotiation *negotiation);

/* Submits one run on the call's stream: inputs of `io`, outputs to `block` of output_bytes bytes, each at output_at.
 * All must stay valid until the stream has done it. MR_ERROR_AGAIN before anything was submitted; MR_ERROR_DATA if a
 * frame is not as planned. */
int mr_call_run(const mr_call *call, mr_io *io, uint8_t *block);

/* Of an output sized by values (mr_binding.rows_axis), once the run is done: the number of rows that there were; its
 * format, with those that are kept, and their numbers. */
int64_t mr_call_rows(const mr_call *call, uint8_t *block, size_t output, mr_format *format, void **data);
/* Item `index` of an output in a block. */
uint8_t *mr_call_item(const mr_call *call, uint8_t *block, size_t output, size_t index);
