#include "stages/model/ort_provider.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/find/nvidia.h"
#include "engine/device/cuda/cuda.h"
#include "millrace/status.h"

enum { MOST_LIBRARIES = 64, NAME_BYTES = MR_LIBRARY_NAME };

const char *mr_ort_provider_name(mr_provider provider) {
    static const char *const names[] = {"auto", "cpu", "cuda", "tensorrt"};
    return names[provider];
}

/* ---- libraries ------------------------------------------------------------------------------------------------- */

typedef struct ort_places {
    char folder[PATH_MAX];   /* where the runtime was loaded from */
    char site[PATH_MAX + 8]; /* its Python environment's package folder */
} ort_places;

static void find_places(const ort_runtime *runtime, ort_places *at) {
    Dl_info info;
    const char *path = runtime->path;
    void *function;
    memcpy(&function, &runtime->api.create_env, sizeof function);
    if (dladdr(function, &info) && info.dli_fname)
        path = info.dli_fname;
    if (!realpath(path, at->folder))
        snprintf(at->folder, sizeof at->folder, "%s", path);
    char *slash = strrchr(at->folder, '/');
    if (slash)
        *slash = 0;
    snprintf(at->site, sizeof at->site, "%s/../..", at->folder);
}

static const char *remedy(const char *library) {
    static const struct {
        const char *prefix, *what;
    } remedies[] = {{"libcuda.so", "install the NVIDIA driver"},
                    {"libnvinfer", "pip install tensorrt"},
                    {"libnvonnxparser", "pip install tensorrt"},
                    {"libonnxruntime", "pip install onnxruntime-gpu"}};
    for (size_t i = 0; i < sizeof remedies / sizeof remedies[0]; i++)
        if (strncmp(library, remedies[i].prefix, strlen(remedies[i].prefix)) == 0)
            return remedies[i].what;
    return "pip install 'onnxruntime-gpu[cuda,cudnn]', which brings it, or name its folder in LD_LIBRARY_PATH";
}

/* Turns "libcublas.so.13" into a pattern for all versions. */
static void any_version(const char *name, char *pattern) {
    const char *suffix = strstr(name, ".so.");
    snprintf(pattern, NAME_BYTES, "%.*s.[0-9]*", suffix ? (int)(suffix - name + 3) : (int)strlen(name), name);
}

static int refuse_missing(const ort_places *at, mr_provider provider, const char *name) {
    const char *called = mr_ort_provider_name(provider);
    char other[PATH_MAX], pattern[NAME_BYTES];
    if (mr_nvidia_find(at->site, name, other))
        return mr_fail(MR_ERROR_UNAVAILABLE, "ONNX Runtime's provider %s needs %s, and %s cannot be loaded", called,
                       name, other);
    any_version(name, pattern);
    bool has_other = mr_nvidia_find(at->site, pattern, other);
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "ONNX Runtime's provider %s (libonnxruntime_providers_%s.so in %s) needs %s, which is neither on "
                   "the loader's path, nor in ../../nvidia/*/lib from there, nor in /usr/local/cuda/lib64%s%s%s; %s",
                   called, called, at->folder, name, has_other ? " (" : "", other,
                   has_other ? " is of another version)" : "", remedy(name));
}

/* ---- loading --------------------------------------------------------------------------------------------------- */

static int check_built_in(const ort_runtime *runtime, mr_provider provider) {
    const char *wanted = provider == MR_PROVIDER_CUDA ? "CUDAExecutionProvider" : "TensorrtExecutionProvider";
    char **names = NULL;
    int count = 0;
    bool found = false;
    int status = mr_ort_check(runtime, runtime->api.providers(&names, &count), "ONNX Runtime");
    if (status)
        return status;
    for (int i = 0; i < count; i++)
        found |= strcmp(names[i], wanted) == 0;
    status = mr_ort_check(runtime, runtime->api.release_providers(names, count), "ONNX Runtime");
    if (status || found)
        return status;
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "%s is a build of ONNX Runtime without the provider %s; pip install onnxruntime-gpu, and name its "
                   "onnxruntime/capi/libonnxruntime.so.* in MILLRACE_ONNXRUNTIME or as the stage's `runtime`, or "
                   "compute on the processors (device: cpu)",
                   runtime->path, mr_ort_provider_name(provider));
}

/* The runtime loads a provider itself, when the provider's options are first set. */
static int try_to_load(const ort_runtime *runtime, mr_provider provider) {
    static const char *const key = "device_id", *const value = "0";
    const ort_api *api = &runtime->api;
    ort_cuda_options *cuda = NULL;
    ort_tensorrt_options *tensorrt = NULL;
    int status;
    if (provider == MR_PROVIDER_CUDA) {
        status = mr_ort_check(runtime, api->create_cuda_options(&cuda), "ONNX Runtime");
        if (!status)
            status = mr_ort_check(runtime, api->set_cuda_options(cuda, &key, &value, 1), "ONNX Runtime");
    } else {
        status = mr_ort_check(runtime, api->create_tensorrt_options(&tensorrt), "ONNX Runtime");
        if (!status)
            status = mr_ort_check(runtime, api->set_tensorrt_options(tensorrt, &key, &value, 1), "ONNX Runtime");
    }
    if (cuda)
        api->release_cuda_options(cuda);
    if (tensorrt)
        api->release_tensorrt_options(tensorrt);
    return status;
}

/* The provider opens cuDNN when it first needs it: too late to report an error. A provider linked with an older one has
 * loaded that by now. */
static int load_cudnn(const ort_places *at, mr_provider provider) {
    char name[NAME_BYTES] = "libcudnn.so.9";
    if (dlopen("libcudnn.so.8", RTLD_LAZY | RTLD_NOLOAD) || dlopen(name, RTLD_LAZY | RTLD_GLOBAL) ||
        mr_nvidia_load(at->site, name))
        return MR_OK;
    return refuse_missing(at, provider, name);
}

/* Each try finds one more missing library. */
static int load_provider(const ort_runtime *runtime, const ort_places *at, mr_provider provider) {
    char name[NAME_BYTES], before[NAME_BYTES] = "";
    for (int tries = 0; tries < MOST_LIBRARIES; tries++) {
        if (try_to_load(runtime, provider) == MR_OK)
            return MR_OK;
        if (!mr_nvidia_missing(mr_message(), name))
            break;
        if (strcmp(name, before) == 0 || !mr_nvidia_load(at->site, name))
            return refuse_missing(at, provider, name);
        memcpy(before, name, sizeof name);
    }
    return mr_fail(MR_ERROR_UNAVAILABLE, "ONNX Runtime's provider %s cannot be loaded: %s",
                   mr_ort_provider_name(provider), mr_message());
}

int mr_ort_provider_load(const ort_runtime *runtime, mr_provider provider) {
    ort_places at;
    if (provider != MR_PROVIDER_CUDA && provider != MR_PROVIDER_TENSORRT)
        return MR_OK;
    find_places(runtime, &at);
    int status = check_built_in(runtime, provider);
    if (status)
        return status;
    /* TensorRT has no other setting for full f32. A user can set it to 1 to allow TF32. */
    if (provider == MR_PROVIDER_TENSORRT)
        setenv("NVIDIA_TF32_OVERRIDE", "0", 0);
    status = load_provider(runtime, &at, provider);
    return status ? status : load_cudnn(&at, provider);
}

/* ---- options of a session -------------------------------------------------------------------------------------- */

enum { MOST_SETTINGS = 8, VALUE_BYTES = 24 };

typedef struct settings {
    const char *key[MOST_SETTINGS], *value[MOST_SETTINGS];
    size_t count;
    char device[VALUE_BYTES], memory[VALUE_BYTES];
} settings;

static void set(settings *s, const char *key, const char *value) {
    s->key[s->count] = key;
    s->value[s->count++] = value;
}

/* Both providers: the device, and a memory limit. */
static void set_common(settings *s, const mr_model_params *params, const mr_stream *stream, const char *limit) {
    snprintf(s->device, sizeof s->device, "%d", stream->device->index);
    set(s, "device_id", s->device);
    if (!params->memory_bytes)
        return;
    snprintf(s->memory, sizeof s->memory, "%" PRIu64, params->memory_bytes);
    set(s, limit, s->memory);
}

static int append_cuda(const ort_runtime *runtime, ort_session_options *options, const mr_model_params *params,
                       mr_stream *stream, void *handle) {
    const ort_api *api = &runtime->api;
    ort_cuda_options *cuda = NULL;
    settings s = {0};
    set_common(&s, params, stream, "gpu_mem_limit");
    /* An exhaustive search chooses by timing and can differ between runs; TF32 has only 10 of f32's 23 mantissa
     * bits. */
    set(&s, "cudnn_conv_algo_search", "HEURISTIC");
    set(&s, "use_tf32", "0");
    set(&s, "do_copy_in_default_stream", "0");
    set(&s, "arena_extend_strategy", "kSameAsRequested");
    if (params->cuda_graph)
        set(&s, "enable_cuda_graph", "1");
    int status = mr_ort_check(runtime, api->create_cuda_options(&cuda), "ONNX Runtime");
    if (!status)
        status = mr_ort_check(runtime, api->set_cuda_options(cuda, s.key, s.value, s.count), "the CUDA provider");
    if (!status)
        status = mr_ort_check(runtime, api->set_cuda_pointer(cuda, "user_compute_stream", handle), "the CUDA provider");
    if (!status)
        status = mr_ort_check(runtime, api->append_cuda(options, cuda), "the CUDA provider");
    if (cuda)
        api->release_cuda_options(cuda);
    return status;
}

static int append_tensorrt(const ort_runtime *runtime, ort_session_options *options, const mr_model_params *params,
                           mr_stream *stream, void *handle, const char *engines) {
    const ort_api *api = &runtime->api;
    ort_tensorrt_options *tensorrt = NULL;
    settings s = {0};
    set_common(&s, params, stream, "trt_max_workspace_size");
    if (params->cuda_graph)
        set(&s, "trt_cuda_graph_enable", "1");
    if (engines[0]) {
        set(&s, "trt_engine_cache_enable", "1");
        set(&s, "trt_engine_cache_path", engines);
    }
    int status = mr_ort_check(runtime, api->create_tensorrt_options(&tensorrt), "ONNX Runtime");
    if (!status)
        status = mr_ort_check(runtime, api->set_tensorrt_options(tensorrt, s.key, s.value, s.count), "TensorRT");
    if (!status)
        status = mr_ort_check(runtime, api->set_tensorrt_pointer(tensorrt, "user_compute_stream", handle), "TensorRT");
    if (!status)
        status = mr_ort_check(runtime, api->append_tensorrt(options, tensorrt), "TensorRT");
    if (tensorrt)
        api->release_tensorrt_options(tensorrt);
    return status;
}

/* CUDA must run the nodes that TensorRT cannot: providers are preferred in the order they are added. */
int mr_ort_provider_append(const ort_runtime *runtime, ort_session_options *options, const mr_model_params *params,
                           mr_provider provider, mr_stream *stream, const char *engines) {
    void *handle = NULL;
    int status = mr_cuda_enter(stream, &handle);
    if (!status && provider == MR_PROVIDER_TENSORRT)
        status = append_tensorrt(runtime, options, params, stream, handle, engines);
    if (!status)
        status = append_cuda(runtime, options, params, stream, handle);
    return status == MR_ERROR_DATA ? mr_fail(MR_ERROR_DEVICE, "%s: %s", stream->device->name, mr_message()) : status;
}
