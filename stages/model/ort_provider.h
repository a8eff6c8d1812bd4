/* The providers of ONNX Runtime that compute on CUDA devices: whether they can be had, and adding them to a session.
 *
 * A provider is a library beside the runtime's own, and needs others: CUDA's, cuDNN, TensorRT. These are taken from
 * where the loader finds them, else from the packages that pip has installed beside the runtime, else from the
 * toolkit's folder. Threads: any. Errors: MR_ERROR_UNAVAILABLE, with the library that is missing, where it was looked
 * for, and what to install. */
#ifndef MILLRACE_STAGES_MODEL_ORT_PROVIDER_H
#define MILLRACE_STAGES_MODEL_ORT_PROVIDER_H

#include "stages/model/ort_api.h"
#include "stages/model/runtime.h"

/* "cuda", as in the YAML. */
const char *mr_ort_provider_name(mr_provider provider);
/* Loads the provider's library, if that was not done before; MR_OK for the processors. */
int mr_ort_provider_load(const ort_runtime *runtime, mr_provider provider);
/* Adds it to a session that will work on `stream`, one of a CUDA device, after mr_ort_provider_load. `engines` is a folder
 * for what TensorRT builds; "": it is not kept. */
int mr_ort_provider_append(const ort_runtime *runtime, ort_session_options *options, const mr_model_params *params,
                           mr_provider provider, mr_stream *stream, const char *engines);

#endif
