/* TensorRT's engines, which ONNX Runtime writes into a folder and reads from there (engine_cache.h). An engine of a network
 * whose shapes are fixed is built, or read, when the session is made, any other in its first run; both are known here. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/cuda/cuda.h"
#include "engine/device/device.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "stages/model/ort_model.h"

/* 100300: 10.3.0; 0 where it cannot be asked. ONNX Runtime's provider has loaded it. */
static int tensorrt_version(void) {
    static const char *const names[] = {"libnvinfer.so.11", "libnvinfer.so.10", "libnvinfer.so.8"};
    int (*ask)(void) = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !ask; i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
        if (!library)
            continue;
        *(void **)&ask = dlsym(library, "getInferLibVersion");
        dlclose(library); /* the provider holds it */
    }
    return ask ? ask() : 0;
}

void mr_ort_engines_open(ort_model *m, const mr_model_params *params) {
    const mr_cuda_facts facts = mr_cuda_about(m->base.stream->device);
    const char *tf32 = getenv("NVIDIA_TF32_OVERRIDE");
    char about[2048];
    int used = snprintf(about, sizeof about, "ONNX Runtime %s, TensorRT %d, %s %d, f32 TF32 %s, workspace %llu, graph %d, %s",
                        m->ort->version, tensorrt_version(), facts.model, facts.capability, tf32 ? tf32 : "",
                        (unsigned long long)params->memory_bytes, params->cuda_graph,
                        params->shapes ? params->shapes : "");
    const mr_engine_part parts[] = {{about, (size_t)used < sizeof about ? (size_t)used : sizeof about - 1},
                                    {m->bytes.data, m->bytes.bytes}};
    mr_engine_cache_close(&m->engines);
    mr_engine_cache_open(&m->engines, params->engine_cache, parts, sizeof parts / sizeof parts[0]);
    mr_log(MR_LOG_DEBUG, "engines of %s are for: %s", m->base.file, about);
}

bool mr_ort_engines_refused(ort_model *m) {
    if (!m->engines.kept || m->engines_used)
        return false;
    mr_log(MR_LOG_WARNING, "TensorRT does not take the engines in %s, so they are built anew: %s", m->engines.folder,
           mr_message());
    mr_engine_cache_discard(&m->engines);
    return true;
}

int mr_ort_engines_ran(ort_model *m, int status) {
    if (m->engines_used || !m->engines.folder[0])
        return status;
    if (status && mr_ort_engines_refused(m))
        return mr_fail(status, "%s; its engines have been removed, and are built anew at the next start", mr_message());
    if (!status) {
        mr_engine_cache_keep(&m->engines);
        m->engines_used = true;
    }
    return status;
}
