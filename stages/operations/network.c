/* A network in an ONNX file, run as stages run it, with one item per call. */
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/model/onnx/onnx_work.h"
#include "stages/model/runtime.h"
#include "stages/operations/operation.h"

typedef struct network {
    mr_model *model;
    mr_binding binding;
} network;

/* An open first dimension is the batch, here 1. */
static int choose_shapes(const mr_model *model, mr_shape *shapes) {
    for (size_t i = 0; i < model->input_count; i++) {
        shapes[i] = model->inputs[i].shape;
        if (shapes[i].rank > 0 && shapes[i].dims[0] < 0)
            shapes[i].dims[0] = 1;
        if (!mr_shape_count(&shapes[i]))
            return mr_fail(MR_ERROR_UNAVAILABLE, "the input \"%s\" of %s has no size of its own",
                           model->inputs[i].name, model->file);
    }
    return MR_OK;
}

static int bind(network *n) {
    mr_shape shapes[MR_MODEL_MAX_TENSORS];
    size_t outputs[MR_MODEL_MAX_TENSORS];
    if (n->model->input_count + n->model->output_count > MR_ROOM_REGIONS)
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s has more than %d inputs and outputs", n->model->file,
                       MR_ROOM_REGIONS);
    for (size_t i = 0; i < n->model->output_count; i++)
        outputs[i] = i;
    int status = choose_shapes(n->model, shapes);
    return status ? status : mr_model_bind(n->model, &n->binding, shapes, 1, outputs, n->model->output_count);
}

/* Integers are zero: they may be indices. */
static void add_tensor(mr_operation_call *call, const mr_model_tensor *tensor, const mr_shape *shape, bool input) {
    const bool floats = tensor->dtype == MR_DTYPE_F32;
    mr_operation_region(call, MR_MEMORY_DEVICE, mr_shape_count(shape) * mr_dtype_bytes(tensor->dtype),
                        input && floats ? MR_NOISE_FLOATS : MR_NOISE_NONE);
}

/* Weights and inputs are read once, outputs written once; values between operators can stay in the cache. A
 * multiply-add counts 2, then the other operators' work (onnx_work.h). */
static int declare(mr_operation_call *call, const network *n) {
    mr_onnx_work work;
    char shape[MR_SHAPE_TEXT];
    if (!mr_model_count(&n->binding, &work))
        return mr_fail(MR_ERROR_UNAVAILABLE, "the work of %s is not known", n->model->file);
    if (work.missing)
        return mr_fail(MR_ERROR_UNAVAILABLE, "the work of %s is not known: %s", n->model->file, work.why);
    call->bytes = work.weight_bytes + work.input_bytes + work.output_bytes;
    call->flops = work.f32_operations + work.f16_operations;
    snprintf(call->works_on, sizeof call->works_on, "%.80s, %s", n->model->file,
             mr_shape_print(&n->binding.input_shape[0], shape, sizeof shape));
    return MR_OK;
}

/* A simulated device derives times from the memory that work touches, and the runtime owns the weights. */
static int open_network(mr_operation_call *call) {
    if (call->device->type->kind == MR_DEVICE_SIM)
        return mr_fail(MR_ERROR_UNAVAILABLE, "a simulated device does not see the weights of networks");
    network *n = mr_calloc(1, sizeof *n);
    call->state = n;
    if (!n)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a network");
    int status = mr_model_open(&n->model, &(mr_model_params){.path = call->file, .device = call->device});
    if (!status)
        status = bind(n);
    if (status)
        return status;
    for (size_t i = 0; i < n->model->input_count; i++)
        add_tensor(call, &n->model->inputs[i], &n->binding.input_shape[i], true);
    for (size_t i = 0; i < n->binding.output_count; i++)
        add_tensor(call, &n->model->outputs[n->binding.output[i]], &n->binding.output_shape[i], false);
    return declare(call, n);
}

static int enqueue_network(mr_operation_call *call, size_t set) {
    const network *n = call->state;
    void *tensors[MR_ROOM_REGIONS];
    for (size_t r = 0; r < call->regions; r++)
        tensors[r] = mr_operation_at(call, set, r);
    return mr_model_enqueue(&n->binding, call->stream, tensors, tensors + n->model->input_count);
}

static void close_network(mr_operation_call *call) {
    network *n = call->state;
    if (n)
        mr_model_close(&n->model);
    mr_free(n);
    call->state = NULL;
}

const mr_operation_type mr_operation_network = {
    .name = "network", .function = "mr_model_enqueue", .group = MR_OPERATION_NETWORK, .here = MR_HERE_ALL,
    .open = open_network, .enqueue = enqueue_network, .close = close_network,
};
