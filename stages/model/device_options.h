/* Options of stages that run a model: the file, the runtime, the provider, and the device memory limit. */
#pragma once

#include "millrace/option.h"
#include "millrace/stage.h"
#include "stages/model/runtime.h"

typedef struct mr_model_device_options {
    const char *runtime; /* the library; NULL: it is searched for */
    int provider;        /* mr_provider */
    int64_t memory_bytes;
    bool cuda_graph;
    const char *engine_cache;
} mr_model_device_options;

extern const char *const mr_model_providers[];
/* Planning: declares the provider's memory on a CUDA device, and a thread for a CUDA graph. The runtime ties a graph,
 * and the library handles recorded in it, to the recording thread. */
void mr_model_plan_device(mr_negotiation *negotiation, const mr_model_device_options *options);
/* Call after mr_call_count: notes if these options make the network faster than counted. */
void mr_model_plan_work(mr_negotiation *negotiation, const mr_model_device_options *options);
void mr_model_set_device_params(mr_model_params *params, const mr_model_device_options *options);
/* A stage type's check_device for the network at `path`. */
int mr_model_check_device(const char *path, const mr_model_device_options *options, const char *device);
/* For params->shapes: formats on the stage's inputs, and the batch. Returns `text`. */
enum { MR_MODEL_SHAPES = 1024 };
const char *mr_model_shapes(const mr_planned_input *inputs, size_t count, int batch, char text[MR_MODEL_SHAPES]);

/* Option rows for a stage type whose options are a `type` with the strings `model` and `external_data`. */
#define MR_MODEL_FILE_OPTIONS(type, file_example)                                                                    \
    {.name = "model", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .required = true,                                \
     .offset = offsetof(type, model), .example = file_example, .named = ".onnx",                                     \
     .help = "the ONNX file, or a model's name, as `millrace models` lists it"},                                     \
        {.name = "external_data", .kind = MR_OPTION_PATH, .file = MR_FILE_READ,                                      \
         .offset = offsetof(type, external_data), .example = file_example ".data",                                   \
         .help = "the file beside the model that keeps its weights, as exporters write it (model.onnx.data); no "    \
                 "other file is read for the model, whatever it names"}

/* Option rows for a stage type whose options are a `type` with such a `member`. */
#define MR_MODEL_DEVICE_OPTIONS(type, member)                                                                        \
    {.name = "runtime", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .searched = true,                              \
     .offset = offsetof(type, member.runtime), .example = "/usr/lib/libonnxruntime.so",                              \
     .help = "the ONNX Runtime library. The default is the one that MILLRACE_ONNXRUNTIME names, then that of a "     \
             "Python environment, then the one installed with millrace, then the one that the loader finds"},        \
        {.name = "provider", .neutral = true, .kind = MR_OPTION_ENUM, .offset = offsetof(type, member.provider),     \
         .fallback = "auto", .choices = mr_model_providers,                                                          \
         .help = "the part of ONNX Runtime that computes. auto: cuda on CUDA devices, else cpu. tensorrt is "        \
                 "faster if its libraries are installed, but the first start takes minutes (engine_cache), and "     \
                 "the last bits of results differ more"},                                                            \
        {.name = "provider_memory", .neutral = true, .kind = MR_OPTION_BYTES,                                        \
         .offset = offsetof(type, member.memory_bytes),                                                              \
         .min = 1, .max = 1LL << 50, .unit = "bytes",                                                                \
         .help = "the most memory of a CUDA device for the provider's weights and workspace (tensorrt: only for "    \
                 "workspace), in addition to the plan's buffers. By default the provider takes as much as it "       \
                 "needs"},                                                                                           \
        {.name = "cuda_graph", .neutral = true, .kind = MR_OPTION_BOOL, .offset = offsetof(type, member.cuda_graph), \
         .fallback = "false",                                                                                        \
         .help = "on CUDA devices: record the network's kernels once and launch them as one. This helps networks"    \
                 " with many short kernels, such as batches of one. It copies inputs and outputs within the "        \
                 "device, the first runs take longer, and the stage has one separate thread for all its devices,"    \
                 " which waits for each run. Inputs and outputs must have known sizes"},                             \
        {.name = "engine_cache", .kind = MR_OPTION_PATH, .offset = offsetof(type, member.engine_cache),              \
         .example = "/var/cache/millrace/engines",                                                                   \
         .help = "the folder in which provider: tensorrt keeps the engines that it builds, for the next start "      \
                 "with the same network, device, batch and versions of libraries. Damaged engines, and those of "    \
                 "another user, are rebuilt. The default is $XDG_CACHE_HOME/millrace/engines or "                    \
                 "~/.cache/millrace/engines; - keeps none"}
