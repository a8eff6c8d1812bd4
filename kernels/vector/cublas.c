#include "kernels/vector/cublas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/base/find/nvidia.h"
#include "millrace/log.h"
#include "millrace/status.h"

/* Values from cublas_api.h. */
enum { SUCCESS = 0, NO_TRANSPOSE = 0, TRANSPOSE = 1, PEDANTIC_MATH = 2 };
enum { MOST_DEVICES = 64 };

typedef void *handle;

static struct {
    int (*create)(handle *);
    int (*set_stream)(handle, void *stream);
    int (*set_workspace)(handle, void *workspace, size_t bytes);
    int (*set_math_mode)(handle, int mode);
    int (*sgemm)(handle, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha, const float *a,
                 int a_stride, const float *b, int b_stride, const float *beta, float *c, int c_stride);
} cublas;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the handles: a handle can have only one stream at a
                                                            time */
static handle handles[MOST_DEVICES];

static bool take_functions(void *library) {
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"cublasCreate_v2", &cublas.create},
        {"cublasSetStream_v2", &cublas.set_stream},
        {"cublasSetWorkspace_v2", &cublas.set_workspace},
        {"cublasSetMathMode", &cublas.set_math_mode},
        {"cublasSgemm_v2", &cublas.sgemm},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        if (!(*(void **)wanted[i].function = dlsym(library, wanted[i].name)))
            return false;
    return true;
}

/* The library must stay open: handles cannot be destroyed if the process ends with a failed device. */
static bool take(void *library) {
    Dl_info about;
    if (!library)
        return false;
    found = take_functions(library);
    if (!found)
        dlclose(library);
    else if (dladdr(*(void **)&cublas.sgemm, &about) && about.dli_fname)
        mr_log(MR_LOG_INFO, "cuBLAS from %s", about.dli_fname);
    return found;
}

static bool take_named(const char *version) {
    char name[MR_LIBRARY_NAME];
    snprintf(name, sizeof name, "%s", version);
    return take(dlopen(name, RTLD_NOW | RTLD_LOCAL)) || take(mr_nvidia_load(NULL, name));
}

static void look(void) {
    const char *given = getenv("MILLRACE_CUBLAS");
    if (given && *given)
        take(dlopen(given, RTLD_NOW | RTLD_LOCAL));
    else if (!take_named("libcublas.so.13"))
        take_named("libcublas.so.12");
    if (!found)
        mr_log(MR_LOG_WARNING,
               "cuBLAS was not found (%s), so matrices are multiplied by a plain kernel; pip install nvidia-cublas, or "
               "put its path into MILLRACE_CUBLAS",
               given && *given ? given : "libcublas.so.13, .12");
}

bool mr_cublas_found(void) {
    pthread_once(&once, look);
    return found;
}

/* Called with the lock. */
static int handle_of(int device, handle *its) {
    if (device < 0 || device >= MOST_DEVICES)
        return mr_fail(MR_ERROR_DEVICE, "cuda:%d: cuBLAS is used on devices 0 to %d", device, MOST_DEVICES - 1);
    int error = SUCCESS;
    if (!handles[device]) {
        error = cublas.create(&handles[device]);
        if (error == SUCCESS)
            error = cublas.set_math_mode(handles[device], PEDANTIC_MATH);
    }
    if (error != SUCCESS)
        return mr_fail(MR_ERROR_DEVICE, "cuda:%d: cuBLAS cannot be used: its error %d", device, error);
    *its = handles[device];
    return MR_OK;
}

/* Takes the lock and the device's handle, which then uses the stream. */
static int begin(int device, void *workspace, size_t workspace_bytes, void *stream, handle *its) {
    pthread_mutex_lock(&lock);
    int status = handle_of(device, its);
    int error = status ? SUCCESS : cublas.set_stream(*its, stream);
    if (!status && error == SUCCESS)
        error = cublas.set_workspace(*its, workspace, workspace_bytes);
    if (!status && error != SUCCESS)
        status = mr_fail(MR_ERROR_DEVICE, "cuda:%d: cuBLAS cannot use its stream: its error %d", device, error);
    return status;
}

static int end(int device, int status, int error, int outputs, int inputs, int batch) {
    pthread_mutex_unlock(&lock);
    if (!status && error != SUCCESS)
        status = mr_fail(MR_ERROR_DEVICE, "cuda:%d: cuBLAS cannot multiply %d x %d by %d: its error %d", device,
                         outputs, inputs, batch, error);
    return status;
}

/* cuBLAS has columns for our rows: dst transposed = weights times src transposed, each read as columns. */
int mr_cublas_linear(const mr_linear_work *work, float keep, int device, void *workspace, size_t workspace_bytes,
                     void *stream) {
    const float one = 1.0f;
    handle its = NULL;
    int error = SUCCESS, status = begin(device, workspace, workspace_bytes, stream, &its);
    if (!status)
        error = cublas.sgemm(its, TRANSPOSE, NO_TRANSPOSE, work->outputs, work->batch, work->inputs, &one,
                             work->weights, (int)work->weight_stride, work->src, (int)work->src_stride, &keep,
                             work->dst, (int)work->dst_stride);
    return end(device, status, error, work->outputs, work->inputs, work->batch);
}
