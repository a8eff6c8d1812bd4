/* The bare libraries: runs one network again and again on the same input, and decodes a video. An analysis of RUNS
 * frames must take at least this time.
 *
 *     bench_model_loop MODEL.onnx RUNS [THREADS]
 *     bench_model_loop MODEL.onnx RUNS --video FILE
 *
 * Each thread does a share of the runs on one shared session, one item per run. Settings are ONNX Runtime's fastest in
 * C: one intra-op thread, no spinning, tensors made once. With a video, one thread decodes the next picture before each
 * run, with one of libavcodec's threads; "-" for the model only decodes. Prints one JSON object. Loading and a first
 * run of the network are not measured. */
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
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

typedef struct video {
    AVFormatContext *file;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *picture;
    int stream;
} video;

typedef struct loop {
    const ort_runtime *ort;
    ort_session *session; /* NULL: only decodes */
    const mr_binding *binding;
    ort_value *input, *output;
    video *video; /* NULL: only runs */
    int64_t runs;
    pthread_t thread;
    int status;
} loop;

typedef struct loop_time {
    double wall_s, cpu_s;
} loop_time;

static int fail(const char *what) {
    fprintf(stderr, "bench_model_loop: %s: %s\n", what, mr_message());
    return 1;
}

/* ---- the video --------------------------------------------------------------------------------------------------- */

static int open_video(video *v, const char *path) {
    const AVCodec *codec = NULL;
    if (avformat_open_input(&v->file, path, NULL, NULL) || avformat_find_stream_info(v->file, NULL) < 0)
        return mr_fail(MR_ERROR_DATA, "cannot be read");
    v->stream = av_find_best_stream(v->file, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (v->stream < 0 || !(v->decoder = avcodec_alloc_context3(codec)) || !(v->packet = av_packet_alloc()) ||
        !(v->picture = av_frame_alloc()) ||
        avcodec_parameters_to_context(v->decoder, v->file->streams[v->stream]->codecpar) < 0)
        return mr_fail(MR_ERROR_DATA, "has no video that can be decoded");
    v->decoder->thread_count = 1;
    return avcodec_open2(v->decoder, codec, NULL) ? mr_fail(MR_ERROR_DATA, "cannot be decoded") : MR_OK;
}

/* Decodes the next picture, which stays until the next call. */
static int next_picture(video *v) {
    int status;
    while ((status = avcodec_receive_frame(v->decoder, v->picture)) == AVERROR(EAGAIN)) {
        const bool ends = av_read_frame(v->file, v->packet) < 0;
        if (ends || v->packet->stream_index == v->stream)
            avcodec_send_packet(v->decoder, ends ? NULL : v->packet);
        av_packet_unref(v->packet);
    }
    return status ? mr_fail(MR_ERROR_DATA, "the video has too few frames") : MR_OK;
}

/* ---- the network ------------------------------------------------------------------------------------------------- */

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

static int make_tensors(loop *l) {
    int status = make_tensor(l, &l->binding->input_shape[0], &l->input);
    return status ? status : make_tensor(l, &l->binding->output_shape[0], &l->output);
}

static int run(loop *l) {
    const mr_model *model = l->binding->model;
    return mr_ort_check(l->ort,
                        l->ort->api.run(l->session, NULL, &model->inputs[0].name, (const ort_value *const *)&l->input,
                                        1, &model->outputs[0].name, 1, &l->output),
                        "run");
}

/* ---- the loop ---------------------------------------------------------------------------------------------------- */

static int one_frame(loop *l) {
    int status = l->video ? next_picture(l->video) : MR_OK;
    return status || !l->session ? status : run(l);
}

static void *run_loop(void *context) {
    loop *l = context;
    for (int64_t i = 0; i < l->runs && !l->status; i++)
        l->status = one_frame(l);
    if (l->status)
        fail(l->video ? "a frame" : "a run"); /* messages belong to threads */
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

static int open_network(loop *l, mr_model **model, mr_binding *binding, const char *path) {
    l->binding = binding;
    int status = mr_model_open(model, &(mr_model_params){.path = path, .brief = true});
    if (!status)
        status = bind_one(*model, binding);
    return status ? status : open_session(path, &l->ort, &l->session);
}

/* Measures all loops. */
static int measure(loop *loops, int threads, loop_time *taken) {
    const double cpu = mr_process_cpu_s();
    const int64_t start = mr_now_ns();
    int status = MR_OK;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&loops[i].thread, NULL, run_loop, &loops[i]))
            return MR_ERROR_MEMORY;
    for (int i = 0; i < threads; i++) {
        pthread_join(loops[i].thread, NULL);
        status = status ? status : loops[i].status;
    }
    *taken = (loop_time){(double)(mr_now_ns() - start) / 1e9, mr_process_cpu_s() - cpu};
    return status;
}

int main(int argc, char **argv) {
    const long runs = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    const char *path = argc == 5 && strcmp(argv[3], "--video") == 0 ? argv[4] : NULL;
    const int threads = argc == 4 ? atoi(argv[3]) : 1;
    if (argc < 3 || (argc > 4 && !path) || runs < 1 || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "usage: bench_model_loop MODEL.onnx RUNS [THREADS | --video FILE]\n");
        return 64;
    }
    static loop loops[MAX_THREADS];
    static video frames;
    loop common = {.video = path ? &frames : NULL};
    mr_model *model = NULL;
    mr_binding binding;
    loop_time taken;
    const bool decodes = path && strcmp(argv[1], "-") == 0;
    if (!decodes && open_network(&common, &model, &binding, argv[1]))
        return fail(argv[1]);
    if (path && open_video(&frames, path))
        return fail(path);
    for (int i = 0; i < threads; i++) {
        loops[i] = common;
        loops[i].runs = runs / threads + (i < runs % threads);
        if (!decodes && make_tensors(&loops[i]))
            return fail(argv[1]);
    }
    if (!decodes && run(&loops[0]))
        return fail(argv[1]);
    if (measure(loops, threads, &taken))
        return 1;
    printf("{\"model\": \"%s\", \"runs\": %ld, \"threads\": %d, \"wall\": %.4f, \"cpu\": %.4f}\n",
           model ? model->file : "", runs, threads, taken.wall_s, taken.cpu_s);
    return 0;
}
