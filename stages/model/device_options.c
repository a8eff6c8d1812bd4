#include "stages/model/device_options.h"

#include <stdio.h>

const char *const mr_model_providers[] = {"auto", "cpu", "cuda", "tensorrt", NULL};

void mr_model_set_device_params(mr_model_params *params, const mr_model_device_options *options) {
    params->runtime = options->runtime;
    params->provider = (mr_provider)options->provider;
    params->memory_bytes = (uint64_t)options->memory_bytes;
    params->cuda_graph = options->cuda_graph;
    params->engine_cache = options->engine_cache;
}

int mr_model_check_device(const char *path, const mr_model_device_options *options, const char *device) {
    mr_model_params params = {.path = path};
    mr_model_set_device_params(&params, options);
    return mr_model_check(&params, device);
}

/* A stage that can block has one entry, on a separate thread. TensorRT's limit does not include weights. */
void mr_model_plan_device(mr_negotiation *negotiation, const mr_model_device_options *options) {
    bool known = options->memory_bytes && options->provider != MR_PROVIDER_TENSORRT;
    negotiation->library_bytes = known ? options->memory_bytes : MR_BYTES_UNKNOWN;
    if (options->cuda_graph)
        negotiation->blocking = true;
}

void mr_model_plan_work(mr_negotiation *negotiation, const mr_model_device_options *options) {
    if (negotiation->work.launches <= 0 || negotiation->work.unknown)
        return;
    if (options->provider == MR_PROVIDER_TENSORRT)
        negotiation->work.unknown = "layers that TensorRT fuses; they are counted as the CUDA provider runs them";
    else if (options->cuda_graph)
        negotiation->work.unknown = "launches that cuda_graph saves";
}

const char *mr_model_shapes(const mr_planned_input *inputs, size_t count, int batch, char text[MR_MODEL_SHAPES]) {
    size_t used = (size_t)snprintf(text, MR_MODEL_SHAPES, "batch %d", batch);
    for (size_t i = 0; i < count && used < MR_MODEL_SHAPES; i++) {
        char format[MR_FORMAT_TEXT];
        used += (size_t)snprintf(text + used, MR_MODEL_SHAPES - used, ", %s",
                                 mr_format_print(&inputs[i].format, format, sizeof format));
    }
    return text;
}
