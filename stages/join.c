/* join: joins several stages' results for one frame. The engine gathers frames with equal identity. This stage makes
 * one frame with the first port's payload and all results. Other ports' payloads become named tensors if they are
 * vectors. */
#include <string.h>

#include "stages/list.h"

/* As add_results below: declares, oldest first, the results that an input's frames carry and the first input's do
 * not. */
static int promise_results(mr_negotiation *negotiation, const mr_planned_input *input) {
    const mr_planned_result *end = input->results;
    for (; end; end = end->next) {
        const mr_planned_result *ours = negotiation->outputs[0].results;
        while (ours && ours != end)
            ours = ours->next;
        if (ours)
            break;
    }
    while (end != input->results) {
        const mr_planned_result *oldest = input->results;
        while (oldest->next != end)
            oldest = oldest->next;
        int status = mr_promise_again(negotiation, 0, oldest);
        if (status)
            return status;
        end = oldest;
    }
    negotiation->outputs[0].more_results |= input->more_results;
    return MR_OK;
}

/* As add_vector below. */
static int promise_vector(mr_negotiation *negotiation, const mr_planned_input *input) {
    const mr_format_set *set = &input->set;
    bool tensor = set->payload == MR_PAYLOAD_TENSOR;
    negotiation->outputs[0].more_results |= set->payload == MR_PAYLOAD_ANY || (tensor && set->rank == 0);
    return tensor && set->rank == 1 ? mr_promise_tensor(negotiation, 0, input->port, set, input->operation)
                                    : MR_OK;
}

static int negotiate(mr_negotiation *negotiation) {
    if (negotiation->input_count < 2)
        return mr_refuse(negotiation, NULL, "only one input: name two or more, as in join: {a: ..., b: ...}");
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    int status = MR_OK;
    for (size_t i = 1; i < negotiation->input_count && !status; i++) {
        status = promise_vector(negotiation, &negotiation->inputs[i]);
        status = status ? status : promise_results(negotiation, &negotiation->inputs[i]);
    }
    return status;
}

/* Adds a later port's payload if it is a vector; larger tensors are network inputs, not results. */
static int add_vector(mr_io *io, mr_frame *frame, const mr_planned_input *input, const mr_frame *theirs) {
    const mr_format *format = &theirs->format;
    void *data;
    if (format->payload != MR_PAYLOAD_TENSOR || format->rank != 1)
        return MR_OK;
    int status = mr_io_add_tensor(io, frame, input->port, format, &data);
    if (status)
        return status;
    memcpy(data, theirs->plane[0].data, mr_tensor_bytes(format));
    frame->results->stage = input->from;
    return MR_OK;
}

/* Content inside the result must be copied, since its memory is reused after the frame is released. */
static int copy_result(mr_io *io, mr_frame *frame, const mr_result *from) {
    mr_result *copy;
    int status = mr_io_add_like(io, frame, from, &copy);
    return status ? status : mr_result_copy(copy, from);
}

/* The lists share their oldest part, from before the fork in the graph: it begins at the first common element. */
static const mr_result *shared_tail(const mr_frame *frame, const mr_result *theirs) {
    for (; theirs; theirs = theirs->next)
        for (const mr_result *ours = frame->results; ours; ours = ours->next)
            if (ours == theirs)
                return theirs;
    return NULL;
}

/* Oldest first, so that the newest ends up in front again. */
static int add_results(mr_io *io, mr_frame *frame, const mr_result *theirs) {
    const mr_result *end = shared_tail(frame, theirs);
    while (end != theirs) {
        const mr_result *oldest = theirs;
        while (oldest->next != end)
            oldest = oldest->next;
        int status = copy_result(io, frame, oldest);
        if (status)
            return status;
        end = oldest;
    }
    return MR_OK;
}

static int process(mr_stage *self, mr_io *io) {
    const mr_frame *first = mr_io_input_at(io, 0, 0);
    mr_frame *frame = NULL;
    int status = mr_io_share(io, first, &frame);
    if (status)
        return status;
    for (size_t port = 1; port < self->input_count && !status; port++) {
        const mr_frame *theirs = mr_io_input_at(io, port, 0);
        status = add_vector(io, frame, &self->inputs[port], theirs);
        status = status ? status : add_results(io, frame, theirs->results);
    }
    return mr_io_finish(io, 0, frame, status);
}

static const mr_port inputs[] = {{.name = "any", .help = "two or more, named as you like", .many = true}, {0}};
static const mr_port outputs[] = {
    {.name = "out", .help = "the first input's payload, the results from all, vectors from the others"}, {0}};

const mr_stage_type mr_join_stage = {
    .name = "join",
    .summary = "joins results that several stages gave for one frame",
    .help = "Written with join: {a: one, b: other} instead of input. The joined frame has the first input's payload "
            "and the results from all inputs; results from later inputs count as newer. If another input is a "
            "vector, such as histogram gives, it is added as a tensor with the input's name, here b, which jsonl "
            "prints with tensors: true. Pictures and larger tensors from other inputs are not kept.",
    .inputs = inputs,
    .outputs = outputs,
    .blind = true,
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate,
    .process = process,
};
