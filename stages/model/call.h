/* Calls a model for a stage: one item per frame, several items per call.
 *
 * A frame has no batch dimension; a model usually has one, the first. A call is planned for one batch, from the plan or
 * required by the model, and always runs with it. If frames are missing at the end of a stream, zeros replace them, so
 * that a result cannot depend on how many come. A model without a batch dimension takes one frame per call.
 *
 * If frames have different sizes, a call is planned for the smallest and runs with each. Outputs may grow as the input
 * does.
 *
 * The model reads frames in place if they are contiguous in one buffer. That holds for a batch with one frame, and for
 * batches from a batching stage. Others must be gathered first.
 *
 * Ownership: a call borrows its model. Threads: one thread plans it; several may then run it at once. */
#pragma once

#include "millrace/stage.h"
#include "stages/model/runtime.h"

typedef struct mr_call {
    mr_model *model;
    mr_binding binding;
    bool varies;                            /* frames have different sizes, one per run, on the processors */
    mr_format_set varied;                   /* then: the formats that frames may have */
    double growth;                          /* then: how many times larger than input[0] they can be */
    bool batched;                           /* the model's shapes begin with the batch */
    int batch;                              /* items per run */
    size_t port[MR_MODEL_MAX_TENSORS];      /* port that feeds each model input */
    mr_format input[MR_MODEL_MAX_TENSORS];  /* one item per input */
    mr_format output[MR_MODEL_MAX_TENSORS]; /* one item per chosen output */
    size_t output_at[MR_MODEL_MAX_TENSORS]; /* each output's offset in a block with output_bytes; 64-byte aligned */
    size_t output_bytes;                    /* for a whole batch, all outputs */
    size_t gathered_bytes;                  /* for a whole batch, all inputs; 0: nothing is gathered */
} mr_call;

/* Planning: whether the model's shapes begin with a batch, judged by the format on its first input's port. */
bool mr_call_is_batched(const mr_model *model, const mr_planned_input *first);
/* One item of a tensor as the model declares it; open dimensions stay open. */
mr_format_set mr_call_item_set(const mr_model_tensor *tensor, bool batched);
/* Declares which formats the model accepts at each stage input. MR_ERROR_CONFIG if no frame can hold them. */
int mr_call_take(mr_negotiation *negotiation, const mr_model *model, const size_t *port);
/* Call after mr_call_take. True if the inputs' formats are known, or must be known by now; `known` (one per stage
 * input) then has the formats to plan with. */
bool mr_call_foresees(const mr_negotiation *negotiation, mr_planned_input *known);

/* Positions of the outputs with these names; all of them if there are no names. `outputs` has room for
 * MR_MODEL_MAX_TENSORS. MR_ERROR_CONFIG: there is no such output, or it is named twice. */
int mr_call_choose(const mr_model *model, const mr_strings *names, size_t *outputs, size_t *count);

/* `inputs` are the stage's, as planned, and match the model's; port[] says which port each uses. Outputs are positions
 * in the model's list. On failure (MR_ERROR_CONFIG, or as mr_model_bind) the message names the model, the tensor and
 * both shapes. */
int mr_call_plan(mr_call *call, mr_model *model, const mr_planned_input *inputs, const size_t *port, int batch,
                 const size_t *outputs, size_t output_count);

/* Refuses frames of different sizes on a device (MR_ERROR_CONFIG). */
int mr_call_check_sizes(const mr_call *call, const mr_negotiation *negotiation);
/* Warns if a network computes across the frames in a batch, and remarks on the pictures it was trained with. */
void mr_call_warn(const mr_call *call, mr_negotiation *negotiation);
/* Declares a call's GPU work in negotiation->work; on the processors nothing is counted. Gathering copies are not
 * counted: frames made together need none. */
void mr_call_count(const mr_call *call, mr_negotiation *negotiation);

/* Submits one run to the call's stream: reads inputs from `io`, writes outputs to `block` (output_bytes bytes, each at
 * output_at). Everything must stay valid until the stream is done. MR_ERROR_AGAIN: nothing was submitted.
 * MR_ERROR_DATA: a frame is not as planned. */
int mr_call_run(const mr_call *call, mr_io *io, uint8_t *block);
/* The number of the call's frames that do not only pass. */
size_t mr_call_frames(const mr_io *io);

/* For an output whose size depends on values (mr_binding.rows_axis), after the run: returns how many rows there were,
 * and gives format and data for the kept ones. */
int64_t mr_call_rows(const mr_call *call, uint8_t *block, size_t output, mr_format *format, void **data);
/* If the call varies, after the run: format and data of an output. */
void mr_call_varied(const mr_call *call, uint8_t *block, size_t output, mr_format *format, void **data);
/* An output's item `index` in a block. */
uint8_t *mr_call_item(const mr_call *call, uint8_t *block, size_t output, size_t index);
