/* Measures the classical features, for classical.py, whose peers take their turns in between.
 *
 *   bench_classical     reads "NAME TIMES" lines from standard input, answers each with {"wall_s": , "cpu_s": }
 *
 * Each time another picture of a ring is taken: small ones come from the cache, as they do behind preprocess;
 * those of 1080p from memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/classical/classical.h"
#include "kernels/preprocess/choice.h"
#include "kernels/preprocess/preprocess.h"
#include "millrace/status.h"

enum { WIDTH = 1920, HEIGHT = 1080, SIDE = 256, RING = 40, FRAME_BYTES = WIDTH * HEIGHT };

static uint8_t *ring;
static mr_hog *gray_hog, *color_hog;
static mr_preprocess *shrink;
static void *scratch;
static float *result;
static uint8_t small[64 * 128];

static const uint8_t *frame(int i) {
    return ring + (size_t)(i % RING) * FRAME_BYTES;
}

static void run_hog(int i) {
    mr_hog_run(gray_hog, mr_classical_rows_get(), frame(0) + 64 * (i % 100), result, scratch);
}

static void run_color_hog(int i) {
    mr_hog_run(color_hog, mr_classical_rows_get(), frame(0) + 64 * (i % 100), result, scratch);
}

/* From the luma of a picture in memory to the descriptor. */
static void run_frame_hog(int i) {
    const mr_picture picture = {.data = {frame(i)}, .stride = {WIDTH}};
    mr_preprocess_run(shrink, mr_preprocess_rows_get(), &picture, small, scratch);
    mr_hog_run(gray_hog, mr_classical_rows_get(), small, result, scratch);
}

static void histogram(int i, mr_color_space space) {
    const mr_histogram_params params = {.width = SIDE, .height = SIDE, .space = space, .bins = 32};
    if (mr_histogram(&params, frame(0) + 64 * (i % 100), result))
        exit(71);
}

static void run_rgb(int i) {
    histogram(i, MR_COLORS_RGB);
}

static void run_hsv(int i) {
    histogram(i, MR_COLORS_HSV);
}

static void run_phash(int i) {
    mr_phash(frame(0) + 64 * (i % 100), (uint8_t *)result);
}

static void run_sharpness(int i) {
    const mr_sharpness_item item = {.src = frame(i), .stride = WIDTH, .width = WIDTH, .height = HEIGHT, .scale = 1.0f,
                                    .dst = result};
    mr_sharpness(mr_classical_rows_get(), &item);
}

static void run_change(int i) {
    uint32_t changed;
    const mr_change_work work = {.a = frame(i), .b = frame(i + 1), .count = FRAME_BYTES, .noise = 15,
                                 .changed = &changed};
    mr_change(mr_classical_rows_get(), &work);
}

static const struct contestant {
    const char *name;
    void (*one)(int i);
} contestants[] = {{"hog", run_hog},     {"hog-color", run_color_hog}, {"hog-frame", run_frame_hog},
                   {"rgb", run_rgb},     {"hsv", run_hsv},             {"phash", run_phash},
                   {"sharpness", run_sharpness}, {"change", run_change}};
enum { CONTESTANTS = sizeof contestants / sizeof contestants[0] };

static int prepare(void) {
    mr_hog_params hog = {.width = 64, .height = 128, .channels = 1, .block_width = 16, .block_height = 16,
                         .stride_x = 8, .stride_y = 8, .cell_width = 8, .cell_height = 8, .bins = 9, .gamma = true,
                         .clip = 0.2f};
    const mr_format source = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = WIDTH,
                              .height = HEIGHT, .range = MR_RANGE_FULL};
    const mr_preprocess_params look = {.width = 64, .height = 128, .crop_fraction = 1, .interpolation = MR_AREA,
                                       .gray = true, .std = {1, 1, 1}, .dtype = MR_DTYPE_U8,
                                       .layout = MR_LAYOUT_NCHW};
    int status = mr_hog_create(&gray_hog, &hog);
    hog.channels = 3;
    if (!status)
        status = mr_hog_create(&color_hog, &hog);
    if (!status)
        status = mr_preprocess_create(&shrink, &look, &source);
    ring = malloc((size_t)RING * FRAME_BYTES);
    scratch = aligned_alloc(64, 1 << 22);
    result = malloc(1 << 20);
    if (!status && (!ring || !scratch || !result))
        status = mr_fail(MR_ERROR_MEMORY, "no memory");
    uint32_t value = 1;
    for (size_t i = 0; i < (size_t)RING * FRAME_BYTES && !status; i++) {
        value = value * 1664525u + 1013904223u;
        ring[i] = (uint8_t)(value >> 24);
    }
    return status;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(void) {
    char name[64];
    int times;
    int status = prepare();
    if (status) {
        fprintf(stderr, "bench_classical: %s\n", mr_message());
        return mr_status_exit_code(status);
    }
    while (scanf("%63s %d", name, &times) == 2)
        for (int c = 0; c < CONTESTANTS; c++) {
            if (strcmp(contestants[c].name, name) != 0)
                continue;
            double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
            for (int i = 0; i < times; i++)
                contestants[c].one(i);
            printf("{\"wall_s\": %.9f, \"cpu_s\": %.9f}\n", seconds(CLOCK_MONOTONIC) - wall,
                   seconds(CLOCK_THREAD_CPUTIME_ID) - cpu);
            fflush(stdout);
        }
    return 0;
}
