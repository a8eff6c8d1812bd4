/* Classical features on a CUDA device. They must equal the C reference bit for bit, on random pictures of odd sizes.
 * Results go to guarded, poisoned device memory, one piece of work at a time. Skipped if there is no device.
 * MILLRACE_SEED repeats a run. */
#include <stdlib.h>
#include <string.h>

#include "kernels/classical/classical_cuda.h"
#include "millrace/status.h"
#include "tests/kernels/classical/hog_layout.h"
#include "tests/support/seeded.h"
#include "tests/support/suite.h"

#ifdef MILLRACE_HAS_CUDA
#include <cuda_runtime_api.h>

#ifdef MILLRACE_CUDA_HOST /* a CUDA device that the host plays is slow */
#define MILLRACE_CASES 6
#else
#define MILLRACE_CASES 60
#endif

enum { GUARD = 0xa5, GUARD_BYTES = 256, CASES = MILLRACE_CASES };

static cudaStream_t stream;

/* The same bytes on the host and on the device. */
typedef struct twin {
    uint8_t *host, *device;
    size_t bytes;
} twin;

static twin make_twin(size_t bytes) {
    twin t = {malloc(bytes), NULL, bytes};
    assert_int_equal(cudaMalloc((void **)&t.device, bytes), cudaSuccess);
    return t;
}

static void upload(const twin *t) {
    assert_int_equal(cudaMemcpy(t->device, t->host, t->bytes, cudaMemcpyHostToDevice), cudaSuccess);
}

static twin draw_pictures(size_t bytes) {
    twin t = make_twin(bytes);
    int kind = between(0, 2), step = between(1, 9);
    for (size_t i = 0; i < bytes; i++)
        t.host[i] = (uint8_t)(kind == 0 ? draw() : kind == 1 ? i * (size_t)step / 4 : draw() % 2 * 255);
    upload(&t);
    return t;
}

/* Allocates memory for results: poisoned, with guards around it. */
static twin make_results(size_t bytes) {
    twin t = make_twin(bytes + 2 * GUARD_BYTES);
    memset(t.host, GUARD, t.bytes);
    upload(&t);
    return t;
}

static void free_twin(twin *t) {
    free(t->host);
    cudaFree(t->device);
}

/* Checks that the device wrote the same bytes as the host, guards included. */
static void compare(const twin *results, const char *what) {
    FREED uint8_t *got = malloc(results->bytes);
    assert_int_equal(cudaStreamSynchronize(stream), cudaSuccess);
    assert_int_equal(cudaMemcpy(got, results->device, results->bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    for (size_t i = 0; i < results->bytes; i++)
        if (got[i] != results->host[i])
            fail_msg("%s: byte %zu of %zu differs, seed %llu", what, i, results->bytes, (unsigned long long)seed);
}

static void check_histogram(void) {
    mr_histogram_work work = {.params = {.width = between(1, 200), .height = between(1, 120),
                                         .space = (mr_color_space)between(0, 1), .joint = draw() % 2},
                              .count = between(1, MR_PIECE)};
    work.params.bins = between(1, work.params.joint ? MR_HISTOGRAM_MOST_JOINT_BINS : MR_HISTOGRAM_MOST_BINS);
    size_t picture = 3 * (size_t)work.params.width * (size_t)work.params.height;
    size_t bytes = (size_t)mr_histogram_length(&work.params) * sizeof(float), count = (size_t)work.count;
    ENDED_BY(free_twin) twin src = draw_pictures(picture * count), dst = make_results(bytes * count);
    ENDED_BY(free_twin) twin scratch = make_results(mr_histogram_cuda_scratch_bytes(&work));
    for (size_t i = 0; i < count; i++) {
        work.src[i] = src.device + i * picture;
        work.dst[i] = (float *)(void *)(dst.device + GUARD_BYTES + i * bytes);
        assert_int_equal(mr_histogram(&work.params, src.host + i * picture,
                                      (float *)(void *)(dst.host + GUARD_BYTES + i * bytes)),
                         MR_OK);
    }
    assert_int_equal(mr_histogram_cuda(&work, scratch.device + GUARD_BYTES, stream), MR_OK);
    compare(&dst, "histogram");
}

static void check_hog(const mr_hog_params *p) {
    ENDED_BY(mr_hog_destroy) mr_hog *hog = NULL;
    assert_int_equal(mr_hog_create(&hog, p), MR_OK);
    mr_hog_work work = {.hog = hog, .count = between(1, MR_PIECE)};
    size_t picture = (size_t)p->channels * (size_t)p->width * (size_t)p->height, count = (size_t)work.count;
    size_t bytes = (size_t)mr_hog_length(mr_hog_layout_of(hog)) * sizeof(float);
    ENDED_BY(free_twin) twin src = draw_pictures(picture * count), dst = make_results(bytes * count);
    FREED void *scratch = aligned_alloc(64, (mr_hog_scratch_bytes(hog) + 63) / 64 * 64);
    mr_classical_rows reference;
    mr_classical_rows_init(&reference, MR_ISA_C);
    for (size_t i = 0; i < count; i++) {
        work.src[i] = src.device + i * picture;
        work.dst[i] = (float *)(void *)(dst.device + GUARD_BYTES + i * bytes);
        mr_hog_run(hog, &reference, src.host + i * picture,
                   (float *)(void *)(dst.host + GUARD_BYTES + i * bytes), scratch);
    }
    assert_int_equal(mr_hog_cuda(mr_hog_layout_of(hog), &work, stream), MR_OK);
    compare(&dst, "hog");
}

static void check_phash(void) {
    mr_phash_work work = {.count = between(1, MR_PIECE), .bits = draw() % 2};
    size_t bytes = work.bits ? 64 * sizeof(float) : MR_HASH_BYTES, count = (size_t)work.count;
    ENDED_BY(free_twin) twin src = draw_pictures(1024 * count), dst = make_results(bytes * count);
    for (size_t i = 0; i < count; i++) {
        uint8_t hash[MR_HASH_BYTES], *to = dst.host + GUARD_BYTES + i * bytes;
        work.src[i] = src.device + 1024 * i;
        work.dst[i] = dst.device + GUARD_BYTES + i * bytes;
        mr_phash(src.host + 1024 * i, hash);
        for (size_t k = 0; k < 64 && work.bits; k++)
            ((float *)(void *)to)[k] = (float)(hash[k / 8] >> (7 - k % 8) & 1);
        if (!work.bits)
            memcpy(to, hash, sizeof hash);
    }
    assert_int_equal(mr_phash_cuda(&work, stream), MR_OK);
    compare(&dst, "phash");
}

static void check_sharpness(void) {
    enum { MOST = 300 };
    mr_sharpness_work work = {.count = between(1, MR_PIECE)};
    size_t count = (size_t)work.count;
    ENDED_BY(free_twin) twin src = draw_pictures(MOST * MOST * count), dst = make_results(sizeof(float) * count);
    ENDED_BY(free_twin) twin scratch = make_results(mr_sharpness_cuda_scratch_bytes(&work));
    mr_classical_rows reference;
    mr_classical_rows_init(&reference, MR_ISA_C);
    for (size_t i = 0; i < count; i++) {
        mr_sharpness_item item = {.src = src.host + i * MOST * MOST, .stride = MOST, .width = between(1, MOST),
                                  .height = between(1, MOST), .scale = draw() % 2 ? 1.0f : 255.0f / 219.0f,
                                  .dst = (float *)(void *)(dst.host + GUARD_BYTES) + i};
        mr_sharpness(&reference, &item);
        item.src = src.device + i * MOST * MOST;
        item.dst = (float *)(void *)(dst.device + GUARD_BYTES) + i;
        work.item[i] = item;
    }
    assert_int_equal(mr_sharpness_cuda(&work, scratch.device + GUARD_BYTES, stream), MR_OK);
    compare(&dst, "sharpness");
}

static void check_change(void) {
    mr_change_work work = {.count = (size_t)between(1, 100000), .noise = between(0, 254)};
    ENDED_BY(free_twin) twin src = draw_pictures(2 * work.count), dst = make_results(sizeof(uint32_t));
    mr_change_work host = work;
    mr_classical_rows reference;
    mr_classical_rows_init(&reference, MR_ISA_C);
    host.a = src.host;
    host.b = src.host + work.count;
    host.changed = (uint32_t *)(void *)(dst.host + GUARD_BYTES);
    mr_change(&reference, &host);
    work.a = src.device;
    work.b = src.device + work.count;
    work.changed = (uint32_t *)(void *)(dst.device + GUARD_BYTES);
    assert_int_equal(mr_change_cuda(&work, stream), MR_OK);
    compare(&dst, "change");
}

TEST(the_device_computes_the_same) {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        print_message("skipped: no CUDA device\n");
        skip();
    }
    const mr_hog_params people = {.width = 64, .height = 128, .channels = 1, .block_width = 16, .block_height = 16,
                                  .stride_x = 8, .stride_y = 8, .cell_width = 8, .cell_height = 8, .bins = 9,
                                  .gamma = true, .clip = 0.2f};
    const mr_hog_params largest = {.width = 72, .height = 64, .channels = 3, .block_width = 64, .block_height = 64,
                                   .stride_x = 8, .stride_y = 8, .cell_width = 8, .cell_height = 8,
                                   .bins = MR_HOG_MOST_BINS, .clip = 0.2f};
    assert_int_equal(cudaStreamCreate(&stream), cudaSuccess);
    check_hog(&people);
    check_hog(&largest);
    for (int i = 0; i < CASES; i++) {
        random_state = seed + (uint64_t)i * 7919;
        draw();
        const mr_hog_params layout = draw_hog_layout(7);
        check_hog(&layout);
        check_histogram();
        check_phash();
        check_sharpness();
        check_change();
    }
    cudaStreamDestroy(stream);
}

/* Needs no device: pieces are refused before any launch. */
TEST(pieces_of_no_picture_are_refused) {
    assert_int_equal(mr_phash_cuda(&(mr_phash_work){.count = 0}, NULL), MR_ERROR_CONFIG);
    assert_int_equal(mr_hog_cuda(NULL, &(mr_hog_work){.count = MR_PIECE + 1}, NULL), MR_ERROR_CONFIG);
    assert_int_equal(mr_histogram_cuda(&(mr_histogram_work){.count = -1}, NULL, NULL), MR_ERROR_CONFIG);
    assert_int_equal(mr_sharpness_cuda(&(mr_sharpness_work){.count = 0}, NULL, NULL), MR_ERROR_CONFIG);
    assert_string_equal(mr_message(), "sharpness of 0 pictures at once: 1 to 24 are possible");
}
#else
TEST(the_device_computes_the_same) {
    print_message("skipped: built without CUDA\n");
    skip();
}
#endif

RUN_TESTS(NULL, NULL)
