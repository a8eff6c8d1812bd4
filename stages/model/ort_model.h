/* Shared by ONNX Runtime's two files: onnxruntime.c loads a model and runs it on the host, ort_device.c on a CUDA
 * device. */
#pragma once

#include "engine/base/file.h"
#include "stages/model/engine_cache.h"
#include "stages/model/ort_api.h"
#include "stages/model/runtime.h"

/* State for runs on a device, besides the session. Only one thread at a time may use it. */
typedef struct ort_device {
    ort_memory_info *memory; /* device memory */
    ort_run_options *options;
    ort_binding *bound;
    bool graph;
    void *fixed; /* with graph: inputs and outputs, for the first binding that ran */
} ort_device;

typedef struct ort_model {
    mr_model base;
    mr_file_bytes bytes; /* until there is a session */
    size_t room;         /* how many bytes can be appended */
    const ort_runtime *ort;
    ort_session *session; /* NULL: only the file was read */
    char *external;       /* weights file next to base.path; NULL: none */
    char *library;        /* requested runtime; NULL: any */
    const char *input_names[MR_MODEL_MAX_TENSORS];
    char *casts[MR_MODEL_MAX_TENSORS]; /* cast output names; NULL: no cast */
    int element_type[2][MR_MODEL_MAX_TENSORS]; /* inputs; outputs or their casts */
    ort_device device;
    mr_engine_cache engines; /* for TensorRT */
    bool engines_used;       /* a run has used them */
} ort_model;

/* Wraps the caller's memory as an input or output value. The caller keeps ownership. */
int mr_ort_wrap(const ort_model *model, const ort_memory_info *memory, bool output, size_t at, const mr_shape *shape,
                void *data, ort_value **value);

/* ---- ort_device.c ---------------------------------------------------------------------------------------------- */

/* Opens the folder where the session reads or writes engines: model->engines.folder, which may be "". Must be called
 * before each session on a CUDA device. */
void mr_ort_engines_open(ort_model *model, const mr_model_params *params);
/* Call if a session could not be created. True if kept engines may be the reason; they are then removed. */
bool mr_ort_engines_refused(ort_model *model);
/* Call after each run, with the status, which it returns: keeps engines built in the first run. */
int mr_ort_engines_ran(ort_model *model, int status);

/* Prepares runs on model->base.stream (a CUDA device's) once the session exists. */
int mr_ort_device_open(ort_model *model, bool graph);
/* Must be called before the session is released; accepts a device that was never opened. */
void mr_ort_device_close(ort_model *model);
/* Enqueues a run; see mr_model_runtime. MR_ERROR_DEVICE. */
int mr_ort_device_run(const mr_binding *binding, void *const *inputs, void *const *outputs);
