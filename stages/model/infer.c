/* infer: runs any ONNX model on a frame, or several joined frames, and adds the outputs as named tensors. */

#include <stdatomic.h>
#include <string.h>

#include "engine/device/device.h"
#include "stages/list.h"
#include "stages/model/call.h"
#include "stages/model/device_options.h"

typedef struct options {
    const char *model, *external_data;
    mr_strings outputs;
    int64_t max_rows;
    mr_model_device_options device;
} options;

typedef struct state {
    mr_model *model;
    mr_call call;
    atomic_uint_fast64_t cut; /* frames that had more rows than are kept */
} state;

/* Finds each input's port: by name if there are several; otherwise the only port feeds the only input. */
static int match_ports(const mr_model *model, const mr_planned_input *inputs, size_t count, size_t *port) {
    char list[MR_LIST_TEXT];
    mr_model_list(model->inputs, model->input_count, list, sizeof list);
    if (count != model->input_count)
        return mr_fail(MR_ERROR_CONFIG, "%s has %zu inputs (%s) and is given %zu; name one stage for each under join",
                       model->file, model->input_count, list, count);
    port[0] = 0;
    for (size_t i = 0; i < count && count > 1; i++) {
        int input = mr_model_find(model->inputs, model->input_count, inputs[i].port);
        if (input < 0)
            return mr_fail(MR_ERROR_CONFIG, "%s has no input \"%s\"; its inputs are: %s", model->file, inputs[i].port,
                           list);
        port[input] = i;
    }
    return MR_OK;
}

/* The model's inputs, and the chosen outputs. */
typedef struct choice {
    size_t port[MR_MODEL_MAX_TENSORS], outputs[MR_MODEL_MAX_TENSORS], output_count;
} choice;

/* `device` NULL: only for inspection, for the device named `planned`. Lists are made only on the processors. */
static int open_model(state *s, const options *o, mr_device *device, const char *planned,
                      const mr_planned_input *inputs, size_t input_count, int batch, choice *c) {
    mr_model_params params = {.path = o->model, .external = o->external_data, .max_rows = o->max_rows,
                              .brief = !device, .device = device};
    char shapes[MR_MODEL_SHAPES];
    mr_model_set_device_params(&params, &o->device);
    params.shapes = mr_model_shapes(inputs, device ? input_count : 0, batch, shapes);
    if (strcmp(device ? device->name : planned, "cpu") != 0)
        params.max_rows = 0;
    if (batch > 1 && input_count > 1)
        return mr_fail(MR_ERROR_CONFIG, "joined inputs cannot be batched; remove batch");
    int status = mr_model_open(&s->model, &params);
    if (!status)
        status = match_ports(s->model, inputs, input_count, c->port);
    return status ? status : mr_call_choose(s->model, &o->outputs, c->outputs, &c->output_count);
}

/* In the same order as add_tensors: last first. Before inputs are known, declared shapes count. */
static int promise(mr_negotiation *n, const state *s, const choice *c, bool planned) {
    bool batched = mr_call_is_batched(s->model, &n->inputs[c->port[0]]);
    int status = MR_OK;
    for (size_t i = c->output_count; i-- > 0 && !status;) {
        const mr_model_tensor *tensor = &s->model->outputs[c->outputs[i]];
        mr_format_set set = planned ? mr_format_set_of(&s->call.output[i]) : mr_call_item_set(tensor, batched);
        if (s->call.varies)
            set = mr_call_item_set(tensor, batched);
        else if (planned && s->call.binding.rows_axis[i] >= 0)
            set.dims[s->call.binding.rows_axis[i]].min = 1;
        status = mr_promise_tensor(n, 0, tensor->name, &set, tensor->operation);
    }
    return status;
}

static int negotiate(mr_negotiation *n) {
    state s = {0};
    choice c;
    mr_planned_input known[MR_MODEL_MAX_TENSORS];
    n->outputs[0].follows = n->outputs[0].shares = 0;
    n->unread = n->offline;
    n->outputs[0].more_results |= n->offline;
    mr_model_plan_device(n, &((const options *)n->options)->device);
    if (n->offline)
        return MR_OK;
    int status = open_model(&s, n->options, NULL, n->device, n->inputs, n->input_count, n->batch, &c);
    if (!status)
        status = mr_call_take(n, s.model, c.port);
    bool planned = !status && mr_call_foresees(n, known);
    if (planned)
        status = mr_call_plan(&s.call, s.model, known, c.port, n->batch, c.outputs, c.output_count);
    if (planned && !status)
        status = mr_call_check_sizes(&s.call, n);
    if (planned && !status) {
        mr_call_warn(&s.call, n);
        mr_call_count(&s.call, n);
        mr_model_plan_work(n, &((const options *)n->options)->device);
    }
    n->outputs[0].buffer_bytes = s.call.output_bytes;
    n->scratch_bytes = s.call.gathered_bytes;
    if (!status)
        status = promise(n, &s, &c, planned);
    mr_model_close(&s.model);
    return status ? mr_refuse_status(n, status, "model", "%s", mr_message()) : MR_OK;
}

static int open_stage(mr_stage *self) {
    state *s = self->state;
    choice c;
    int status = open_model(s, self->options, self->device, NULL, self->inputs, self->input_count, self->batch, &c);
    return status ? status
                  : mr_call_plan(&s->call, s->model, self->inputs, c.port, self->batch, c.outputs, c.output_count);
}

static int check_device(const void *own, const char *device) {
    const options *o = own;
    return mr_model_check_device(o->model, &o->device, device);
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    const unsigned long long cut = (unsigned long long)atomic_load(&s->cut);
    if (cut)
        mr_stage_warn(self, "%llu frame%s had more rows than max_rows (%lld), and keep%s the first of them", cut,
                      cut == 1 ? "" : "s", (long long)((const options *)self->options)->max_rows, cut == 1 ? "s" : "");
    mr_model_close(&s->model);
}

/* Adds as many rows as the values gave, at most max_rows. Such models run on the processors, one frame per call, so the
 * count is known here. */
static bool add_rows(const state *s, size_t i, mr_buffer *buffer, mr_result *result) {
    const int64_t rows = mr_call_rows(&s->call, buffer->data, i, &result->format, &result->data);
    return rows > result->format.dims[s->call.binding.rows_axis[i]];
}

/* Reports the first one at once, since a run can last for months, and the total at the end. */
static void note_cut(const mr_stage *self) {
    state *s = self->state;
    if (!atomic_fetch_add(&s->cut, 1))
        mr_stage_warn(self, "a frame has more rows than max_rows (%lld): it keeps the first of them",
                      (long long)((const options *)self->options)->max_rows);
}

static int add_tensors(const mr_stage *self, mr_io *io, mr_frame *frame, size_t index, mr_buffer *buffer) {
    const state *s = self->state;
    bool cut = false;
    int status = MR_OK;
    /* Last first: the newest result comes first in the list, so that the model's first output ends up in front. */
    for (size_t i = s->call.binding.output_count; i-- > 0 && !status;) {
        mr_result *result = NULL;
        status = mr_io_add_result(io, frame, mr_kind_tensor(), 0, &result);
        if (status)
            return status;
        result->name = s->model->outputs[s->call.binding.output[i]].name;
        result->format = s->call.output[i];
        result->buffer = mr_buffer_ref(buffer);
        if (s->call.varies)
            mr_call_varied(&s->call, buffer->data, i, &result->format, &result->data);
        else if (s->call.binding.rows_axis[i] >= 0)
            cut |= add_rows(s, i, buffer, result);
        else
            result->data = mr_call_item(&s->call, buffer->data, i, index);
    }
    if (cut)
        note_cut(self);
    return status;
}

static int process(mr_stage *self, mr_io *io) {
    const state *s = self->state;
    mr_buffer *buffer = NULL;
    int status = mr_io_buffer(io, 0, s->call.output_bytes, &buffer);
    if (!status)
        status = mr_call_run(&s->call, io, buffer->data);
    for (size_t i = 0; i < mr_io_count(io) && !status; i++) {
        mr_frame *frame = NULL;
        status = mr_io_share(io, mr_io_input_at(io, 0, i), &frame);
        if (!status)
            status = add_tensors(self, io, frame, i, buffer);
        status = mr_io_finish(io, 0, frame, status);
    }
    mr_buffer_unref(&buffer);
    return status;
}

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    MR_MODEL_FILE_OPTIONS(options, "models/lite0.onnx"),
    {FIELD(outputs), .kind = MR_OPTION_STRINGS, .example = "[boxes, scores]",
     .help = "the outputs to keep, by name; if not given, all"},
    {FIELD(max_rows), .kind = MR_OPTION_INT, .fallback = "300", .min = 1, .max = 1000000, .unit = "rows",
     .help = "rows to keep from an output whose size depends on values (NonZero, NonMaxSuppression); frames with "
             "more are counted in a warning"},
    MR_MODEL_DEVICE_OPTIONS(options, device),
    MR_OPTIONS_END};
#undef FIELD

static const mr_format_set tensors[] = {{.payload = MR_PAYLOAD_TENSOR}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {{.name = "in",
                                  .help = "a tensor for each model input, joined under the inputs' names",
                                  .accepts = tensors,
                                  .many = true,
                                  .optional = true},
                                 {0}};
static const mr_port outputs[] = {
    {.name = "out", .help = "the first input's payload, with the model's outputs as results"}, {0}};

const mr_stage_type mr_infer_stage = {
    .name = "infer",
    .summary = "runs any ONNX model and adds its outputs to the frame as named tensors",
    .help = "A model with several inputs is written with join: {ITS_INPUT: stage, OTHER_INPUT: stage}. The frame's "
            "payload stays unchanged; classify and jsonl find the tensors among its results. f32, u8, i32 and i64 "
            "outputs stay as they are; f16, bf16 and f64 become f32, bool becomes u8, i8, i16 and u16 become i32, "
            "u32 and u64 become i64. Strings, sequences and maps are refused. An output whose size depends on values "
            "(NonZero, NonMaxSuppression) is a list with at most `max_rows` rows, and can be empty; it is made on "
            "the processors, without batch. An input that declares no shape takes the frames' shape, with the batch "
            "before it, if the network runs with it. Plan warns about operators that compute across a batch's frames.",
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
