/* Finding and opening ONNX Runtime's library. */
#include <dlfcn.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/find/installed.h"
#include "engine/base/find/library.h"
#include "engine/base/find/nvidia.h"
#include "engine/base/huge/huge_heap.h"
#include "engine/base/memory.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "stages/model/ort_api.h"

typedef void any_function(void);
typedef struct ort_api_base {
    any_function *const *(*get_api)(uint32_t version);
    const char *(*version)(void);
} ort_api_base;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ort_runtime *opened;

/* Errors that the runtime logs are also in the returned status; the log alone helps only its developers. */
static void log_line(void *context, int severity, const char *category, const char *id, const char *location,
                     const char *message) {
    mr_log(MR_LOG_DEBUG, "onnxruntime: %s", message);
}

static void *open_any(const char *path, char *used, size_t bytes) {
    const char *environment = getenv("MILLRACE_ONNXRUNTIME");
    const char *why = "";
    char flaw[512] = ""; /* of a library that is there, but cannot be opened */
    char beside[PATH_MAX], installed[PATH_MAX + 32] = "", folder[PATH_MAX];
    mr_site_find("onnxruntime/capi/libonnxruntime.so*", beside);
    if (mr_installed_libraries(folder))
        snprintf(installed, sizeof installed, "%s/libonnxruntime.so.1", folder);
    if (!path && environment && environment[0])
        path = environment;
    const char *const candidates[] = {path ? path : beside, installed, "libonnxruntime.so.1", "libonnxruntime.so"};
    /* If a library is named, no other may be tried. */
    for (size_t i = 0; i < (path ? 1 : sizeof candidates / sizeof candidates[0]); i++) {
        void *library = candidates[i][0] ? mr_library_open(candidates[i], &why) : NULL;
        snprintf(used, bytes, "%s", candidates[i]);
        if (library && flaw[0])
            mr_log(MR_LOG_WARNING, "ONNX Runtime is taken from %s: %s", used, flaw);
        if (library)
            return library;
        if (!flaw[0] && candidates[i][0] == '/' && access(candidates[i], F_OK) == 0)
            snprintf(flaw, sizeof flaw, "%s", why);
    }
    if (path || flaw[0])
        mr_fail(MR_ERROR_UNAVAILABLE, "cannot open the ONNX Runtime library: %s", path ? why : flaw);
    else
        mr_fail(MR_ERROR_UNAVAILABLE,
                "the ONNX Runtime library was not found; install the package millrace-onnxruntime, or pip install "
                "onnxruntime and name its onnxruntime/capi/libonnxruntime.so.* in MILLRACE_ONNXRUNTIME or as the "
                "stage's `runtime`");
    return NULL;
}

static int fill_api(ort_runtime *runtime, void *library) {
    const ort_api_base *(*get_base)(void);
    *(void **)&get_base = dlsym(library, "OrtGetApiBase");
    const ort_api_base *base = get_base ? get_base() : NULL;
    if (!base)
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s is not ONNX Runtime: it has no OrtGetApiBase", runtime->path);
    any_function *const *functions = base->get_api(ORT_API_VERSION);
    if (!functions)
        return mr_fail(MR_ERROR_UNAVAILABLE, "%s is ONNX Runtime %s; millrace needs 1.%d or later", runtime->path,
                       base->version(), ORT_API_VERSION);
#define X(position, result, name, parameters) runtime->api.name = (result(*) parameters)functions[position];
    ORT_FUNCTIONS(X)
#undef X
    runtime->version = base->version();
    mr_log(MR_LOG_INFO, "ONNX Runtime %s from %s", base->version(), runtime->path);
    return MR_OK;
}

int mr_ort_check(const ort_runtime *runtime, ort_status *status, const char *what) {
    if (!status)
        return MR_OK;
    int failure = mr_fail(MR_ERROR_DATA, "%s: %s", what, runtime->api.error_message(status));
    runtime->api.release_status(status);
    return failure;
}

/* ---- memory in huge pages -------------------------------------------------------------------------------------- */

static mr_huge_heap heap = MR_HUGE_HEAP;

/* Kernels read this far beyond a buffer on some processors (MLAS_SYMM_QGEMM_BUF_OVERRUN is 30 on ARM64). */
enum { OVERRUN = 64 };

/* The runtime does not check what it gets. Its own allocator throws an exception if there is no memory, which becomes a
 * status; C code is passed by exceptions. */
static void *allocate(ort_allocator *allocator, size_t bytes) {
    void *memory = bytes < SIZE_MAX / 4 ? mr_huge_alloc(&heap, bytes + OVERRUN) : NULL;
    return memory ? memory : opened->allocator->alloc(opened->allocator, SIZE_MAX / 4);
}

static void give_back(ort_allocator *allocator, void *memory) {
    mr_huge_free(&heap, memory);
}

static const ort_memory_info *info(const ort_allocator *allocator) {
    return opened->memory;
}

/* A runtime that refuses the allocator works without it. */
static void register_heap(ort_runtime *runtime) {
    static ort_allocator in_huge_pages = {
        .version = ORT_API_VERSION, .alloc = allocate, .free = give_back, .info = info};
    if (mr_huge_pages_given())
        runtime->huge = !mr_ort_check(runtime, runtime->api.register_allocator(runtime->env, &in_huge_pages),
                                      "ONNX Runtime");
    mr_log(MR_LOG_DEBUG, "onnxruntime: %s", runtime->huge ? "memory is in huge pages" : "memory is malloc's");
}

void mr_ort_trim(void) {
    mr_huge_trim(&heap);
    malloc_trim(0);
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

static int start(ort_runtime *runtime) {
    const ort_api *api = &runtime->api;
    int status = mr_ort_check(runtime, api->create_env(log_line, NULL, ORT_LOG_WARNING, "millrace", &runtime->env),
                              "ONNX Runtime does not start");
    if (!status)
        status =
            mr_ort_check(runtime, api->create_cpu_memory(ORT_DEVICE_ALLOCATOR, ORT_MEMORY_DEFAULT, &runtime->memory),
                         "ONNX Runtime");
    return status ? status : mr_ort_check(runtime, api->default_allocator(&runtime->allocator), "ONNX Runtime");
}

static int open_runtime(const char *path) {
    char used[PATH_MAX];
    /* PyPI's builds send telemetry on a separate thread and store a machine id in the user's cache folder, unless this
     * variable is set before they start. A user can set it to 0 to allow that. */
    setenv("ORT_DISABLE_TELEMETRY", "1", 0);
    void *library = open_any(path, used, sizeof used);
    if (!library)
        return MR_ERROR_UNAVAILABLE;
    ort_runtime *made = mr_calloc(1, sizeof *made);
    int status = MR_ERROR_MEMORY;
    if (made && (made->path = mr_strdup(used)) != NULL)
        status = fill_api(made, library);
    if (!status)
        status = start(made);
    if (status == MR_OK) {
        opened = made;
        register_heap(made);
        return MR_OK;
    }
    if (made)
        mr_free(made->path);
    mr_free(made);
    return status;
}

int mr_ort_open(const ort_runtime **runtime, const char *path) {
    pthread_mutex_lock(&lock);
    int status = opened ? MR_OK : open_runtime(path);
    if (!status && path && strcmp(path, opened->path) != 0)
        status = mr_fail(MR_ERROR_CONFIG, "another ONNX Runtime, %s, is already open; a process can have only one",
                         opened->path);
    if (!status)
        *runtime = opened;
    pthread_mutex_unlock(&lock);
    return status;
}
