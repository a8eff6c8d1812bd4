/* The providers of ONNX Runtime that compute on CUDA devices: loading them, and adding them to a session.
 *
 * A provider is a library beside the runtime's own, and needs others: CUDA's, cuDNN, TensorRT. These are taken from the
 * loader's path, else from the packages that pip has installed beside the runtime, else from the toolkit's folder.
 * Threads: any. Errors: MR_ERROR_UNAVAILABLE, with the missing library, the folders that were searched, and the package
 * to install. */
#pragma once

#include "stages/model/ort_api.h"
#include "stages/model/runtime.h"

/* "cuda", as in the YAML. */
const char *mr_ort_provider_name(mr_provider provider);
/* Loads the provider's library if it is not loaded yet; MR_OK for the processors. */
int mr_ort_provider_load(const ort_runtime *runtime, mr_provider provider);
/* Adds it to a session that will work on `stream`, one of a CUDA device, after mr_ort_provider_load. `engines` is the
 * folder for TensorRT's engines; "": they are not kept. */
int mr_ort_provider_append(const ort_runtime *runtime, ort_session_options *options, const mr_model_params *params,
                           mr_provider provider, mr_stream *stream, const char *engines);
