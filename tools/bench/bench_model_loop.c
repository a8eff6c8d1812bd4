/* The bare model loop: runs one network again and again on the same input. An analysis of RUNS frames must take at
 * least this time.
 *
 *     bench_model_loop MODEL.onnx RUNS [THREADS]
 *
 * Each thread does a share of the runs on one shared session, one item per run. Settings are ONNX Runtime's fastest in
 * C: one intra-op thread, no spinning, tensors made once. Prints one JSON object. Loading is not measured. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/thread.h"
#include "millrace/status.h"
#include "stages/model/ort_api.h"
#include "stages/model/runtime.h"

enum { MAX_THREADS = 64 };

typedef struct loop {
    const ort_runtime *ort;
    ort_session *session;
    mr_binding binding;
    int64_t runs;
    pthread_t thread;
    int status;
} loop;

static int fail(const char *what) {
    fprintf(stderr, "bench_model_loop: %s: %s\n", what, mr_message());
    return 1;
}

static int make_tensor(loop *l, const mr_shape *shape, ort_value **value) {
    size_t count = mr_shape_count(shape);
    float *data = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
    if (!data)
        return mr_fail(MR_ERROR_MEMORY, "no memory");
    for (size_t i = 0; i < count; i++)
        data[i] = (float)(i * 2654435761u % 255) / 128 - 1;
    return mr_ort_check(l->ort,
                        l->ort->api.create_tensor(l->ort->memory, data, count * sizeof(float), shape->dims,
                                                  (size_t)shape->rank, ORT_FLOAT, value),
                        "tensor");
}

static void *run_loop(void *context) {
    loop *l = context;
    const mr_model *model = l->binding.model;
    ort_value *input = NULL, *output = NULL;
    l->status = make_tensor(l, &l->binding.input_shape[0], &input);
    if (!l->status)
        l->status = make_tensor(l, &l->binding.output_shape[0], &output);
    for (int64_t i = 0; i < l->runs && !l->status; i++)
        l->status =
            mr_ort_check(l->ort,
                         l->ort->api.run(l->session, NULL, &model->inputs[0].name, (const ort_value *const *)&input,
                                         1, &model->outputs[0].name, 1, &output),
                         "run");
    return NULL;
}

static int open_session(const char *path, const ort_runtime **ort, ort_session **session) {
    ort_session_options *options = NULL;
    int status = mr_ort_open(ort, NULL);
    if (status)
        return status;
    const ort_api *api = &(*ort)->api;
    ort_status *steps[] = {api->create_session_options(&options), api->set_intra_op_threads(options, 1),
                           api->set_inter_op_threads(options, 1), api->set_execution_mode(options, ORT_SEQUENTIAL),
                           api->add_config(options, "session.intra_op.allow_spinning", "0")};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (mr_ort_check(*ort, steps[i], "session"))
            status = MR_ERROR_DATA;
    return status ? status : mr_ort_check(*ort, api->create_session((*ort)->env, path, options, session), path);
}

/* One item per run; this program does not support other free dimensions. */
static int bind_one(mr_model *model, mr_binding *binding) {
    mr_shape shape = model->inputs[0].shape;
    if (shape.rank && shape.dims[0] < 0)
        shape.dims[0] = 1;
    if (model->input_count != 1 || model->inputs[0].dtype != MR_DTYPE_F32 || !mr_shape_count(&shape))
        return mr_fail(MR_ERROR_CONFIG, "only models with one f32 input of known shape can be looped");
    return mr_model_bind(model, binding, &shape, 1, (const size_t[]){0}, 1);
}

int main(int argc, char **argv) {
    long runs = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    int threads = argc > 3 ? atoi(argv[3]) : 1;
    if (argc < 3 || argc > 4 || runs < 1 || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: bench_model_loop MODEL.onnx RUNS [THREADS]\n");
        return 64;
    }
    static loop loops[MAX_THREADS];
    mr_model *model = NULL;
    const ort_runtime *ort = NULL;
    ort_session *session = NULL;
    mr_binding binding;
    if (mr_model_open(&model, &(mr_model_params){.path = argv[1], .brief = true}) || bind_one(model, &binding) ||
        open_session(argv[1], &ort, &session))
        return fail(argv[1]);
    double cpu = mr_process_cpu_s();
    int64_t start = mr_now_ns();
    for (int i = 0; i < threads; i++) {
        loops[i] = (loop){.ort = ort, .session = session, .binding = binding};
        loops[i].runs = runs / threads + (i < runs % threads);
        if (pthread_create(&loops[i].thread, NULL, run_loop, &loops[i]))
            return 1;
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(loops[i].thread, NULL);
        if (loops[i].status)
            return fail(argv[1]);
    }
    double wall = (double)(mr_now_ns() - start) / 1e9;
    printf("{\"model\": \"%s\", \"runs\": %ld, \"threads\": %d, \"wall_s\": %.4f, \"cpu_s\": %.4f}\n", model->file,
           runs, threads, wall, mr_process_cpu_s() - cpu);
    return 0;
}
