#include "stages/model/ort_provider.h"

#include <dlfcn.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/log.h"
#include "engine/device/cuda.h"
#include "millrace/status.h"

enum { MOST_LIBRARIES = 64, MOST_DEPTH = 8, NAME_BYTES = 128 };

/* The folders beside the loader's, relative to that of the runtime: pip puts each of NVIDIA's packages into one. */
static const struct {
    bool beside;
    const char *path;
} folders[] = {{true, "/../../nvidia/*/lib"}, {true, "/../../tensorrt_libs"}, {false, "/usr/local/cuda/lib64"}};

const char *mr_ort_provider_name(mr_provider provider) {
    static const char *const names[] = {"auto", "cpu", "cuda", "tensorrt"};
    return names[provider];
}

/* ---- libraries ------------------------------------------------------------------------------------------------- */

/* The folder that the runtime was loaded from. */
static void find_folder(const ort_runtime *runtime, char *folder) {
    Dl_info told;
    const char *path = runtime->path;
    void *function;
    memcpy(&function, &runtime->api.create_env, sizeof function);
    if (dladdr(function, &told) && told.dli_fname)
        path = told.dli_fname;
    if (!realpath(path, folder))
        snprintf(folder, PATH_MAX, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = 0;
}

/* The first file of that name, or pattern, in one of the folders; false, and an empty text, where there is none. */
static bool find_beside(const char *folder, const char *name, char *found) {
    found[0] = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0] && !found[0]; i++) {
        char where[PATH_MAX + 64], pattern[PATH_MAX + 64 + NAME_BYTES];
        snprintf(where, sizeof where, "%s%s", folders[i].beside ? folder : "", folders[i].path);
        snprintf(pattern, sizeof pattern, "%s/%s", where, name);
        glob_t matches;
        if (glob(pattern, 0, NULL, &matches) == 0 && matches.gl_pathc)
            snprintf(found, PATH_MAX, "%s", matches.gl_pathv[0]);
        globfree(&matches);
    }
    return found[0] != 0;
}

/* Whose name a failure to load begins with: "libcublas.so.13: cannot open shared object file", behind other words. */
static bool find_missing(const char *words, char *name) {
    const char *end = strstr(words, ": cannot open shared object file");
    const char *start = end;
    while (start && start > words && !strchr(" \t:", start[-1]))
        start--;
    if (!end || end == start || (size_t)(end - start) >= NAME_BYTES)
        return false;
    memcpy(name, start, (size_t)(end - start));
    name[end - start] = 0;
    return true;
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

/* "libcublas.so.13" -> a pattern of all versions. */
static void any_version(const char *name, char *pattern) {
    const char *suffix = strstr(name, ".so.");
    snprintf(pattern, NAME_BYTES, "%.*s.[0-9]*", suffix ? (int)(suffix - name + 3) : (int)strlen(name), name);
}

/* Loads a library from beside the runtime, and what it needs in its turn. It stays, as the provider does, and whoever
 * needs it finds it by its name. Where something is missing, `name` is then what. */
static bool load_beside(const char *folder, char *name, int depth) {
    char path[PATH_MAX], needed[NAME_BYTES], before[NAME_BYTES] = "";
    if (depth == MOST_DEPTH || !find_beside(folder, name, path))
        return false;
    while (!dlopen(path, RTLD_LAZY | RTLD_GLOBAL)) {
        if (!find_missing(dlerror(), needed) || strcmp(needed, before) == 0)
            return false;
        if (!load_beside(folder, needed, depth + 1)) {
            memcpy(name, needed, sizeof needed);
            return false;
        }
        memcpy(before, needed, sizeof needed);
    }
    mr_log(MR_LOG_DEBUG, "ONNX Runtime's provider takes %s", path);
    return true;
}

static int refuse_missing(const char *folder, mr_provider provider, const char *name) {
    const char *called = mr_ort_provider_name(provider);
    char other[PATH_MAX], pattern[NAME_BYTES];
    if (find_beside(folder, name, other))
        return mr_fail(MR_ERROR_UNAVAILABLE, "ONNX Runtime's provider %s needs %s, and %s cannot be loaded", called,
                       name, other);
    any_version(name, pattern);
    bool has_other = find_beside(folder, pattern, other);
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "ONNX Runtime's provider %s (libonnxruntime_providers_%s.so in %s) needs %s, which is neither on the "
                   "loader's path, nor in ../../nvidia/*/lib from there, nor in /usr/local/cuda/lib64%s%s%s; %s",
                   called, called, folder, name, has_other ? " (" : "", other,
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

/* The runtime loads a provider when its options are first set; it cannot be done for it. */
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

/* cuDNN is opened by the provider itself, when it is first needed: too late to tell. A provider that is linked with an
 * older one has loaded that by now. */
static int load_cudnn(const char *folder, mr_provider provider) {
    char name[NAME_BYTES] = "libcudnn.so.9";
    if (dlopen("libcudnn.so.8", RTLD_LAZY | RTLD_NOLOAD) || dlopen(name, RTLD_LAZY | RTLD_GLOBAL) ||
        load_beside(folder, name, 0))
        return MR_OK;
    return refuse_missing(folder, provider, name);
}

/* Each try names one more library that is missing. */
static int load_provider(const ort_runtime *runtime, const char *folder, mr_provider provider) {
    char name[NAME_BYTES], before[NAME_BYTES] = "";
    for (int tries = 0; tries < MOST_LIBRARIES; tries++) {
        if (try_to_load(runtime, provider) == MR_OK)
            return MR_OK;
        if (!find_missing(mr_message(), name))
            break;
        if (strcmp(name, before) == 0 || !load_beside(folder, name, 0))
            return refuse_missing(folder, provider, name);
        memcpy(before, name, sizeof name);
    }
    return mr_fail(MR_ERROR_UNAVAILABLE, "ONNX Runtime's provider %s cannot be loaded: %s",
                   mr_ort_provider_name(provider), mr_message());
}

int mr_ort_provider_load(const ort_runtime *runtime, mr_provider provider) {
    char folder[PATH_MAX];
    if (provider != MR_PROVIDER_CUDA && provider != MR_PROVIDER_TENSORRT)
        return MR_OK;
    find_folder(runtime, folder);
    int status = check_built_in(runtime, provider);
    if (status)
        return status;
    /* TensorRT has no other way to be told that f32 is meant. Whoever wants TF32 sets it to 1. */
    if (provider == MR_PROVIDER_TENSORRT)
        setenv("NVIDIA_TF32_OVERRIDE", "0", 0);
    status = load_provider(runtime, folder, provider);
    return status ? status : load_cudnn(folder, provider);
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

/* Both providers: which device, and no more memory than is granted. */
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
    /* An exhaustive search would choose by the clock, and so not always the same; TF32 has 10 bits of a f32's 23. */
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
                           mr_stream *stream, void *handle) {
    const ort_api *api = &runtime->api;
    ort_tensorrt_options *tensorrt = NULL;
    settings s = {0};
    set_common(&s, params, stream, "trt_max_workspace_size");
    if (params->cuda_graph)
        set(&s, "trt_cuda_graph_enable", "1");
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

/* What TensorRT cannot do of a network CUDA does: the order in which they are added is the order of preference. */
int mr_ort_provider_append(const ort_runtime *runtime, ort_session_options *options, const mr_model_params *params,
                           mr_provider provider, mr_stream *stream) {
    void *handle = NULL;
    int status = mr_cuda_enter(stream, &handle);
    if (!status && provider == MR_PROVIDER_TENSORRT)
        status = append_tensorrt(runtime, options, params, stream, handle);
    if (!status)
        status = append_cuda(runtime, options, params, stream, handle);
    return status == MR_ERROR_DATA ? mr_fail(MR_ERROR_DEVICE, "%s: %s", stream->device->name, mr_message()) : status;
}
