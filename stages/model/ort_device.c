/* Runs ONNX Runtime on a CUDA device. The session uses the model's stream, inputs and outputs are bound in place, and a
 * run returns once everything is enqueued.
 *
 * A CUDA graph contains the buffer addresses it was recorded with. Inputs and outputs are therefore copied to and from
 * a block that stays, at the cost of one copy within device memory for each.
 *
 * ONNX Runtime writes TensorRT engines to a folder and reads them back (engine_cache.h). If a network's shapes are
 * fixed, the engine is built or read with the session, else in the first run. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/device/cuda/cuda.h"
#include "engine/device/device.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "stages/model/ort_model.h"
#include "stages/model/ort_signature.h"

/* ---- engines of TensorRT -------------------------------------------------------------------------------------- */

/* 100300 means 10.3.0; 0 if unknown. ONNX Runtime's provider has loaded it. */
static int tensorrt_version(void) {
    static const char *const names[] = {"libnvinfer.so.11", "libnvinfer.so.10", "libnvinfer.so.8"};
    int (*ask)(void) = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !ask; i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (!library)
            continue;
        *(void **)&ask = dlsym(library, "getInferLibVersion");
        dlclose(library); /* the provider holds it */
    }
    return ask ? ask() : 0;
}

void mr_ort_engines_open(ort_model *m, const mr_model_params *params) {
    const mr_cuda_facts facts = mr_cuda_about(m->base.stream->device);
    const char *tf32 = getenv("NVIDIA_TF32_OVERRIDE");
    char about[2048];
    int used = snprintf(about, sizeof about,
                        "ONNX Runtime %s, TensorRT %d, %s %d, f32 TF32 %s, workspace %llu, graph %d, %s",
                        m->ort->version, tensorrt_version(), facts.model, facts.capability, tf32 ? tf32 : "",
                        (unsigned long long)params->memory_bytes, params->cuda_graph,
                        params->shapes ? params->shapes : "");
    const mr_engine_part parts[] = {{about, (size_t)used < sizeof about ? (size_t)used : sizeof about - 1},
                                    {m->bytes.data, m->bytes.bytes}};
    mr_engine_cache_close(&m->engines);
    mr_engine_cache_open(&m->engines, params->engine_cache, parts, sizeof parts / sizeof parts[0]);
    mr_log(MR_LOG_DEBUG, "engines of %s are for: %s", m->base.file, about);
}

bool mr_ort_engines_refused(ort_model *m) {
    if (!m->engines.kept || m->engines_used)
        return false;
    mr_log(MR_LOG_WARNING, "TensorRT does not accept the engines in %s, so they are rebuilt: %s", m->engines.folder,
           mr_message());
    mr_engine_cache_discard(&m->engines);
    return true;
}

int mr_ort_engines_ran(ort_model *m, int status) {
    if (m->engines_used || !m->engines.folder[0])
        return status;
    if (status && mr_ort_engines_refused(m))
        return mr_fail(status, "%s; its engines have been removed, and are rebuilt at the next start", mr_message());
    if (!status) {
        mr_engine_cache_keep(&m->engines);
        m->engines_used = true;
    }
    return status;
}

/* ---- runs ------------------------------------------------------------------------------------------------------ */

static const size_t ALIGNMENT = 256; /* cudaMalloc's alignment */

static int check(const ort_model *m, ort_status *answer) {
    int status = mr_ort_check(m->ort, answer, m->base.file);
    return status ? mr_fail(MR_ERROR_DEVICE, "%s: %s", m->base.stream->device->name, mr_message()) : MR_OK;
}

int mr_ort_device_open(ort_model *m, bool graph) {
    const ort_api *api = &m->ort->api;
    ort_device *d = &m->device;
    d->graph = graph;
    int status = check(m, api->create_memory("Cuda", ORT_DEVICE_ALLOCATOR, m->base.stream->device->index,
                                             ORT_MEMORY_DEFAULT, &d->memory));
    if (!status)
        status = check(m, api->create_run_options(&d->options));
    /* Consumers wait for the stream's event, so the runtime need not wait. */
    if (!status)
        status = check(m, api->add_run_config(d->options, "disable_synchronize_execution_providers", "1"));
    return status ? status : check(m, api->create_binding(m->session, &d->bound));
}

void mr_ort_device_close(ort_model *m) {
    ort_device *d = &m->device;
    if (d->bound)
        m->ort->api.release_binding(d->bound);
    if (d->options)
        m->ort->api.release_run_options(d->options);
    if (d->memory)
        m->ort->api.release_memory(d->memory);
    if (d->fixed)
        mr_device_free(m->base.stream->device, MR_MEMORY_DEVICE, d->fixed);
    *d = (ort_device){0};
}

/* ---- one run --------------------------------------------------------------------------------------------------- */

static int bind(ort_model *m, bool output, size_t at, const mr_shape *shape, void *data) {
    const ort_api *api = &m->ort->api;
    const char *name = output ? mr_ort_output_name(m, at) : m->base.inputs[at].name;
    ort_value *value = NULL;
    int status = mr_ort_wrap(m, m->device.memory, output, at, shape, data, &value);
    if (!status)
        status = check(m, (output ? api->bind_output : api->bind_input)(m->device.bound, name, value));
    /* The binding holds a reference. */
    if (value)
        api->release_value(value);
    return status;
}

static int run_at(const mr_binding *binding, void *const *inputs, void *const *outputs) {
    ort_model *m = (ort_model *)binding->model;
    const ort_api *api = &m->ort->api;
    void *handle;
    int status = mr_cuda_enter(m->base.stream, &handle);
    api->clear_inputs(m->device.bound);
    api->clear_outputs(m->device.bound);
    for (size_t i = 0; i < m->base.input_count && !status; i++)
        status = bind(m, false, i, &binding->input_shape[i], inputs[i]);
    for (size_t i = 0; i < binding->output_count && !status; i++)
        status = bind(m, true, binding->output[i], &binding->output_shape[i], outputs[i]);
    return status ? status : check(m, api->run_bound(m->session, m->device.options, m->device.bound));
}

/* ---- through a graph ------------------------------------------------------------------------------------------- */

static size_t input_bytes(const mr_binding *binding, size_t i) {
    return mr_shape_count(&binding->input_shape[i]) * mr_dtype_bytes(binding->model->inputs[i].dtype);
}

static size_t output_bytes(const mr_binding *binding, size_t i) {
    return mr_shape_count(&binding->output_shape[i]) *
           mr_dtype_bytes(binding->model->outputs[binding->output[i]].dtype);
}

/* Sets input and output offsets in the fixed block; returns the total size. */
static size_t lay_out(const mr_binding *binding, char *block, void **inputs, void **outputs) {
    size_t at = 0;
    for (size_t i = 0; i < binding->model->input_count; i++) {
        inputs[i] = block ? block + at : NULL;
        at += (input_bytes(binding, i) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    for (size_t i = 0; i < binding->output_count; i++) {
        outputs[i] = block ? block + at : NULL;
        at += (output_bytes(binding, i) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return at;
}

static int run_graph(const mr_binding *binding, void *const *inputs, void *const *outputs) {
    ort_model *m = (ort_model *)binding->model;
    mr_stream *stream = m->base.stream;
    void *in[MR_MODEL_MAX_TENSORS], *out[MR_MODEL_MAX_TENSORS];
    size_t bytes = lay_out(binding, NULL, in, out);
    int status = m->device.fixed
                     ? MR_OK
                     : mr_device_allocate(stream->device, MR_MEMORY_DEVICE, bytes, &m->device.fixed);
    lay_out(binding, m->device.fixed, in, out);
    for (size_t i = 0; i < m->base.input_count && !status; i++)
        status = mr_stream_copy(stream, in[i], inputs[i], input_bytes(binding, i));
    if (!status)
        status = run_at(binding, in, out);
    for (size_t i = 0; i < binding->output_count && !status; i++)
        status = mr_stream_copy(stream, outputs[i], out[i], output_bytes(binding, i));
    return status;
}

int mr_ort_device_run(const mr_binding *binding, void *const *inputs, void *const *outputs) {
    ort_model *m = (ort_model *)binding->model;
    return mr_ort_engines_ran(m, (m->device.graph ? run_graph : run_at)(binding, inputs, outputs));
}
