#include "stages/model/runtime.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "millrace/status.h"

static const mr_model_runtime *in_use = &mr_onnxruntime;

void mr_model_use_runtime(const mr_model_runtime *runtime) {
    in_use = runtime ? runtime : &mr_onnxruntime;
}

int mr_model_open(mr_model **model, const mr_model_params *params) {
    int status = in_use->open(model, params);
    if (!status) {
        (*model)->cuda_graph = params->cuda_graph;
        (*model)->brief = params->brief;
        (*model)->max_rows = params->max_rows;
    }
    return status;
}

int mr_model_check(const mr_model_params *params, const char *device) {
    return in_use->check ? in_use->check(params, device) : MR_OK;
}

/* The stream must be destroyed last: the runtime may still have work on it. */
void mr_model_close(mr_model **model) {
    if (!*model)
        return;
    mr_stream *stream = (*model)->stream;
    if (stream)
        pthread_mutex_destroy(&(*model)->lock);
    (*model)->runtime->close(*model);
    mr_stream_destroy(&stream);
    *model = NULL;
}

/* ---- running --------------------------------------------------------------------------------------------------- */

int mr_model_take_device(mr_model *model, mr_device *device) {
    int status = mr_stream_create_for(device, true, &model->stream);
    if (!status)
        pthread_mutex_init(&model->lock, NULL);
    return status;
}

/* Makes later work on `to` wait for present work on `from`. */
static int follow(mr_stream *from, mr_stream *to) {
    mr_event *event = NULL;
    int status = mr_event_create(&event, from->device, from->stage);
    if (!status)
        status = mr_stream_record(from, event);
    if (!status)
        status = mr_stream_wait(to, event);
    mr_event_unref(&event);
    return status;
}

typedef struct run_work {
    const mr_binding *binding;
    void *inputs[MR_MODEL_MAX_TENSORS];
    void *outputs[MR_MODEL_MAX_TENSORS];
    mr_shape input; /* rank 0: as in the binding */
} run_work;

_Static_assert(sizeof(run_work) <= MR_WORK_BYTES, "the pointers of one run fit into a piece of work");

static int run(void *arguments) {
    const run_work *work = arguments;
    if (work->input.rank) {
        mr_binding own = *work->binding;
        own.input_shape[0] = work->input;
        return own.model->runtime->run(&own, work->inputs, work->outputs, NULL);
    }
    return work->binding->model->runtime->run(work->binding, work->inputs, work->outputs, NULL);
}

static int submit(const mr_binding *binding, mr_stream *stream, const mr_shape *input, void *const *inputs,
                  void *const *outputs) {
    run_work work = {.binding = binding, .input = *input};
    memcpy(work.inputs, inputs, binding->model->input_count * sizeof *inputs);
    memcpy(work.outputs, outputs, binding->output_count * sizeof *outputs);
    return mr_stream_submit(stream, run, &work, sizeof work);
}

int mr_model_enqueue(const mr_binding *binding, mr_stream *stream, void *const *inputs, void *const *outputs) {
    mr_model *model = binding->model;
    if (!model->stream)
        return submit(binding, stream, &(mr_shape){0}, inputs, outputs);
    pthread_mutex_lock(&model->lock);
    model->stream->stage = stream->stage;
    model->stream->frame = stream->frame;
    int status = follow(stream, model->stream);
    if (!status)
        status = model->runtime->enqueue(binding, inputs, outputs);
    /* Needed even after a run that failed halfway: its work still uses this call's buffers. */
    int after = follow(model->stream, stream);
    pthread_mutex_unlock(&model->lock);
    return status ? status : after;
}

int mr_model_enqueue_shape(const mr_binding *binding, mr_stream *stream, const mr_shape *input, void *const *inputs,
                           void *const *outputs) {
    return submit(binding, stream, input, inputs, outputs);
}

bool mr_model_count(const mr_binding *binding, struct mr_onnx_work *work) {
    const mr_model_runtime *runtime = binding->model->runtime;
    return runtime->count && runtime->count(binding, work) == MR_OK;
}

const char *mr_model_mixing(const mr_binding *binding, char text[MR_MODEL_MIXING]) {
    const mr_model_runtime *runtime = binding->model->runtime;
    text[0] = 0;
    if (runtime->mixing && runtime->mixing(binding, text))
        text[0] = 0;
    return text;
}

int mr_model_find(const mr_model_tensor *tensors, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return (int)i;
    return -1;
}

size_t mr_shape_count(const mr_shape *shape) {
    size_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] <= 0 || __builtin_mul_overflow(count, (size_t)shape->dims[i], &count) ||
            count > SIZE_MAX / 16)
            return 0;
    return count;
}

const char *mr_shape_print(const mr_shape *shape, char *text, size_t bytes) {
    size_t used = 0;
    snprintf(text, bytes, "%s", shape->rank ? "" : "scalar");
    for (int i = 0; i < shape->rank && used < bytes; i++) {
        char dim[24] = "?";
        if (shape->dims[i] >= 0)
            snprintf(dim, sizeof dim, "%" PRId64, shape->dims[i]);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? "x" : "", dim);
    }
    return text;
}

const char *mr_model_list(const mr_model_tensor *tensors, size_t count, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : "", tensors[i].name);
    return text;
}

/* An open first dimension is the batch if an input's has the same name. */
static bool follows_batch(const mr_model *model, const mr_model_tensor *output) {
    for (size_t i = 0; i < model->input_count; i++)
        if (output->symbol[0] && strcmp(model->inputs[i].symbol, output->symbol) == 0)
            return true;
    return false;
}

/* Whether the file shows that an output's first dimension is the batch. If the batch is fixed, the size shows it. */
static bool tells_batch(const mr_model *model, const mr_model_tensor *output, int64_t batch) {
    const int64_t first = output->shape.rank ? output->shape.dims[0] : 0;
    return model->inputs[0].shape.dims[0] > 0 ? first == batch : first < 0 && follows_batch(model, output);
}

static bool has_open_batch(const mr_model *model, const mr_model_tensor *output) {
    return output->shape.rank && output->shape.dims[0] < 0 && follows_batch(model, output);
}

static bool has_rows_by_values(const mr_model *model, const mr_model_tensor *output) {
    return model->max_rows && output->sized_by && *output->sized_by;
}

/* If the batch alone is open, the network pads its rows: as many as the file says, whatever the values. */
static bool is_sized_by_values(const mr_model *model, const mr_model_tensor *output) {
    bool padded = has_open_batch(model, output);
    for (int i = 1; i < output->shape.rank; i++)
        padded &= output->shape.dims[i] >= 0;
    return has_rows_by_values(model, output) && !padded;
}

/* Finds the row dimension: the only open one besides the batch, or after a trial with zeros the empty one. */
static int find_rows(const mr_model *model, const mr_model_tensor *output, const mr_shape *tried) {
    const mr_shape *declared = &output->shape;
    int free = -1, count = 0, empty = -1;
    for (int i = has_open_batch(model, output); i < declared->rank; i++)
        if (declared->dims[i] < 0) {
            free = free < 0 ? i : free;
            count++;
        }
    for (int i = 0; tried && i < tried->rank && empty < 0; i++)
        empty = tried->dims[i] == 0 ? i : -1;
    return count == 1 ? free : !tried ? -1 : empty >= 0 ? empty : free;
}

/* Makes room for `max_rows`. False: which dimension it is must be found by a trial run. */
static bool leave_room(mr_binding *binding, size_t at, const mr_shape *tried) {
    const mr_model_tensor *output = &binding->model->outputs[binding->output[at]];
    const int axis = find_rows(binding->model, output, tried);
    binding->rows_axis[at] = axis;
    if (has_open_batch(binding->model, output))
        binding->output_shape[at].dims[0] = 1;
    if (axis >= 0)
        binding->output_shape[at].dims[axis] = binding->model->max_rows;
    return axis >= 0;
}

/* False if a trial run must find the shape or the meaning. */
static bool fill_batch(mr_binding *binding, size_t at, int64_t batch) {
    const mr_model *model = binding->model;
    const mr_model_tensor *output = &model->outputs[binding->output[at]];
    mr_shape *shape = &binding->output_shape[at];
    *shape = output->shape;
    binding->rows_axis[at] = -1;
    if (is_sized_by_values(model, output))
        return leave_room(binding, at, NULL);
    binding->per_frame[at] = batch && tells_batch(model, output, batch);
    if (binding->per_frame[at])
        shape->dims[0] = batch;
    for (int i = 0; i < shape->rank; i++)
        if (shape->dims[i] < 0)
            return false;
    /* A batch of one is recognised by size: exporters fix it in outputs and leave it open in inputs. */
    if (batch == 1)
        binding->per_frame[at] = shape->rank && shape->dims[0] == 1;
    return batch <= 1 || model->inputs[0].shape.dims[0] > 0 || binding->per_frame[at];
}

/* Runs the model on zeros to find the output shapes. */
static int measure(mr_binding *binding) {
    mr_model *model = binding->model;
    void *inputs[MR_MODEL_MAX_TENSORS] = {0};
    int status = MR_OK;
    for (size_t i = 0; i < model->input_count && !status; i++) {
        inputs[i] = mr_calloc(mr_shape_count(&binding->input_shape[i]), mr_dtype_bytes(model->inputs[i].dtype));
        if (!inputs[i])
            status = mr_fail(MR_ERROR_MEMORY, "no memory to try %s", model->file);
    }
    if (!status)
        status = model->runtime->run(binding, inputs, NULL, binding->output_shape);
    for (size_t i = 0; i < model->input_count; i++)
        mr_free(inputs[i]);
    return status;
}

static bool is_unshaped(const mr_model *model) {
    for (size_t i = 0; i < model->input_count; i++)
        if (model->inputs[i].unshaped)
            return true;
    return false;
}

/* Tries one more item to see which first dimensions grow. A fixed batch cannot be tried. */
static int measure_next(mr_binding *binding, int64_t batch) {
    mr_binding next = *binding;
    for (size_t i = 0; i < binding->model->input_count; i++)
        next.input_shape[i].dims[0] = batch + 1;
    int status = measure(&next);
    for (size_t i = 0; i < binding->output_count && !status; i++) {
        const mr_shape *one = &binding->output_shape[i], *other = &next.output_shape[i];
        binding->next_shape[i] = *other;
        binding->per_frame[i] = one->rank && other->rank && one->dims[0] == batch && other->dims[0] == batch + 1;
    }
    return status;
}

/* A runtime refuses memory for an output whose size differs from the declared one, even if it would compute it. */
static int check_declared(const mr_binding *binding, size_t at) {
    const mr_model_tensor *output = &binding->model->outputs[binding->output[at]];
    const mr_shape *given = &binding->output_shape[at];
    char declared[MR_SHAPE_TEXT], text[MR_SHAPE_TEXT];
    bool same = output->shape.rank == 0 || output->shape.rank == given->rank;
    for (int i = 0; i < output->shape.rank && same; i++)
        same = output->shape.dims[i] < 0 || output->shape.dims[i] == given->dims[i];
    if (same)
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG,
                   "the output \"%s\" of %s is declared as %s and is %s; export the network again with a free "
                   "dimension there (dynamic_axes), or remove the batch",
                   output->name, binding->model->file, mr_shape_print(&output->shape, declared, sizeof declared),
                   mr_shape_print(given, text, sizeof text));
}

static int try_shapes(mr_binding *binding, int64_t batch) {
    const mr_model *model = binding->model;
    const bool free = model->inputs[0].shape.dims[0] < 0;
    int status = measure(binding);
    for (size_t i = 0; i < binding->output_count && !status; i++)
        status = check_declared(binding, i);
    for (size_t i = 0; i < binding->output_count && !status; i++)
        if (is_sized_by_values(model, &model->outputs[binding->output[i]])) {
            const mr_shape tried = binding->output_shape[i];
            leave_room(binding, i, &tried);
        }
    for (size_t i = 0; i < binding->output_count && !status; i++)
        binding->per_frame[i] = binding->rows_axis[i] < 0 && batch && binding->output_shape[i].rank &&
                                binding->output_shape[i].dims[0] == batch;
    return status || batch <= 1 || !free || !model->brief ? status : measure_next(binding, batch);
}

int mr_model_bind(mr_model *model, mr_binding *binding, const mr_shape *inputs, int64_t batch, const size_t *outputs,
                  size_t output_count) {
    *binding = (mr_binding){.model = model, .output_count = output_count};
    memcpy(binding->input_shape, inputs, model->input_count * sizeof *inputs);
    /* Only a trial shows whether an input without a declared shape accepts the frames' shape. */
    bool known = !is_unshaped(model) || !model->brief;
    for (size_t i = 0; i < output_count; i++) {
        binding->output[i] = outputs[i];
        binding->next_shape[i].rank = -1;
        known &= fill_batch(binding, i, batch);
    }
    for (size_t i = 0; i < output_count; i++)
        if (batch > 1 && has_rows_by_values(model, &model->outputs[outputs[i]]))
            return mr_fail(MR_ERROR_CONFIG,
                           "the rows of the output \"%s\" of %s depend on values (%s): such outputs are made for one "
                           "frame at a time; remove batch, or choose others with outputs",
                           model->outputs[outputs[i]].name, model->file, model->outputs[outputs[i]].sized_by);
    if (!known && model->cuda_graph)
        return mr_fail(MR_ERROR_CONFIG,
                       "cuda_graph needs outputs of known size, but %s has outputs of unknown size; remove cuda_graph",
                       model->file);
    int status = known ? MR_OK : try_shapes(binding, batch);
    for (size_t i = 0; i < output_count && !status; i++)
        if (!mr_shape_count(&binding->output_shape[i]))
            status = mr_fail(MR_ERROR_CONFIG,
                             "the size of the output \"%s\" of %s depends on the values of its inputs; only infer and "
                             "detect on the processors (device: cpu) take such outputs: choose others",
                             model->outputs[outputs[i]].name, model->file);
    return status;
}
