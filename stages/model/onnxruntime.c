/* Runs models with ONNX Runtime. On a processor, one thread runs one node after another. millrace adds the concurrency:
 * several workers can use a session at once, each with different frames. See ort_device.c for CUDA devices. */
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/device.h"
#include "millrace/status.h"
#include "stages/model/onnx/onnx_append.h"
#include "stages/model/onnx/onnx_file.h"
#include "stages/model/onnx/onnx_traits.h"
#include "stages/model/onnx/onnx_work.h"
#include "stages/model/ort_model.h"
#include "stages/model/ort_provider.h"
#include "stages/model/ort_signature.h"

/* The provider that AUTO means on this device. */
static mr_provider provider_on(mr_provider asked, const char *device) {
    if (asked != MR_PROVIDER_AUTO)
        return asked;
    return strncmp(device, "cuda", 4) == 0 ? MR_PROVIDER_CUDA : MR_PROVIDER_CPU;
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
    if (!status && !m->base.stream && m->ort->huge)
        status = mr_ort_check(m->ort, api->add_config(options, "session.use_env_allocators", "1"), "ONNX Runtime");
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

/* Creates a session from the bytes. With `added`, a tensor inside the network becomes an output: a few bytes are
 * appended. */
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

/* ---- open, run, close ------------------------------------------------------------------------------------------ */

static void close_model(mr_model *model) {
    ort_model *m = (ort_model *)model;
    mr_ort_device_close(m);
    if (m->session) {
        m->ort->api.release_session(m->session);
        mr_ort_trim();
    }
    mr_ort_forget_tensors(m);
    if (m->session)
        mr_engine_cache_keep(&m->engines);
    mr_engine_cache_close(&m->engines);
    forget_bytes(m);
    mr_free(m->library);
    mr_free(m->external);
    for (size_t i = 0; i < MR_MODEL_NOTES; i++)
        mr_free(m->base.note[i]);
    mr_free(m->base.path);
    mr_free(m);
}

/* Where a provider runs models: 0 the processors, 1 a CUDA device. MR_ERROR_CONFIG if `device` is another. */
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

/* Prepares the provider's device, if there is one. */
static int take_device(ort_model *m, const mr_model_params *params) {
    const char *device = params->device && !params->brief ? params->device->name : "cpu";
    int answer = params->brief ? 0 : works_on_cuda(params, device);
    if (answer <= 0)
        return answer;
    int status = mr_ort_provider_load(m->ort, provider_on(params->provider, device));
    return status ? status : mr_model_take_device(&m->base, params->device);
}

static void unload(ort_model *m) {
    m->ort->api.release_session(m->session);
    m->session = NULL;
    mr_ort_forget_tensors(m);
}

static int load_again(ort_model *m, const mr_model_params *params, const char *added) {
    unload(m);
    int status = load(m, params, added);
    return status ? status : mr_ort_read_signature(m);
}

/* Makes the wanted tensor an output with a frame type. Usually it already is both; the file is changed only if not. */
static int add_tensor(ort_model *m, const mr_model_params *params) {
    bool cast = false;
    int status = mr_model_find(m->base.outputs, m->base.output_count, params->tensor) >= 0
                     ? MR_OK
                     : load_again(m, params, params->tensor);
    if (!status && !params->brief)
        status = mr_ort_append_cast(m, params->tensor, &cast);
    return cast && !status ? load_again(m, params, NULL) : status;
}

/* Creates a session and reads the network's description. `inside`: the graph computes the wanted tensor. */
static int load_and_ask(ort_model *m, const mr_model_params *params, bool inside) {
    int status = mr_ort_open(&m->ort, params->runtime);
    if (!status)
        status = take_device(m, params);
    if (!status && !params->brief)
        status = mr_ort_append_casts(m, params->tensor);
    if (!status)
        status = load(m, params, NULL);
    if (!status)
        status = mr_ort_read_signature(m);
    if (!status && inside)
        status = add_tensor(m, params);
    if (!status && m->base.stream)
        status = mr_ort_device_open(m, params->cuda_graph);
    /* Loading takes twice the memory that the network keeps; freed memory is returned to the system at once. */
    mr_ort_trim();
    return status;
}

/* Reads the whole file once: what was checked is loaded, even if the file changes. The bytes are kept while there is no
 * session, since a model that was only read may have to be loaded for a trial run. */
static int fill_model(ort_model *m, const mr_model_params *params) {
    bool inside = false;
    size_t output = params->tensor ? strlen(params->tensor) + MR_ONNX_OUTPUT_BYTES : 0;
    m->room = MR_ORT_CAST_ROOM;
    int status = mr_onnx_read_parts(params->path, params->external, output + m->room, params->tensor, &m->bytes,
                                    &inside);
    if (!status && !(params->brief && mr_ort_take_declared(m, params->tensor)))
        status = load_and_ask(m, params, inside);
    if (!status)
        status = mr_ort_read_graph(m);
    if (m->session)
        forget_bytes(m);
    return status;
}

static int open_model(mr_model **model, const mr_model_params *params) {
    ort_model *made = mr_calloc(1, sizeof *made);
    if (!made || !(made->base.path = mr_strdup(params->path)) ||
        (params->external && !(made->external = mr_strdup(params->external))) ||
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
            status = mr_ort_read_shape(m, info, &shapes[i]);
        if (info)
            m->ort->api.release_tensor_info(info);
    }
    return status;
}

/* Copies the number of rows, and as many rows as there is room for. Rows can be inside other dimensions. */
static int copy_rows(const ort_model *m, const mr_binding *binding, size_t at, ort_value *value, uint8_t *to) {
    const mr_shape *room = &binding->output_shape[at];
    const int axis = binding->rows_axis[at];
    mr_shape shape = {0};
    void *from = NULL;
    int status = read_value_shapes(m, &value, 1, &shape);
    if (!status)
        status = mr_ort_check(m->ort, m->ort->api.tensor_data(value, &from), m->base.file);
    for (int i = 0; i < room->rank && !status; i++)
        if (shape.rank != room->rank || (i != axis && shape.dims[i] != room->dims[i]))
            status = mr_fail(MR_ERROR_DATA, "%s gives an output \"%s\" of another shape than planned", m->base.file,
                             m->base.outputs[binding->output[at]].name);
    if (status)
        return status;
    size_t inner = mr_dtype_bytes(m->base.outputs[binding->output[at]].dtype), outer = 1;
    for (int i = 0; i < room->rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : (size_t)room->dims[i];
    const size_t rows = (size_t)shape.dims[axis], most = (size_t)room->dims[axis], kept = rows < most ? rows : most;
    memcpy(to, &(int64_t){shape.dims[axis]}, sizeof(int64_t));
    for (size_t i = 0; i < outer && kept; i++)
        memcpy(to + MR_ROWS_BYTES + i * kept * inner, (const uint8_t *)from + i * rows * inner, kept * inner);
    return MR_OK;
}

/* Copies an output of any shape, and before it the shape. */
static int copy_varied(const ort_model *m, const mr_binding *binding, size_t at, ort_value *value, uint8_t *to) {
    const mr_model_tensor *tensor = &m->base.outputs[binding->output[at]];
    char text[MR_SHAPE_TEXT];
    mr_shape shape = {0};
    void *from = NULL;
    int status = read_value_shapes(m, &value, 1, &shape);
    if (!status)
        status = mr_ort_check(m->ort, m->ort->api.tensor_data(value, &from), m->base.file);
    if (status)
        return status;
    const size_t bytes = mr_shape_count(&shape) * mr_dtype_bytes(tensor->dtype);
    if (bytes > binding->room_bytes[at])
        return mr_fail(MR_ERROR_DATA, "%s gives an output \"%s\" of %s, which is larger than planned", m->base.file,
                       tensor->name, mr_shape_print(&shape, text, sizeof text));
    memcpy(to, &shape, sizeof shape);
    if (bytes)
        memcpy(to + MR_VARIED_BYTES, from, bytes);
    return MR_OK;
}

_Static_assert(sizeof(mr_shape) <= MR_VARIED_BYTES, "the shape fits before the numbers");

/* Loads a model for a trial run that so far was only read. */
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
        names[i] = mr_ort_output_name(m, binding->output[i]);
        if (!status && !measure && binding->rows_axis[i] < 0 && !binding->varies)
            status = mr_ort_wrap(m, m->ort->memory, true, binding->output[i], &binding->output_shape[i], outputs[i],
                                 &out[i]);
    }
    if (!status)
        status = mr_ort_check(m->ort,
                              m->ort->api.run(m->session, NULL, m->input_names, (const ort_value *const *)in,
                                              m->base.input_count, names, binding->output_count, out),
                              m->base.file);
    for (size_t i = 0; i < binding->output_count && !status && !measure; i++)
        if (binding->varies)
            status = copy_varied(m, binding, i, out[i], outputs[i]);
        else if (binding->rows_axis[i] >= 0)
            status = copy_rows(m, binding, i, out[i], outputs[i]);
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

/* Gives the file's bytes. If they were freed after a trial run, reads them again into *again, which the caller must
 * free. */
static int bytes_of(const ort_model *m, mr_file_bytes *again, const mr_file_bytes **bytes) {
    bool inside;
    *again = (mr_file_bytes){0};
    *bytes = m->bytes.data ? &m->bytes : again;
    return m->bytes.data ? MR_OK : mr_onnx_read_parts(m->base.path, m->external, 0, NULL, again, &inside);
}

static void copy_shapes(const mr_binding *binding, mr_onnx_shape *shapes) {
    for (size_t i = 0; i < binding->model->input_count; i++) {
        shapes[i].rank = binding->input_shape[i].rank;
        memcpy(shapes[i].dims, binding->input_shape[i].dims, sizeof binding->input_shape[i].dims);
    }
}

static int count_work(const mr_binding *binding, mr_onnx_work *work) {
    mr_file_bytes again;
    const mr_file_bytes *bytes;
    mr_onnx_shape shapes[MR_MODEL_MAX_TENSORS];
    int status = bytes_of((const ort_model *)binding->model, &again, &bytes);
    copy_shapes(binding, shapes);
    if (!status)
        status = mr_onnx_count_work(bytes->data, bytes->bytes, shapes, binding->model->input_count, work);
    mr_free(again.data);
    return status;
}

_Static_assert((int)MR_MODEL_MIXING >= (int)MR_ONNX_MIXING_TEXT, "what mixes fits");

static int find_mixing(const mr_binding *binding, char *text) {
    const mr_model *model = binding->model;
    mr_file_bytes again;
    const mr_file_bytes *bytes;
    mr_onnx_shape shapes[MR_MODEL_MAX_TENSORS];
    const char *outputs[MR_MODEL_MAX_TENSORS];
    int status = bytes_of((const ort_model *)model, &again, &bytes);
    copy_shapes(binding, shapes);
    for (size_t i = 0; i < binding->output_count; i++)
        outputs[i] = model->outputs[binding->output[i]].name;
    const mr_onnx_batch batch = {.inputs = shapes, .input_count = model->input_count,
                                 .fixed = model->inputs[0].shape.dims[0] > 0, .outputs = outputs,
                                 .output_count = binding->output_count};
    if (!status)
        status = mr_onnx_find_mixing(bytes->data, bytes->bytes, &batch, text);
    mr_free(again.data);
    return status;
}

const mr_model_runtime mr_onnxruntime = {
    .name = "onnxruntime", .open = open_model, .close = close_model, .run = run_model, .enqueue = mr_ort_device_run,
    .count = count_work, .check = check, .mixing = find_mixing};
