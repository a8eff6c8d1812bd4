/* A program that embeds millrace. It pushes pictures that have one colour each. A pipeline shrinks them and turns them
 * into numbers between 0 and 1. A callback receives each result.
 *
 *     cc embed.c $(pkg-config --cflags --libs millrace) -o embed && ./embed embed.yaml */
#include <millrace/millrace.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 64, HEIGHT = 48, PICTURES = 10 };

typedef struct answers {
    int count;
    int wrong;
} answers;

/* Runs on a pipeline thread, for one frame at a time. All pixels in picture number n are n * 25. */
static void on_answer(void *context, const char *source, const mr_frame *frame) {
    answers *got = context;
    const float *values = (const float *)(const void *)frame->plane[0].data;
    size_t count = mr_tensor_count(&frame->format);
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i];
    double mean = sum / (double)count, expected = (double)frame->identity.seq * 25 / 255;
    printf("%s %llu: %zu numbers, mean %.4f\n", source, (unsigned long long)frame->identity.seq, count, mean);
    got->wrong += mean < expected - 1e-5 || mean > expected + 1e-5;
    got->count++;
}

/* Without a release function, the memory is copied and can be reused at once. */
static int push_pictures(mr_pipeline *pipeline) {
    static unsigned char pixels[HEIGHT][WIDTH][3];
    mr_push push = {
        .format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_RGB24, .width = WIDTH, .height = HEIGHT},
        .data = {pixels},
        .stride = {sizeof pixels[0]},
    };
    for (int n = 0; n < PICTURES; n++) {
        memset(pixels, n * 25, sizeof pixels);
        push.pts_ns = (int64_t)n * 40000000;
        int status = mr_pipeline_push(pipeline, "camera", &push, -1);
        if (status)
            return status;
    }
    return mr_pipeline_end(pipeline, "camera");
}

static int run(mr_pipeline *pipeline) {
    answers got = {0};
    int status = mr_pipeline_subscribe(pipeline, "answers", on_answer, &got);
    if (!status)
        status = mr_pipeline_start(pipeline);
    if (!status)
        status = push_pictures(pipeline);
    if (!status)
        status = mr_pipeline_wait(pipeline, -1);
    if (status)
        fprintf(stderr, "embed: %s\n", mr_message());
    else
        printf("%d answers, %d wrong\n", got.count, got.wrong);
    return status || got.wrong || got.count != PICTURES;
}

int main(int argc, char **argv) {
    mr_pipeline *pipeline;
    mr_diagnostics wrong = {0};
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = argc > 1 ? argv[1] : "embed.yaml"};
    int failed = mr_pipeline_open(&pipeline, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    if (!failed)
        failed = run(pipeline);
    mr_pipeline_destroy(&pipeline);
    return failed ? 1 : 0;
}
