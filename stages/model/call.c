#include "stages/model/call.h"

#include <stdio.h>
#include <string.h>

#include "engine/device/device.h"
#include "stages/model/onnx/onnx_work.h"

static const size_t ALIGNMENT = 64;

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static mr_shape item_shape(const mr_call *call, const mr_shape *shape) {
    int skip = call->batched && shape->rank ? 1 : 0;
    mr_shape item = {.rank = shape->rank - skip};
    memcpy(item.dims, shape->dims + skip, (size_t)item.rank * sizeof item.dims[0]);
    return item;
}

int mr_call_choose(const mr_model *model, const mr_strings *names, size_t *outputs, size_t *count) {
    char list[MR_LIST_TEXT];
    for (size_t i = 0; i < model->output_count && names->count == 0; i++)
        outputs[i] = i;
    *count = names->count ? names->count : model->output_count;
    for (size_t i = 0; i < names->count; i++) {
        int found = mr_model_find(model->outputs, model->output_count, names->item[i]);
        if (found < 0 || i == MR_MODEL_MAX_TENSORS)
            return mr_fail(MR_ERROR_CONFIG, "%s has no output \"%s\"; its outputs are: %s", model->file,
                           names->item[i], mr_model_list(model->outputs, model->output_count, list, sizeof list));
        for (size_t before = 0; before < i; before++)
            if (outputs[before] == (size_t)found)
                return mr_fail(MR_ERROR_CONFIG, "outputs names \"%s\" twice", names->item[i]);
        outputs[i] = (size_t)found;
    }
    return MR_OK;
}

/* ---- planning -------------------------------------------------------------------------------------------------- */

/* A rank 3 tensor with one, three or four at one end is a picture. */
static mr_layout layout_of(const mr_format_set *set) {
    const int64_t first = set->dims[0].max, last = set->dims[2].max;
    bool channels_first = first == 1 || first == 3 || first == 4, channels_last = last == 1 || last == 3 || last == 4;
    return set->rank != 3 || channels_first == channels_last ? MR_LAYOUT_ANY
           : channels_first                                  ? MR_LAYOUT_NCHW
                                                             : MR_LAYOUT_NHWC;
}

mr_format_set mr_call_item_set(const mr_model_tensor *tensor, bool batched) {
    const int skip = batched && tensor->shape.rank ? 1 : 0;
    mr_format_set set = {.payload = MR_PAYLOAD_TENSOR, .rank = tensor->shape.rank - skip,
                         .dtypes = tensor->dtype ? MR_IN_SET(tensor->dtype) : 0};
    for (int i = 0; i < set.rank && i < MR_MAX_RANK; i++)
        if (tensor->shape.dims[i + skip] > 0)
            set.dims[i] = (mr_bounds){tensor->shape.dims[i + skip], tensor->shape.dims[i + skip]};
    return set;
}

/* An input without a declared shape accepts frames of any shape, with the batch in front. */
static void give_shape(mr_model_tensor *tensor, int rank) {
    tensor->shape.rank = rank + 1;
    for (int i = 0; i <= rank; i++)
        tensor->shape.dims[i] = -1;
}

bool mr_call_is_batched(const mr_model *model, const mr_planned_input *first) {
    if (model->inputs[0].unshaped)
        return true;
    int rank = model->inputs[0].shape.rank, given = first->set.payload == MR_PAYLOAD_TENSOR ? first->set.rank : 0;
    return given ? rank == given + 1 : rank > 1;
}

/* "f32 1x3x224x224", or "a sequence". */
static const char *describe(const mr_model_tensor *tensor, const mr_shape *shape, char *text, size_t bytes) {
    size_t used = (size_t)snprintf(text, bytes, "%s", tensor->type);
    if (!strchr(tensor->type, ' ') && used + 1 < bytes) {
        text[used] = ' ';
        mr_shape_print(shape, text + used + 1, bytes - used - 1);
    }
    return text;
}

/* Rejects declared shapes that no frame can have. */
static int check_sizes(const mr_model *model, const mr_model_tensor *tensor) {
    char text[MR_SHAPE_TEXT];
    if (tensor->dtype && !tensor->unshaped && tensor->shape.rank == 0)
        return mr_fail(MR_ERROR_CONFIG, "the input \"%s\" of %s is a single number, and not a tensor of a frame",
                       tensor->name, model->file);
    for (int i = 0; i < tensor->shape.rank; i++)
        if (tensor->shape.dims[i] == 0)
            return mr_fail(MR_ERROR_CONFIG,
                           "the input \"%s\" of %s is %s: with a dimension of 0 it holds nothing; export the network "
                           "again with a size or a free dimension in its place",
                           tensor->name, model->file, describe(tensor, &tensor->shape, text, sizeof text));
    return MR_OK;
}

int mr_call_take(mr_negotiation *n, const mr_model *model, const size_t *port) {
    bool batched = mr_call_is_batched(model, &n->inputs[port[0]]);
    for (size_t i = 0; i < model->input_count; i++) {
        const mr_model_tensor *tensor = &model->inputs[i];
        char text[MR_SHAPE_TEXT];
        int status = check_sizes(model, tensor);
        if (status)
            return status;
        if (tensor->dtype == MR_DTYPE_ANY || tensor->shape.rank - batched > MR_MAX_RANK)
            return mr_fail(MR_ERROR_CONFIG, "the input \"%s\" of %s is %s, which a frame cannot hold", tensor->name,
                           model->file, describe(tensor, &tensor->shape, text, sizeof text));
        mr_format_set set = mr_call_item_set(tensor, batched);
        mr_layout layout = layout_of(&set);
        set.layouts = layout ? MR_IN_SET(layout) : 0;
        mr_take(n, port[i], &set, "the input \"%s\" of %s", tensor->name, model->file);
    }
    return MR_OK;
}

bool mr_call_foresees(const mr_negotiation *n, mr_planned_input *known) {
    for (size_t i = 0; i < n->input_count; i++) {
        mr_format_set met = n->inputs[i].set;
        known[i] = n->inputs[i];
        if (!mr_format_set_meet(&n->inputs[i].set, &n->takes[i], &met))
            return false;
        known[i].set = met;
        known[i].format = mr_format_set_common(&met);
        if (!n->inputs[i].settled && !mr_format_set_is_fixed(&met))
            return false;
    }
    return true;
}

static int refuse_input(const mr_call *call, const mr_model_tensor *tensor, const mr_planned_input *input) {
    char wanted[MR_SHAPE_TEXT], given[MR_FORMAT_TEXT];
    mr_shape item = item_shape(call, &tensor->shape);
    return mr_fail(MR_ERROR_CONFIG,
                   "the input \"%s\" of %s takes %s %s, of any size: set the size in %s, which gives a %s",
                   tensor->name, call->model->file, tensor->type, mr_shape_print(&item, wanted, sizeof wanted),
                   input->from, mr_format_print(&input->format, given, sizeof given));
}

/* A dimension of the frames; the smallest, if they differ. */
static int64_t size_of(mr_call *call, const mr_planned_input *input, int at) {
    const mr_bounds *bounds = &input->set.dims[at];
    if (!input->format.rank || input->format.dims[at] || bounds->min <= 0)
        return input->format.rank ? input->format.dims[at] : 0;
    call->growth *= (double)bounds->max / (double)bounds->min;
    call->varies = true;
    call->varied = input->set;
    return bounds->min;
}

static int refuse_varied(const mr_call *call) {
    return mr_fail(MR_ERROR_CONFIG, "%s takes frames of different sizes only one at a time%s on the processors",
                   call->model->file, call->model->input_count > 1 ? ", if it has one input," : "");
}

static int check_varied(const mr_call *call) {
    const bool can = call->batch == 1 && call->model->input_count == 1 && !call->model->stream;
    return call->varies && !can ? refuse_varied(call) : MR_OK;
}

int mr_call_check_sizes(const mr_call *call, const mr_negotiation *n) {
    return call->varies && strcmp(n->device, "cpu") != 0 ? refuse_varied(call) : MR_OK;
}

/* Fixes an input's shape from the model's shape and the link's, which must match. */
static int fix_input(mr_call *call, size_t index, const mr_planned_input *input, mr_shape *shape) {
    const mr_model_tensor *tensor = &call->model->inputs[index];
    const mr_format *format = &input->format;
    mr_shape item = item_shape(call, &tensor->shape);
    for (int i = 0; i < item.rank; i++) {
        if (item.dims[i] < 0)
            item.dims[i] = size_of(call, input, i);
        if (item.dims[i] <= 0)
            return refuse_input(call, tensor, input);
    }
    call->input[index] = mr_tensor_format(tensor->dtype, format->layout, item.rank, item.dims);
    *shape = (mr_shape){.rank = tensor->shape.rank};
    shape->dims[0] = call->batch;
    memcpy(shape->dims + call->batched, item.dims, (size_t)item.rank * sizeof item.dims[0]);
    return MR_OK;
}

/* Uses the batch that the model requires, or else the planned one. */
static int choose_batch(mr_call *call, const mr_planned_input *first, int batch) {
    const mr_model_tensor *tensor = &call->model->inputs[0];
    call->batched = mr_call_is_batched(call->model, first);
    int64_t fixed = call->batched ? tensor->shape.dims[0] : 1;
    call->batch = fixed > 0 ? (int)fixed : batch;
    if (fixed > 4096)
        return mr_fail(MR_ERROR_CONFIG, "%s takes batches of %lld; at most 4096 are supported", call->model->file,
                       (long long)fixed);
    if (batch > call->batch)
        return mr_fail(MR_ERROR_CONFIG, "%s takes batches of %d only, not of %d",
                       call->model->file, call->batch, batch);
    return MR_OK;
}

static int refuse_output(const mr_call *call, size_t index) {
    const mr_model_tensor *tensor = &call->model->outputs[call->binding.output[index]];
    const mr_shape *next = &call->binding.next_shape[index];
    char text[MR_SHAPE_TEXT], more[MR_SHAPE_TEXT], other[MR_SHAPE_TEXT + 32] = "";
    if (next->rank >= 0)
        snprintf(other, sizeof other, ", and %s for one of %d", mr_shape_print(next, more, sizeof more),
                 call->batch + 1);
    return mr_fail(MR_ERROR_CONFIG,
                   "the output \"%s\" of %s is %s for a batch of %d%s: not one item for each frame; remove the batch",
                   tensor->name, call->model->file,
                   mr_shape_print(&call->binding.output_shape[index], text, sizeof text), call->batch, other);
}

/* Runs before the network is tried: a sequence has no shape to try. */
static int check_output(const mr_call *call, size_t output) {
    const mr_model_tensor *tensor = &call->model->outputs[output];
    char text[MR_SHAPE_TEXT];
    if (tensor->dtype != MR_DTYPE_ANY)
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "the output \"%s\" of %s is %s, which a frame cannot hold", tensor->name,
                   call->model->file, describe(tensor, &tensor->shape, text, sizeof text));
}

static int plan_output(mr_call *call, size_t index) {
    const mr_model_tensor *tensor = &call->model->outputs[call->binding.output[index]];
    const mr_shape *shape = &call->binding.output_shape[index];
    char text[MR_SHAPE_TEXT];
    if (call->batch > 1 && !call->binding.per_frame[index])
        return refuse_output(call, index);
    mr_shape item = *shape;
    if (call->binding.per_frame[index])
        item = item_shape(call, shape);
    if (item.rank > MR_MAX_RANK)
        return mr_fail(MR_ERROR_CONFIG, "the output \"%s\" of %s is %s, which a frame cannot hold", tensor->name,
                       call->model->file, describe(tensor, &item, text, sizeof text));
    if (item.rank == 0) {
        item.rank = 1;
        item.dims[0] = 1;
    }
    call->output[index] = mr_tensor_format(tensor->dtype, MR_LAYOUT_FLAT, item.rank, item.dims);
    call->output_at[index] = call->output_bytes;
    if (call->varies) {
        /* A network may round sizes up. */
        const double bytes = (double)mr_tensor_bytes(&call->output[index]) * call->growth * 9 / 8;
        call->binding.room_bytes[index] = aligned((size_t)bytes);
        call->output_bytes += MR_VARIED_BYTES + call->binding.room_bytes[index];
        return MR_OK;
    }
    call->output_bytes += aligned((size_t)call->batch * mr_tensor_bytes(&call->output[index]));
    if (call->binding.rows_axis[index] >= 0)
        call->output_bytes += MR_ROWS_BYTES;
    return MR_OK;
}

int mr_call_plan(mr_call *call, mr_model *model, const mr_planned_input *inputs, const size_t *port, int batch,
                 const size_t *outputs, size_t output_count) {
    *call = (mr_call){.model = model, .growth = 1};
    memcpy(call->port, port, model->input_count * sizeof *port);
    mr_shape shapes[MR_MODEL_MAX_TENSORS];
    for (size_t i = 0; i < model->input_count; i++)
        if (model->inputs[i].unshaped)
            give_shape(&model->inputs[i], inputs[port[i]].format.rank);
    int status = choose_batch(call, &inputs[port[0]], batch);
    for (size_t i = 0; i < output_count && !status; i++)
        status = check_output(call, outputs[i]);
    for (size_t i = 0; i < model->input_count && !status; i++) {
        status = fix_input(call, i, &inputs[port[i]], &shapes[i]);
        if (!status && call->batch > 1)
            call->gathered_bytes += aligned((size_t)call->batch * mr_tensor_bytes(&call->input[i]));
    }
    if (!status)
        status = check_varied(call);
    if (!status)
        status = mr_model_bind(model, &call->binding, shapes, call->batched ? call->batch : 0, outputs, output_count);
    call->binding.varies = call->varies;
    for (size_t i = 0; i < output_count && !status; i++)
        status = plan_output(call, i);
    return status;
}

void mr_call_warn(const mr_call *call, mr_negotiation *n) {
    char text[MR_MODEL_MIXING];
    if (call->model->note[MR_MODEL_PREPARED])
        mr_remark(n, "%s was trained with pictures prepared so: %s", call->model->file,
                  call->model->note[MR_MODEL_PREPARED]);
    if (call->batch <= 1 || !call->batched || n->batch <= 1 || !*mr_model_mixing(&call->binding, text))
        return;
    mr_warn(n, "batch", "remove batch, unless the network is meant to compare the frames of a batch",
            "%s of %s computes across the frames of a batch, so that a frame's result depends on the others with it",
            text, call->model->file);
}

void mr_call_count(const mr_call *call, mr_negotiation *n) {
    mr_onnx_work counted;
    if (strcmp(n->device, "cpu") == 0 || !mr_model_count(&call->binding, &counted))
        return;
    double inside = counted.activation_bytes - counted.input_bytes - (double)call->output_bytes;
    n->work.launches = counted.launches;
    n->work.f32_operations = counted.f32_operations / n->batch;
    n->work.f16_operations = counted.f16_operations / n->batch;
    n->work.call_bytes = counted.weight_bytes;
    n->work.more_bytes = inside > 0 ? inside / n->batch : 0;
    if (counted.missing)
        mr_leave_uncounted(n, "%s%s", counted.why, counted.missing > 1 ? ", and others after it" : "");
}

/* ---- running --------------------------------------------------------------------------------------------------- */

static int check_frame(const mr_call *call, size_t input, const mr_frame *frame) {
    const mr_format *wanted = &call->input[input], *given = &frame->format;
    bool same = given->payload == MR_PAYLOAD_TENSOR && given->dtype == wanted->dtype && given->rank == wanted->rank;
    for (int i = 0; i < wanted->rank && same && !call->varies; i++)
        same = given->dims[i] == wanted->dims[i];
    same &= !call->varies || mr_format_set_has(&call->varied, given);
    if (same)
        return MR_OK;
    char wanted_text[MR_FORMAT_TEXT], given_text[MR_FORMAT_TEXT];
    return mr_fail(MR_ERROR_DATA, "the input \"%s\" of %s takes a %s, and a frame is a %s",
                   call->model->inputs[input].name, call->model->file,
                   mr_format_print(wanted, wanted_text, sizeof wanted_text),
                   mr_format_print(given, given_text, sizeof given_text));
}

size_t mr_call_frames(const mr_io *io) {
    size_t count = 0;
    for (size_t i = 0; i < mr_io_count(io); i++)
        count += !mr_io_passes(io, i);
    return count;
}

/* Concatenates one input's items and fills the rest with zeros. */
static int gather(const mr_call *call, mr_io *io, size_t input, uint8_t *to) {
    mr_stream *stream = mr_io_stream(io);
    size_t bytes = mr_tensor_bytes(&call->input[input]), count = 0;
    int status = MR_OK;
    for (size_t i = 0; i < mr_io_count(io) && !status; i++) {
        const mr_frame *frame = mr_io_input_at(io, call->port[input], i);
        if (!mr_io_passes(io, i))
            status = mr_stream_copy(stream, to + count++ * bytes, frame->plane[0].data, bytes);
    }
    return status ? status : mr_stream_copy(stream, to + count * bytes, NULL, ((size_t)call->batch - count) * bytes);
}

/* One input's items if they already form a whole batch; otherwise NULL. */
static uint8_t *in_place(const mr_call *call, const mr_io *io, size_t input) {
    const mr_plane *first = NULL;
    size_t bytes = mr_tensor_bytes(&call->input[input]), count = 0;
    for (size_t i = 0; i < mr_io_count(io); i++) {
        const mr_frame *frame = mr_io_input_at(io, call->port[input], i);
        const mr_plane *item = &frame->plane[0];
        if (mr_io_passes(io, i))
            continue;
        first = first ? first : item;
        if (item->buffer != first->buffer || item->data != first->data + count++ * bytes)
            return NULL;
    }
    return first && count == (size_t)call->batch ? first->data : NULL;
}

static int feed(const mr_call *call, mr_io *io, void **inputs) {
    mr_buffer *scratch = NULL;
    bool whole = true;
    for (size_t i = 0; i < call->model->input_count; i++)
        whole &= (inputs[i] = in_place(call, io, i)) != NULL;
    int status = whole ? MR_OK : mr_io_scratch(io, call->gathered_bytes, &scratch);
    size_t at = 0;
    for (size_t i = 0; i < call->model->input_count && !status; i++) {
        if (!inputs[i]) {
            inputs[i] = scratch->data + at;
            status = gather(call, io, i, inputs[i]);
        }
        at += aligned((size_t)call->batch * mr_tensor_bytes(&call->input[i]));
    }
    /* The engine keeps it until the device has finished this call. */
    mr_buffer_unref(&scratch);
    return status;
}

/* Enqueues a run for a frame whose size is its own. */
static int run_varied(const mr_call *call, mr_io *io, void *const *inputs, void *const *outputs) {
    const mr_format *format = &mr_io_input_at(io, call->port[0], 0)->format;
    mr_shape shape = call->binding.input_shape[0];
    for (int i = 0; i < format->rank; i++)
        shape.dims[i + call->batched] = format->dims[i];
    return mr_model_enqueue_shape(&call->binding, mr_io_stream(io), &shape, inputs, outputs);
}

int mr_call_run(const mr_call *call, mr_io *io, uint8_t *block) {
    void *inputs[MR_MODEL_MAX_TENSORS], *outputs[MR_MODEL_MAX_TENSORS];
    int status = MR_OK;
    for (size_t i = 0; i < call->model->input_count; i++)
        for (size_t item = 0; item < mr_io_count(io) && !status; item++)
            status = mr_io_passes(io, item) ? MR_OK : check_frame(call, i, mr_io_input_at(io, call->port[i], item));
    if (!status)
        status = feed(call, io, inputs);
    for (size_t i = 0; i < call->binding.output_count; i++)
        outputs[i] = block + call->output_at[i];
    if (!status && call->varies)
        return run_varied(call, io, inputs, outputs);
    return status ? status : mr_model_enqueue(&call->binding, mr_io_stream(io), inputs, outputs);
}

void mr_call_varied(const mr_call *call, uint8_t *block, size_t output, mr_format *format, void **data) {
    mr_shape shape;
    memcpy(&shape, block + call->output_at[output], sizeof shape);
    if (call->binding.per_frame[output])
        shape = item_shape(call, &shape);
    shape.rank = shape.rank < MR_MAX_RANK ? shape.rank : MR_MAX_RANK;
    *format = mr_tensor_format(call->output[output].dtype, MR_LAYOUT_FLAT, shape.rank, shape.dims);
    *data = block + call->output_at[output] + MR_VARIED_BYTES;
}

int64_t mr_call_rows(const mr_call *call, uint8_t *block, size_t output, mr_format *format, void **data) {
    const int axis = call->binding.rows_axis[output];
    int64_t rows;
    memcpy(&rows, block + call->output_at[output], sizeof rows);
    *format = call->output[output];
    format->dims[axis] = rows < format->dims[axis] ? rows : format->dims[axis];
    *data = block + call->output_at[output] + MR_ROWS_BYTES;
    return rows;
}

uint8_t *mr_call_item(const mr_call *call, uint8_t *block, size_t output, size_t index) {
    return block + call->output_at[output] + index * mr_tensor_bytes(&call->output[output]);
}
