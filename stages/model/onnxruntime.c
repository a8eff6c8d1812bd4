/* Models run by ONNX Runtime: on the processor by one thread, one node after the other; millrace adds the concurrency:
 * several workers are inside one session at a time, and each runs its own frames. On a CUDA device see ort_device.c. */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "millrace/status.h"
#include "stages/model/onnx/onnx_file.h"
#include "stages/model/onnx/onnx_work.h"
#include "stages/model/onnx_signature.h"
#include "stages/model/ort_model.h"
#include "stages/model/ort_provider.h"

static const struct {
    int ort;
    mr_dtype dtype;
    const char *name;
} types[] = {{ORT_FLOAT, MR_DTYPE_F32, "f32"}, {ORT_UINT8, MR_DTYPE_U8, "u8"},   {ORT_FLOAT16, MR_DTYPE_F16, "f16"},
             {ORT_INT32, MR_DTYPE_I32, "i32"}, {ORT_INT64, MR_DTYPE_I64, "i64"}, {3, MR_DTYPE_ANY, "i8"},
             {4, MR_DTYPE_ANY, "u16"},         {5, MR_DTYPE_ANY, "i16"},         {8, MR_DTYPE_ANY, "string"},
             {9, MR_DTYPE_ANY, "bool"},        {11, MR_DTYPE_ANY, "f64"},        {0, MR_DTYPE_ANY, "no tensor"}};

/* The provider that AUTO stands for on a device of that name. */
static mr_provider provider_on(mr_provider asked, const char *device) {
    if (asked != MR_PROVIDER_AUTO)
        return asked;
    return strncmp(device, "cuda", 4) == 0 ? MR_PROVIDER_CUDA : MR_PROVIDER_CPU;
}

static size_t find_type(int ort) {
    size_t last = sizeof types / sizeof types[0] - 1;
    for (size_t i = 0; i < last; i++)
        if (types[i].ort == ort)
            return i;
    return last;
}

/* ---- the file -------------------------------------------------------------------------------------------------- */

static void forget_bytes(ort_model *m) {
    mr_free(m->bytes.data);
    m->bytes = (mr_file_bytes){0};
}

/* ---- the session ----------------------------------------------------------------------------------------------- */

static int configure(const ort_runtime *ort, ort_session_options *options, bool brief) {
    const ort_api *api = &ort->api;
    ort_status *steps[] = {
        api->set_execution_mode(options, ORT_SEQUENTIAL),
        api->set_optimization(options, brief ? ORT_OPTIMIZE_NOTHING : ORT_OPTIMIZE_ALL),
        api->set_intra_op_threads(options, 1),
        api->set_inter_op_threads(options, 1),
        api->add_config(options, "session.intra_op.allow_spinning", "0"),
        api->add_config(options, "session.inter_op.allow_spinning", "0"),
        api->add_config(options, "session.load_model_format", "ONNX"),
    };
    int status = MR_OK;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        int failure = mr_ort_check(ort, steps[i], "ONNX Runtime");
        status = status ? status : failure;
    }
    return status;
}

static int make_session(ort_model *m, const mr_model_params *params) {
    const ort_api *api = &m->ort->api;
    ort_session_options *options = NULL;
    int status = mr_ort_check(m->ort, api->create_session_options(&options), "ONNX Runtime");
    if (!status)
        status = configure(m->ort, options, params->brief);
    if (!status && m->base.stream)
        status = mr_ort_provider_append(m->ort, options, params,
                                        provider_on(params->provider, m->base.stream->device->name),
                                        m->base.stream, m->engines.folder);
    if (!status)
        status = mr_ort_check(
            m->ort,
            api->create_session_from_array(m->ort->env, m->bytes.data, m->bytes.bytes, options, &m->session),
            m->base.path);
    if (options)
        api->release_session_options(options);
    return status;
}

/* A session of the bytes that were read. With `added` a tensor inside the network becomes an output, by a few bytes
 * behind them. */
static int load(ort_model *m, const mr_model_params *params, const char *added) {
    if (added)
        m->bytes.bytes += mr_onnx_append_output(m->bytes.data + m->bytes.bytes, added);
    if (m->base.stream && params->provider == MR_PROVIDER_TENSORRT)
        mr_ort_engines_open(m, params);
    int status = make_session(m, params);
    if (status && mr_ort_engines_refused(m))
        status = make_session(m, params);
    return status ? mr_fail(status, "the model %s", mr_message()) : MR_OK;
}

/* ---- inputs and outputs ---------------------------------------------------------------------------------------- */

static int read_shape(const ort_model *m, const ort_tensor_info *info, mr_shape *shape) {
    const ort_api *api = &m->ort->api;
    size_t rank = 0;
    int status = mr_ort_check(m->ort, api->rank(info, &rank), m->base.file);
    if (!status && rank > MR_MODEL_MAX_RANK)
        return mr_fail(MR_ERROR_DATA, "%s has a tensor of %zu dimensions; at most %d are supported", m->base.file,
                       rank, MR_MODEL_MAX_RANK);
    shape->rank = (int)rank;
    return status ? status : mr_ort_check(m->ort, api->dimensions(info, shape->dims, rank), m->base.file);
}

static int read_symbol(const ort_model *m, const ort_tensor_info *info, mr_model_tensor *tensor) {
    const char *symbols[MR_MODEL_MAX_RANK] = {""};
    size_t rank = (size_t)tensor->shape.rank;
    int status = mr_ort_check(m->ort, m->ort->api.symbols(info, symbols, rank), m->base.file);
    if (status)
        return status;
    tensor->symbol = mr_strdup(rank && symbols[0] ? symbols[0] : "");
    return tensor->symbol ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
}

/* Sequences and maps are listed too; they cannot be bound, as no frame can hold them. */
static int read_type(ort_model *m, bool output, size_t at, mr_model_tensor *tensor) {
    const ort_api *api = &m->ort->api;
    ort_type_info *type = NULL;
    const ort_tensor_info *info = NULL;
    int kind = 0, element = 0;
    int status =
        mr_ort_check(m->ort, (output ? api->output_type : api->input_type)(m->session, at, &type), m->base.file);
    if (!status)
        status = mr_ort_check(m->ort, api->kind(type, &kind), m->base.file);
    if (!status && kind == ORT_TYPE_TENSOR)
        status = mr_ort_check(m->ort, api->tensor_info(type, &info), m->base.file);
    if (!status && info)
        status = mr_ort_check(m->ort, api->element_type(info, &element), m->base.file);
    if (!status && info)
        status = read_shape(m, info, &tensor->shape);
    if (!status && info)
        status = read_symbol(m, info, tensor);
    if (!status && !info && !(tensor->symbol = mr_strdup("")))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
    tensor->dtype = types[find_type(element)].dtype;
    tensor->type = types[find_type(element)].name;
    m->element_type[output][at] = element;
    if (type)
        api->release_type(type);
    return status;
}

static int read_tensor(ort_model *m, bool output, size_t at, mr_model_tensor *tensor) {
    const ort_api *api = &m->ort->api;
    char *name = NULL;
    int status =
        mr_ort_check(m->ort, (output ? api->output_name : api->input_name)(m->session, at, m->ort->allocator, &name),
                     m->base.file);
    if (status)
        return status;
    tensor->name = mr_strdup(name);
    status = mr_ort_check(m->ort, api->allocator_free(m->ort->allocator, name), m->base.file);
    if (!status && !tensor->name)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", m->base.path);
    return status ? status : read_type(m, output, at, tensor);
}

static int read_signature(ort_model *m) {
    const ort_api *api = &m->ort->api;
    mr_model *base = &m->base;
    size_t inputs = 0, outputs = 0;
    int status = mr_ort_check(m->ort, api->input_count(m->session, &inputs), base->file);
    if (!status)
        status = mr_ort_check(m->ort, api->output_count(m->session, &outputs), base->file);
    if (!status && (inputs == 0 || inputs > MR_MODEL_MAX_TENSORS || outputs == 0 || outputs > MR_MODEL_MAX_TENSORS))
        return mr_fail(MR_ERROR_DATA, "%s has %zu inputs and %zu outputs; 1 to %d of each are supported", base->file,
                       inputs, outputs, MR_MODEL_MAX_TENSORS);
    for (; base->input_count < inputs && !status; base->input_count++) {
        status = read_tensor(m, false, base->input_count, &base->inputs[base->input_count]);
        m->input_names[base->input_count] = base->inputs[base->input_count].name;
    }
    for (; base->output_count < outputs && !status; base->output_count++)
        status = read_tensor(m, true, base->output_count, &base->outputs[base->output_count]);
    return status;
}

/* ---- the same, as the file declares it ------------------------------------------------------------------------- */

static void free_tensors(mr_model_tensor *tensors) {
    for (size_t i = 0; i < MR_MODEL_MAX_TENSORS; i++) {
        mr_free((char *)(uintptr_t)tensors[i].name);
        mr_free((char *)(uintptr_t)tensors[i].symbol);
    }
    memset(tensors, 0, MR_MODEL_MAX_TENSORS * sizeof *tensors);
}

static void forget_tensors(mr_model *model) {
    free_tensors(model->inputs);
    free_tensors(model->outputs);
    model->input_count = model->output_count = 0;
}

static char *copy_text(const mr_pb_span *text) {
    size_t bytes = (size_t)(text->end - text->at);
    char *copy = mr_calloc(bytes + 1, 1);
    if (copy && bytes)
        memcpy(copy, text->at, bytes);
    return copy;
}

static bool take_values(const mr_onnx_value *values, size_t count, mr_model_tensor *tensors, int *elements) {
    for (size_t i = 0; i < count; i++) {
        size_t type = find_type(values[i].element);
        tensors[i] = (mr_model_tensor){.name = copy_text(&values[i].name),
                                       .dtype = types[type].dtype,
                                       .type = types[type].name,
                                       .shape = values[i].shape,
                                       .symbol = copy_text(&values[i].symbol)};
        elements[i] = values[i].element;
        if (!tensors[i].name || !tensors[i].symbol)
            return false;
    }
    return true;
}

/* True if the file alone has all that planning needs. */
static bool take_declared(ort_model *m, const char *tensor) {
    mr_onnx_signature signature;
    mr_model *base = &m->base;
    if (!mr_onnx_read_signature(m->bytes.data, m->bytes.bytes, &signature))
        return false;
    base->input_count = signature.input_count;
    base->output_count = signature.output_count;
    if (take_values(signature.inputs, signature.input_count, base->inputs, m->element_type[0]) &&
        take_values(signature.outputs, signature.output_count, base->outputs, m->element_type[1]) &&
        (!tensor || mr_model_find(base->outputs, base->output_count, tensor) >= 0))
        return true;
    forget_tensors(base);
    return false;
}

/* ---- open, run, close ------------------------------------------------------------------------------------------ */

static void close_model(mr_model *model) {
    ort_model *m = (ort_model *)model;
    mr_ort_device_close(m);
    if (m->session)
        m->ort->api.release_session(m->session);
    forget_tensors(&m->base);
    if (m->session)
        mr_engine_cache_keep(&m->engines);
    mr_engine_cache_close(&m->engines);
    forget_bytes(m);
    mr_free(m->library);
    mr_free(m->base.path);
    mr_free(m);
}

/* The place at which a provider runs models: 0 the processors, 1 a CUDA device. MR_ERROR_CONFIG if the device is
 * another. */
static int works_on_cuda(const mr_model_params *params, const char *device) {
    mr_provider provider = provider_on(params->provider, device);
    bool is_cuda = strncmp(device, "cuda", 4) == 0;
    if (provider == MR_PROVIDER_CPU && is_cuda)
        return mr_fail(MR_ERROR_CONFIG,
                       "the provider cpu computes on the processors, and %s is not one of them; write device: cpu",
                       device);
    if (provider != MR_PROVIDER_CPU && !is_cuda)
        return mr_fail(MR_ERROR_CONFIG,
                       "the provider %s computes on CUDA devices, and %s is not one; write device: cuda:0",
                       mr_ort_provider_name(provider), device);
    if (params->cuda_graph && !is_cuda)
        return mr_fail(MR_ERROR_CONFIG, "cuda_graph is for CUDA devices, and %s is not one; remove it", device);
    return is_cuda;
}

static int check(const mr_model_params *params, const char *device) {
    const ort_runtime *ort;
    int answer = works_on_cuda(params, device);
    if (answer <= 0)
        return answer;
    int status = mr_ort_open(&ort, params->runtime);
    return status ? status : mr_ort_provider_load(ort, provider_on(params->provider, device));
}

/* Prepares the device for the provider, if it is one. */
static int take_device(ort_model *m, const mr_model_params *params) {
    const char *device = params->device && !params->brief ? params->device->name : "cpu";
    int answer = params->brief ? 0 : works_on_cuda(params, device);
    if (answer <= 0)
        return answer;
    int status = mr_ort_provider_load(m->ort, provider_on(params->provider, device));
    return status ? status : mr_model_take_device(&m->base, params->device);
}

/* A session, and its description of the network. `inside`: the graph computes the wanted tensor. */
static int load_and_ask(ort_model *m, const mr_model_params *params, bool inside) {
    int status = mr_ort_open(&m->ort, params->runtime);
    if (!status)
        status = take_device(m, params);
    if (!status)
        status = load(m, params, NULL);
    if (!status)
        status = read_signature(m);
    /* Most often the tensor is an output as it is; only else is the file changed. */
    if (!status && inside && mr_model_find(m->base.outputs, m->base.output_count, params->tensor) < 0) {
        m->ort->api.release_session(m->session);
        m->session = NULL;
        forget_tensors(&m->base);
        status = load(m, params, params->tensor);
        if (!status)
            status = read_signature(m);
    }
    if (!status && m->base.stream)
        status = mr_ort_device_open(m, params->cuda_graph);
    /* Loading takes twice the memory that the network then keeps; freed memory is returned to the system at once. */
    malloc_trim(0);
    return status;
}

/* The file is read whole, once: the bytes that were checked are loaded, even if the file changes meanwhile. The bytes
 * are kept if there is no session yet: a model that was only read may be loaded to be tried. */
static int fill_model(ort_model *m, const mr_model_params *params) {
    bool inside = false;
    size_t room = params->tensor ? strlen(params->tensor) + MR_ONNX_OUTPUT_BYTES : 0;
    int status = mr_onnx_read(params->path, room, params->tensor, &m->bytes, &inside);
    if (!status && !(params->brief && take_declared(m, params->tensor)))
        status = load_and_ask(m, params, inside);
    if (m->session)
        forget_bytes(m);
    return status;
}

static int open_model(mr_model **model, const mr_model_params *params) {
    ort_model *made = mr_calloc(1, sizeof *made);
    if (!made || !(made->base.path = mr_strdup(params->path)) ||
        (params->runtime && !(made->library = mr_strdup(params->runtime)))) {
        if (made)
            close_model(&made->base);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the model %s", params->path);
    }
    made->base.runtime = &mr_onnxruntime;
    made->engines.lock = -1;
    const char *slash = strrchr(made->base.path, '/');
    made->base.file = slash ? slash + 1 : made->base.path;
    mr_model *opened = &made->base;
    int status = fill_model(made, params);
    if (status)
        mr_model_close(&opened);
    else
        *model = opened;
    return status;
}

int mr_ort_wrap(const ort_model *m, const ort_memory_info *memory, bool output, size_t at, const mr_shape *shape,
                void *data, ort_value **value) {
    const mr_model_tensor *tensor = output ? &m->base.outputs[at] : &m->base.inputs[at];
    size_t bytes = mr_shape_count(shape) * mr_dtype_bytes(tensor->dtype);
    return mr_ort_check(m->ort,
                        m->ort->api.create_tensor(memory, data, bytes, shape->dims, (size_t)shape->rank,
                                                  m->element_type[output][at], value),
                        m->base.file);
}

static int read_value_shapes(const ort_model *m, ort_value *const *values, size_t count, mr_shape *shapes) {
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i++) {
        ort_tensor_info *info = NULL;
        status = mr_ort_check(m->ort, m->ort->api.value_shape(values[i], &info), m->base.file);
        if (!status)
            status = read_shape(m, info, &shapes[i]);
        if (info)
            m->ort->api.release_tensor_info(info);
    }
    return status;
}

/* Loads a model that was only read so far, to try it. */
static int load_to_try(ort_model *m) {
    int status = mr_ort_open(&m->ort, m->library);
    if (!status)
        status = load(m, &(mr_model_params){.brief = true}, NULL);
    if (!status)
        forget_bytes(m);
    for (size_t i = 0; i < m->base.input_count; i++)
        m->input_names[i] = m->base.inputs[i].name;
    return status;
}

static int run_model(const mr_binding *binding, void *const *inputs, void *const *outputs, mr_shape *measure) {
    ort_model *m = (ort_model *)binding->model;
    ort_value *in[MR_MODEL_MAX_TENSORS] = {0}, *out[MR_MODEL_MAX_TENSORS] = {0};
    const char *names[MR_MODEL_MAX_TENSORS];
    int status = m->session ? MR_OK : load_to_try(m);
    for (size_t i = 0; i < m->base.input_count && !status; i++)
        status = mr_ort_wrap(m, m->ort->memory, false, i, &binding->input_shape[i], inputs[i], &in[i]);
    for (size_t i = 0; i < binding->output_count; i++) {
        names[i] = m->base.outputs[binding->output[i]].name;
        if (!status && !measure)
            status = mr_ort_wrap(m, m->ort->memory, true, binding->output[i], &binding->output_shape[i], outputs[i],
                                 &out[i]);
    }
    if (!status)
        status = mr_ort_check(m->ort,
                              m->ort->api.run(m->session, NULL, m->input_names, (const ort_value *const *)in,
                                              m->base.input_count, names, binding->output_count, out),
                              m->base.file);
    if (!status && measure)
        status = read_value_shapes(m, out, binding->output_count, measure);
    for (size_t i = 0; i < MR_MODEL_MAX_TENSORS; i++) {
        if (in[i])
            m->ort->api.release_value(in[i]);
        if (out[i])
            m->ort->api.release_value(out[i]);
    }
    return status;
}

_Static_assert((int)MR_ONNX_GRAPH_RANK >= (int)MR_MODEL_MAX_RANK, "shapes of a binding fit");

/* If the network was loaded to be tried its bytes have been freed: they are read again. */
static int count_work(const mr_binding *binding, mr_onnx_work *work) {
    const ort_model *m = (const ort_model *)binding->model;
    mr_file_bytes again = {0};
    bool inside;
    mr_onnx_shape shapes[MR_MODEL_MAX_TENSORS];
    for (size_t i = 0; i < m->base.input_count; i++) {
        shapes[i].rank = binding->input_shape[i].rank;
        memcpy(shapes[i].dims, binding->input_shape[i].dims, sizeof binding->input_shape[i].dims);
    }
    int status = m->bytes.data ? MR_OK : mr_onnx_read(m->base.path, 0, NULL, &again, &inside);
    const mr_file_bytes *bytes = m->bytes.data ? &m->bytes : &again;
    if (!status)
        status = mr_onnx_count_work(bytes->data, bytes->bytes, shapes, m->base.input_count, work);
    mr_free(again.data);
    return status;
}

const mr_model_runtime mr_onnxruntime = {
    .name = "onnxruntime", .open = open_model, .close = close_model, .run = run_model, .enqueue = mr_ort_device_run,
    .count = count_work, .check = check};
