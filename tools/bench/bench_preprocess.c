/* Measures preprocessing of cold 1080p I420 frames to 224x224: this project's kernel, libswscale, and for scale how
 * fast one core reads the same memory. Every round visits each contestant once, over its own stretch of a ring of
 * frames that is larger than any cache.
 *
 *   bench_preprocess [--rounds N] [--frames N]   prints one JSON object: milliseconds a frame of every round
 *   bench_preprocess --serve                     reads "NAME FRAMES" lines, answers each with {"wall_s": , "cpu_s":
 * }, so
 *                                                that another program can take its turns in between */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libswscale/swscale.h>

#include "kernels/preprocess/choice.h"
#include "kernels/preprocess/preprocess.h"
#include "millrace/status.h"

enum { WIDTH = 1920, HEIGHT = 1080, SIDE = 224, FRAME_BYTES = WIDTH * HEIGHT * 3 / 2, MOST_ROUNDS = 1000 };
enum { RING_FRAMES = (512 << 20) / FRAME_BYTES + 1 };

static uint8_t *ring;
static int position;
static uint64_t checksum; /* keeps the reading loop from being left out */

typedef struct contestant {
    const char *name;
    mr_interpolation interpolation;
    bool antialias;
    int swscale_flags; /* 0: not swscale */
    int swscale_format;
    mr_isa isa; /* the widest there may be; MR_ISA_COUNT: what is chosen here, as in any run */
    void (*one)(struct contestant *self, const uint8_t *frame);
    mr_preprocess *plan;
    mr_preprocess_rows kernels;
    struct SwsContext *swscale;
    void *scratch;
    uint8_t *dst;
    double ms[MOST_ROUNDS];
} contestant;

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void planes_of(const uint8_t *frame, const uint8_t *plane[4]) {
    plane[0] = frame;
    plane[1] = frame + WIDTH * HEIGHT;
    plane[2] = plane[1] + WIDTH * HEIGHT / 4;
    plane[3] = NULL;
}

static void run_kernel(contestant *self, const uint8_t *frame) {
    mr_picture picture = {.stride = {WIDTH, WIDTH / 2, WIDTH / 2}};
    planes_of(frame, picture.data);
    mr_preprocess_run(self->plan, &self->kernels, &picture, self->dst, self->scratch);
}

static void run_swscale(contestant *self, const uint8_t *frame) {
    const uint8_t *plane[4];
    const int stride[4] = {WIDTH, WIDTH / 2, WIDTH / 2, 0};
    bool planar = self->swscale_format == AV_PIX_FMT_GBRP;
    uint8_t *const dst[4] = {self->dst, self->dst + SIDE * SIDE, self->dst + 2 * SIDE * SIDE, NULL};
    const int dst_stride[4] = {planar ? SIDE : 3 * SIDE, SIDE, SIDE, 0};
    planes_of(frame, plane);
    sws_scale(self->swscale, plane, stride, 0, HEIGHT, dst, dst_stride);
}

/* Adds up the frame: sixteen accumulators, so that additions never wait for each other. */
static void run_read(contestant *self, const uint8_t *frame) {
    const uint64_t *word = (const uint64_t *)(const void *)frame;
    uint64_t sum[16] = {0};
    (void)self;
    for (size_t i = 0; i < FRAME_BYTES / 8; i += 16)
        for (size_t k = 0; k < 16; k++)
            sum[k] += word[i + k];
    for (size_t k = 0; k < 16; k++)
        checksum += sum[k];
}

static contestant contestants[] = {
    {.name = "bilinear", .interpolation = MR_BILINEAR, .isa = MR_ISA_COUNT, .one = run_kernel},
    {.name = "bilinear-antialiased", .interpolation = MR_BILINEAR, .antialias = true, .isa = MR_ISA_COUNT,
     .one = run_kernel},
    {.name = "area", .interpolation = MR_AREA, .isa = MR_ISA_COUNT, .one = run_kernel},
    {.name = "bilinear-avx2", .interpolation = MR_BILINEAR, .isa = MR_ISA_AVX2, .one = run_kernel},
    {.name = "bilinear-antialiased-avx2", .interpolation = MR_BILINEAR, .antialias = true, .isa = MR_ISA_AVX2,
     .one = run_kernel},
    {.name = "area-avx2", .interpolation = MR_AREA, .isa = MR_ISA_AVX2, .one = run_kernel},
    {.name = "bilinear-avx512", .interpolation = MR_BILINEAR, .isa = MR_ISA_AVX512, .one = run_kernel},
    {.name = "bilinear-antialiased-avx512", .interpolation = MR_BILINEAR, .antialias = true, .isa = MR_ISA_AVX512,
     .one = run_kernel},
    {.name = "area-avx512", .interpolation = MR_AREA, .isa = MR_ISA_AVX512, .one = run_kernel},
    {.name = "swscale-bilinear", .swscale_flags = SWS_BILINEAR, .swscale_format = AV_PIX_FMT_RGB24,
     .one = run_swscale},
    {.name = "swscale-area", .swscale_flags = SWS_AREA, .swscale_format = AV_PIX_FMT_RGB24, .one = run_swscale},
    {.name = "swscale-bilinear-planar", .swscale_flags = SWS_BILINEAR, .swscale_format = AV_PIX_FMT_GBRP,
     .one = run_swscale},
    {.name = "swscale-area-planar", .swscale_flags = SWS_AREA, .swscale_format = AV_PIX_FMT_GBRP, .one = run_swscale},
    {.name = "read", .one = run_read},
};
enum { CONTESTANTS = sizeof contestants / sizeof contestants[0] };

static int prepare(contestant *c) {
    c->dst = aligned_alloc(64, 3 * SIDE * SIDE * sizeof(float));
    if (!c->dst)
        return mr_fail(MR_ERROR_MEMORY, "no memory");
    if (c->one == run_swscale) {
        c->swscale = sws_getContext(WIDTH, HEIGHT, AV_PIX_FMT_YUV420P, SIDE, SIDE,
                                    (enum AVPixelFormat)c->swscale_format, c->swscale_flags, NULL, NULL, NULL);
        return c->swscale ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "swscale refuses %s", c->name);
    }
    if (c->one != run_kernel)
        return MR_OK;
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = WIDTH,
                              .height = HEIGHT};
    const mr_preprocess_params params = {.width = SIDE, .height = SIDE, .crop_fraction = 1,
                                         .interpolation = c->interpolation, .antialias = c->antialias,
                                         .mean = {127, 127, 127}, .std = {128, 128, 128}, .dtype = MR_DTYPE_F32,
                                         .layout = MR_LAYOUT_NCHW};
    if (c->isa == MR_ISA_COUNT)
        c->kernels = *mr_preprocess_rows_get();
    else
        mr_preprocess_rows_init(&c->kernels, c->isa);
    int status = mr_preprocess_create(&c->plan, &params, &format);
    if (status < 0)
        return status;
    c->scratch = aligned_alloc(64, (mr_preprocess_scratch_bytes(c->plan) + 63) / 64 * 64);
    return c->scratch ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory");
}

/* Frames follow each other through the ring across contestants, so each finds them cold. */
static void measure(contestant *c, int frames, double *wall, double *cpu) {
    double wall_start = seconds(CLOCK_MONOTONIC), cpu_start = seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < frames; i++) {
        c->one(c, ring + (size_t)position * FRAME_BYTES);
        position = (position + 1) % RING_FRAMES;
    }
    *wall = seconds(CLOCK_MONOTONIC) - wall_start;
    *cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
}

static void serve(void) {
    char name[64];
    int frames;
    while (scanf("%63s %d", name, &frames) == 2)
        for (int i = 0; i < CONTESTANTS; i++)
            if (strcmp(contestants[i].name, name) == 0) {
                double wall, cpu;
                measure(&contestants[i], frames, &wall, &cpu);
                printf("{\"wall_s\": %.9f, \"cpu_s\": %.9f}\n", wall, cpu);
                fflush(stdout);
            }
}

static void run_rounds(int rounds, int frames) {
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < CONTESTANTS; i++) {
            double wall, cpu;
            measure(&contestants[i], frames, &wall, &cpu);
            contestants[i].ms[round] = 1e3 * wall / frames;
        }
    printf("{\"frame_bytes\": %d, \"ring_bytes\": %zu, \"ms\": {", FRAME_BYTES, (size_t)RING_FRAMES * FRAME_BYTES);
    for (int i = 0; i < CONTESTANTS; i++) {
        printf("%s\"%s\": [", i ? ", " : "", contestants[i].name);
        for (int round = 0; round < rounds; round++)
            printf("%s%.4f", round ? ", " : "", contestants[i].ms[round]);
        printf("]");
    }
    printf("}, \"checksum\": %" PRIu64 "}\n", checksum);
}

static int number_after(int count, char **words, const char *option, int otherwise, int most) {
    for (int i = 1; i + 1 < count; i++)
        if (strcmp(words[i], option) == 0) {
            int value = atoi(words[i + 1]);
            return value < 1 ? 1 : value > most ? most : value;
        }
    return otherwise;
}

int main(int count, char **words) {
    ring = aligned_alloc(4096, (size_t)RING_FRAMES * FRAME_BYTES / 4096 * 4096 + 4096);
    if (!ring)
        return 71;
    uint32_t value = 1;
    for (size_t i = 0; i < (size_t)RING_FRAMES * FRAME_BYTES; i += 4) {
        value = value * 1664525u + 1013904223u;
        memcpy(ring + i, &value, 4);
    }
    for (int i = 0; i < CONTESTANTS; i++) {
        int status = prepare(&contestants[i]);
        if (status < 0) {
            fprintf(stderr, "bench_preprocess: %s\n", mr_message());
            return mr_status_exit_code(status);
        }
    }
    if (count == 2 && strcmp(words[1], "--serve") == 0)
        serve();
    else
        run_rounds(number_after(count, words, "--rounds", 20, MOST_ROUNDS),
                   number_after(count, words, "--frames", 40, 10000));
    return 0;
}
