/* Loads ONNX Runtime's CUDA providers and adds them to a session.
 *
 * A provider is a library next to the runtime and needs others: CUDA's, cuDNN, TensorRT. They are searched in the
 * loader's path, then in pip packages next to the runtime, then in the toolkit's folder. Any thread.
 * MR_ERROR_UNAVAILABLE names the missing library, the searched folders and the package to install. */
#pragma once

#include "stages/model/ort_api.h"
#include "stages/model/runtime.h"

/* "cuda", as in the YAML. */
const char *mr_ort_provider_name(mr_provider provider);
/* Loads the provider's library if needed; MR_OK for the processors. */
int mr_ort_provider_load(const ort_runtime *runtime, mr_provider provider);
/* Adds it to a session that will work on `stream` (a CUDA device's); mr_ort_provider_load must come first. `engines`:
 * the folder for TensorRT engines; "": not kept. */
int mr_ort_provider_append(const ort_runtime *runtime, ort_session_options *options, const mr_model_params *params,
                           mr_provider provider, mr_stream *stream, const char *engines);
