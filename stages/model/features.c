/* features: one tensor in an ONNX model becomes a float vector for each frame. */
#include "kernels/vector/vector.h"
#include "stages/list.h"
#include "stages/model/call.h"
#include "stages/model/device_options.h"

#include "engine/device/device.h"

enum { POOL_NONE, POOL_AVERAGE };
enum { NORMALIZE_NONE, NORMALIZE_L2 };

typedef struct options {
    const char *model, *tensor, *external_data;
    int pool, normalize;
    mr_model_device_options device;
} options;

typedef struct state {
    mr_model *model;
    mr_call call;
    mr_format vector; /* output format */
} state;

static int choose_output(const mr_model *model, const char *tensor, size_t *output) {
    char list[MR_LIST_TEXT];
    mr_model_list(model->outputs, model->output_count, list, sizeof list);
    if (!tensor && model->output_count > 1)
        return mr_fail(MR_ERROR_CONFIG, "%s has several outputs; choose one with tensor: %s", model->file, list);
    int found = tensor ? mr_model_find(model->outputs, model->output_count, tensor) : 0;
    if (found < 0)
        return mr_fail(MR_ERROR_CONFIG, "%s has no tensor \"%s\"; its outputs are: %s", model->file, tensor, list);
    *output = (size_t)found;
    return MR_OK;
}

/* The vector's format: the flattened tensor, or one number per channel. */
static int plan_vector(state *s, const options *o) {
    const mr_format *item = &s->call.output[0];
    const char *tensor = s->model->outputs[s->call.binding.output[0]].name;
    char text[MR_FORMAT_TEXT];
    mr_format_print(item, text, sizeof text);
    if (item->dtype != MR_DTYPE_F32)
        return mr_fail(MR_ERROR_CONFIG, "\"%s\" of %s is a %s; features are float numbers", tensor,
                       s->model->file, text);
    if (o->pool == POOL_AVERAGE && item->rank < 2)
        return mr_fail(MR_ERROR_CONFIG, "\"%s\" of %s is a %s: there is nothing to pool; remove pool", tensor,
                       s->model->file, text);
    int64_t length = o->pool == POOL_AVERAGE ? item->dims[0] : (int64_t)mr_tensor_count(item);
    s->vector = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &length);
    return MR_OK;
}

/* `device` NULL: to look at. */
static int open_model(state *s, const options *o, mr_device *device, const char *shapes, size_t *output) {
    mr_model_params params = {.path = o->model, .external = o->external_data, .brief = !device,
                              .tensor = o->tensor, .device = device, .shapes = shapes};
    mr_model_set_device_params(&params, &o->device);
    int status = mr_model_open(&s->model, &params);
    if (!status && s->model->input_count != 1)
        status = mr_fail(MR_ERROR_CONFIG, "%s has %zu inputs; features takes one, infer takes any number",
                         s->model->file, s->model->input_count);
    return status ? status : choose_output(s->model, o->tensor, output);
}

static const size_t only_port = 0;

static int plan_call(state *s, const options *o, const mr_planned_input *input, int batch, size_t output) {
    int status = mr_call_plan(&s->call, s->model, input, &only_port, batch, &output, 1);
    if (!status && s->call.varies)
        status = mr_fail(MR_ERROR_CONFIG, "features takes pictures of one size: write size in preprocess, not sides");
    return status ? status : plan_vector(s, o);
}

/* The size of a call's block, and where the model writes in it. A pooled tensor is temporary and comes after the
 * vectors in the same buffer. */
static size_t block_bytes(const state *s, const options *o, size_t *raw_at) {
    size_t vectors = (size_t)s->call.batch * mr_tensor_bytes(&s->vector);
    *raw_at = o->pool == POOL_AVERAGE ? (vectors + 63) / 64 * 64 : 0;
    return *raw_at + s->call.output_bytes;
}

/* Frames whose vectors are made together. */
enum { PIECE = 32 };

/* After the network: mean and length take one launch each per piece of a batch. */
static void count_work(const state *s, mr_negotiation *n) {
    const options *o = n->options;
    int pieces = (n->batch + PIECE - 1) / PIECE;
    double vector = (double)mr_tensor_bytes(&s->vector), raw = (double)mr_tensor_bytes(&s->call.output[0]);
    mr_call_count(&s->call, n);
    mr_model_plan_work(n, &o->device);
    if (n->work.launches <= 0)
        return;
    if (o->pool == POOL_AVERAGE) {
        n->work.launches += pieces;
        n->work.more_bytes += raw;
    }
    if (o->normalize == NORMALIZE_L2) {
        n->work.launches += pieces;
        n->work.more_bytes += 2 * vector;
    }
}

/* Vectors are the network's numbers unless they are pooled or scaled. The model is closed after planning. */
static void note_operation(const state *s, mr_negotiation *n) {
    const options *o = n->options;
    const char *operation = s->model->outputs[s->call.binding.output[0]].operation;
    if (o->pool == POOL_NONE && o->normalize == NORMALIZE_NONE && operation)
        mr_name_operation(n, 0, operation);
}

static int negotiate(mr_negotiation *n) {
    state s = {0};
    const mr_format vector = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &(int64_t){0});
    mr_planned_input known;
    size_t output = 0, raw_at;
    n->outputs[0].set = mr_format_set_of(&vector);
    n->unread = n->offline;
    mr_model_plan_device(n, &((const options *)n->options)->device);
    if (n->offline)
        return MR_OK;
    int status = open_model(&s, n->options, NULL, NULL, &output);
    if (!status)
        status = mr_call_take(n, s.model, &only_port);
    if (!status && mr_call_foresees(n, &known)) {
        status = plan_call(&s, n->options, &known, n->batch, output);
        n->outputs[0].set = mr_format_set_of(&s.vector);
        if (!status)
            note_operation(&s, n);
        n->outputs[0].buffer_bytes = block_bytes(&s, n->options, &raw_at);
        n->scratch_bytes = s.call.gathered_bytes;
        if (!status) {
            mr_call_warn(&s.call, n);
            count_work(&s, n);
        }
    }
    mr_model_close(&s.model);
    return status ? mr_refuse_status(n, status, "model", "%s", mr_message()) : MR_OK;
}

static int open_stage(mr_stage *self) {
    size_t output = 0;
    char shapes[MR_MODEL_SHAPES];
    mr_model_shapes(self->inputs, 1, self->batch, shapes);
    int status = open_model(self->state, self->options, self->device, shapes, &output);
    return status ? status : plan_call(self->state, self->options, &self->inputs[0], self->batch, output);
}

static int check_device(const void *own, const char *device) {
    const options *o = own;
    return mr_model_check_device(o->model, &o->device, device);
}

static void close_stage(mr_stage *self) {
    mr_model_close(&((state *)self->state)->model);
}

/* Turns model outputs into vectors for `count` frames from `first`. */
static int finish_piece(const state *s, const options *o, mr_io *io, uint8_t *block, uint8_t *raw, size_t first,
                        size_t count) {
    size_t length = (size_t)s->vector.dims[0];
    int positions = (int)(mr_tensor_count(&s->call.output[0]) / length), status = MR_OK;
    mr_pool_work pool[PIECE];
    mr_normalize_work scale[PIECE];
    for (size_t i = 0; i < count; i++) {
        float *vector = (float *)(void *)block + (first + i) * length;
        pool[i] = (mr_pool_work){.src = (const void *)mr_call_item(&s->call, raw, 0, first + i),
                                 .dst = vector,
                                 .channels = (int)length,
                                 .positions = positions};
        scale[i] = (mr_normalize_work){.src = vector, .dst = vector, .count = (int)length};
    }
    if (o->pool == POOL_AVERAGE)
        status = mr_pool_mean_enqueue(mr_io_stream(io), pool, (int)count);
    if (status || o->normalize == NORMALIZE_NONE)
        return status;
    return mr_normalize_enqueue(mr_io_stream(io), scale, (int)count);
}

static int emit(const state *s, mr_io *io, size_t index, mr_buffer *buffer, uint8_t *data) {
    mr_frame *frame = NULL;
    int status = mr_io_derive(io, mr_io_input_at(io, 0, index), &frame);
    if (status)
        return status;
    mr_frame_place(frame, &s->vector, buffer, (size_t)(data - buffer->data), 1);
    return mr_io_emit(io, 0, frame);
}

static int process(mr_stage *self, mr_io *io) {
    const state *s = self->state;
    const options *o = self->options;
    size_t vector_bytes = mr_tensor_bytes(&s->vector), count = mr_io_count(io), raw_at = 0;
    mr_buffer *buffer = NULL;
    int status = mr_io_buffer(io, 0, block_bytes(s, o, &raw_at), &buffer);
    if (!status)
        status = mr_call_run(&s->call, io, buffer->data + raw_at);
    for (size_t i = 0; i < count && !status; i += PIECE)
        status = finish_piece(s, o, io, buffer->data, buffer->data + raw_at, i, count - i < PIECE ? count - i : PIECE);
    for (size_t i = 0; i < count && !status; i++)
        status = emit(s, io, i, buffer, buffer->data + i * vector_bytes);
    mr_buffer_unref(&buffer);
    return status;
}

static const char *const pools[] = {"none", "average", NULL};
static const char *const normalizations[] = {"none", "l2", NULL};

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    MR_MODEL_FILE_OPTIONS(options, "models/lite0-features.onnx"),
    {FIELD(tensor), .kind = MR_OPTION_STRING, .example = "features",
     .help = "one of the network's tensors, outputs or inner ones; not needed if there is one output"},
    {FIELD(pool), .kind = MR_OPTION_ENUM, .fallback = "none", .choices = pools,
     .help = "average: the mean over all positions, for a channels x height x width tensor"},
    {FIELD(normalize), .kind = MR_OPTION_ENUM, .fallback = "none", .choices = normalizations,
     .help = "l2: scaled to length 1"},
    MR_MODEL_DEVICE_OPTIONS(options, device),
    MR_OPTIONS_END};
#undef FIELD

static const mr_format_set tensors[] = {{.payload = MR_PAYLOAD_TENSOR}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {
    {.name = "in", .help = "tensors with the model's input shape, without the batch dimension", .accepts = tensors},
    {0}};
static const mr_format_set vectors[] = {
    {.payload = MR_PAYLOAD_TENSOR, .dtypes = MR_IN_SET(MR_DTYPE_F32), .layouts = MR_IN_SET(MR_LAYOUT_FLAT),
     .rank = 1},
    {.payload = MR_PAYLOAD_ANY}};
static const mr_port outputs[] = {{.name = "out", .help = "one f32 vector per frame", .accepts = vectors}, {0}};

const mr_stage_type mr_features_stage = {
    .name = "features",
    .summary = "runs an ONNX model and passes on one of its tensors as a feature vector",
    .help = "The model must have one input. The frames of a batch run together. A batch that is not full is padded "
            "with zeros, so that a vector does not depend on the number of frames. `plan` warns about operators that "
            "compute across a batch's frames, such as DynamicQuantizeLinear: with these, a vector depends on the "
            "other frames. An f16, bf16 or f64 tensor becomes f32.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_STATELESS,
    .batches = true,
    .streams = true,
    .cuda = true,
    .urgent = true,
    .negotiate = negotiate,
    .check_device = check_device,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};
