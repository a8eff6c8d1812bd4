/* Copies between the host and CUDA devices, as the engine makes them and beside bare calls of the runtime: 1080p NV12
 * from pinned and from pageable memory, small pictures one by one and put together by the host, small results one by
 * one and together, and from device to device directly and through the host. What is copied are random bytes, in two
 * sets that are taken in turn, each larger than the device's cache; what arrives is compared at the end.
 *
 * Prints one JSON line; exit status 69 if there is no CUDA device, 70 if a copy fails or is wrong.
 *
 *   bench_cuda_upload [pictures] */
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/flow/copy.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/open/open.h"
#include "millrace/status.h"

enum {
    PICTURE_BYTES = 1920 * 1080 * 3 / 2,
    IN_FLIGHT = 4,   /* pieces of work that may be under way */
    ROUNDS = 5,
    LEAST_SET = 8,   /* pictures of a set */
    FRAMES = 64,     /* of a batch of small ones */
    RESULT_BYTES = 44, /* five classes of a frame */
    LAUNCHES = 2000
};

typedef struct bench {
    mr_device *device;
    mr_stream *stream;
    cudaStream_t handle;
    int pictures;         /* copied in a round */
    int set;              /* pictures of a set */
    uint8_t *host, *pageable, *block, *there; /* both sets, one behind the other; block: FRAMES of the largest */
    size_t small;         /* bytes of a small picture */
    mr_event *event[IN_FLIGHT];
    int turn;
} bench;

static void check(int error, const char *what) {
    if (!error)
        return;
    fprintf(stderr, "bench_cuda_upload: %s: %s\n", what,
            error < 0 ? mr_message() : cudaGetErrorString((cudaError_t)error));
    exit(70);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Seconds of a round, the best of a few after one that is not counted. */
static double best_of(bench *b, void (*run)(bench *)) {
    double best = 1e9;
    run(b);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = now();
        run(b);
        double spent = now() - begin;
        best = spent < best ? spent : best;
    }
    return best;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static size_t all_bytes(const bench *b) {
    return 2 * (size_t)b->set * PICTURE_BYTES;
}

static void fill(uint8_t *to, size_t bytes) {
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i + sizeof random <= bytes; i += sizeof random) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        memcpy(to + i, &random, sizeof random);
    }
}

/* Sets that the cache does not hold. */
static void make_memory(bench *b) {
    struct cudaDeviceProp about;
    check(cudaGetDeviceProperties(&about, b->device->index), "the device");
    b->set = about.l2CacheSize / PICTURE_BYTES + LEAST_SET;
    check(mr_device_allocate(b->device, MR_MEMORY_PINNED, all_bytes(b), (void **)&b->host), "pinned memory");
    check(mr_device_allocate(b->device, MR_MEMORY_PINNED, FRAMES * (size_t)MR_COPY_GATHERED_BYTES, (void **)&b->block),
          "pinned memory");
    check(mr_device_allocate(b->device, MR_MEMORY_DEVICE, all_bytes(b), (void **)&b->there), "memory of the device");
    check((b->pageable = malloc(all_bytes(b))) ? 0 : cudaErrorMemoryAllocation, "memory");
    fill(b->host, all_bytes(b));
    memcpy(b->pageable, b->host, all_bytes(b));
}

static void free_memory(bench *b) {
    mr_device_free(b->device, MR_MEMORY_PINNED, b->host);
    mr_device_free(b->device, MR_MEMORY_PINNED, b->block);
    mr_device_free(b->device, MR_MEMORY_DEVICE, b->there);
    free(b->pageable);
}

/* That so many bytes of the device are those that were to be copied there. */
static void compare(bench *b, size_t bytes) {
    uint8_t *back = malloc(bytes);
    check(back ? 0 : cudaErrorMemoryAllocation, "memory");
    check(cudaMemcpy(back, b->there, bytes, cudaMemcpyDeviceToHost), "what was copied");
    if (memcmp(back, b->host, bytes) != 0) {
        fprintf(stderr, "bench_cuda_upload: what was copied is not what is there\n");
        exit(70);
    }
    free(back);
    check(cudaMemset(b->there, 0, bytes), "memory of the device");
}

/* ---- events: a place is used again once its work is done --------------------------------------------------------- */

static void wait_for(mr_event **event) {
    while (*event && !mr_event_done(*event))
        nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
    if (*event)
        check(mr_event_status(*event), "a copy");
    mr_event_unref(event);
}

static void begin_piece(bench *b) {
    wait_for(&b->event[b->turn % IN_FLIGHT]);
}

static void end_piece(bench *b) {
    mr_event **event = &b->event[b->turn++ % IN_FLIGHT];
    check(mr_event_create(event, b->device, NULL), "an event");
    check(mr_stream_record(b->stream, *event), "an event");
}

static void end_round(bench *b) {
    for (int i = 0; i < IN_FLIGHT; i++)
        wait_for(&b->event[i]);
}

/* ---- large pictures ---------------------------------------------------------------------------------------------- */

static size_t picture_at(const bench *b, int i) {
    return (size_t)(i % (2 * b->set)) * PICTURE_BYTES;
}

static void bare_from(bench *b, const uint8_t *from) {
    for (int i = 0; i < b->pictures; i++)
        check(cudaMemcpyAsync(b->there + picture_at(b, i), from + picture_at(b, i), PICTURE_BYTES,
                              cudaMemcpyHostToDevice, b->handle), "a copy");
    check(cudaStreamSynchronize(b->handle), "the copies");
}

static void bare(bench *b) {
    bare_from(b, b->host);
}

static void pageable(bench *b) {
    bare_from(b, b->pageable);
}

/* The other way. */
static void bare_home(bench *b) {
    for (int i = 0; i < b->pictures; i++)
        check(cudaMemcpyAsync(b->host + picture_at(b, i), b->there + picture_at(b, i), PICTURE_BYTES,
                              cudaMemcpyDeviceToHost, b->handle), "a copy");
    check(cudaStreamSynchronize(b->handle), "the copies");
}

/* Work that is nothing but launched: a kernel of the runtime's that sets four bytes. */
static void launches(bench *b) {
    for (int i = 0; i < LAUNCHES; i++)
        check(cudaMemsetAsync(b->there, 0, 4, b->handle), "a launch");
    check(cudaStreamSynchronize(b->handle), "the launches");
}

static void ours(bench *b) {
    for (int i = 0; i < b->pictures; i++) {
        begin_piece(b);
        check(mr_stream_copy(b->stream, b->there + picture_at(b, i), b->host + picture_at(b, i), PICTURE_BYTES),
              "a copy");
        end_piece(b);
    }
    end_round(b);
}

static void print_pictures(bench *b) {
    double bytes = (double)b->pictures * PICTURE_BYTES / 1e9;
    double alone = bytes / best_of(b, bare), engine = bytes / best_of(b, ours), paged = bytes / best_of(b, pageable);
    double home = bytes / best_of(b, bare_home);
    size_t count = (size_t)(b->pictures < 2 * b->set ? b->pictures : 2 * b->set);
    compare(b, count * PICTURE_BYTES);
    double launch = best_of(b, launches) / LAUNCHES * 1e6;
    printf("{\"bare_gb_per_s\": %.2f, \"engine_gb_per_s\": %.2f, \"of_bare\": %.3f, \"pageable_gb_per_s\": %.2f", alone,
           engine, engine / alone, paged);
    printf(", \"download_gb_per_s\": %.2f, \"launch_us\": %.3f", home, launch);
}

/* ---- small ones -------------------------------------------------------------------------------------------------- */

/* Batches of a round begin behind each other in both sets. */
static size_t batch_at(const bench *b, int i) {
    size_t batch = FRAMES * b->small, room = all_bytes(b) / batch;
    return (size_t)i % room * batch;
}

static int batches(const bench *b) {
    return b->pictures / FRAMES + IN_FLIGHT;
}

/* What the runtime and the copy engine alone need for each. */
static void bare_small(bench *b) {
    for (int i = 0; i < batches(b); i++)
        for (int frame = 0; frame < FRAMES; frame++) {
            size_t at = batch_at(b, i) + (size_t)frame * b->small;
            check(cudaMemcpyAsync(b->there + at, b->host + at, b->small, cudaMemcpyHostToDevice, b->handle), "a copy");
        }
    check(cudaStreamSynchronize(b->handle), "the copies");
}

/* Each with an event of its own, as the engine copies frames that are not small. */
static void one_by_one(bench *b) {
    for (int i = 0; i < batches(b); i++)
        for (int frame = 0; frame < FRAMES; frame++) {
            size_t at = batch_at(b, i) + (size_t)frame * b->small;
            begin_piece(b);
            check(mr_stream_copy(b->stream, b->there + at, b->host + at, b->small), "a copy");
            end_piece(b);
        }
    end_round(b);
}

static void together(bench *b) {
    for (int i = 0; i < batches(b); i++) {
        uint8_t *block = b->block + (size_t)(b->turn % IN_FLIGHT) * FRAMES * b->small;
        begin_piece(b);
        for (int frame = 0; frame < FRAMES; frame++)
            memcpy(block + (size_t)frame * b->small, b->host + batch_at(b, i) + (size_t)frame * b->small, b->small);
        check(mr_stream_copy(b->stream, b->there + batch_at(b, i), block, FRAMES * b->small), "a copy");
        end_piece(b);
    }
    end_round(b);
}

/* Sizes in ascending order; up to which of them it is quicker to put pictures together: 0, none. */
static void print_small(bench *b) {
    static const size_t sizes[] = {1 << 10, 4 << 10, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 224 * 224 * 3, 256 << 10};
    size_t below = 0;
    bool still = true;
    printf(", \"small\": [");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        b->small = sizes[i];
        double frames = (double)batches(b) * FRAMES;
        double plain = best_of(b, bare_small) / frames * 1e6, single = best_of(b, one_by_one) / frames * 1e6;
        compare(b, FRAMES * b->small);
        double gathered = best_of(b, together) / frames * 1e6;
        compare(b, FRAMES * b->small);
        still = still && gathered < single;
        below = still ? b->small : below;
        printf("%s{\"bytes\": %zu, \"bare_us\": %.3f, \"one_by_one_us\": %.3f, \"gathered_us\": %.3f, \"times\": %.2f}",
               i ? ", " : "", b->small, plain, single, gathered, single / gathered);
    }
    printf("], \"gather_below_bytes\": %zu, \"engine_gathers_up_to_bytes\": %d", below, MR_COPY_SMALL_BYTES);
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static int take(void *arguments) {
    (void)arguments;
    return MR_OK;
}

/* A copy and a host function for `each` frames at a time. */
static void bring_home(bench *b, int each) {
    for (int i = 0; i < batches(b); i++) {
        uint8_t *block = b->block + (size_t)(b->turn % IN_FLIGHT) * FRAMES * RESULT_BYTES;
        begin_piece(b);
        for (int frame = 0; frame < FRAMES; frame += each) {
            size_t at = (size_t)frame * RESULT_BYTES;
            check(mr_stream_copy(b->stream, block + at, b->there + at, (size_t)each * RESULT_BYTES), "a copy");
            check(mr_stream_submit(b->stream, take, NULL, 0), "a host function");
        }
        end_piece(b);
    }
    end_round(b);
}

static void results_one_by_one(bench *b) {
    bring_home(b, 1);
}

static void results_together(bench *b) {
    bring_home(b, FRAMES);
}

static void print_results(bench *b) {
    double single = best_of(b, results_one_by_one) / batches(b) * 1e6;
    double gathered = best_of(b, results_together) / batches(b) * 1e6;
    printf(", \"results\": {\"frames\": %d, \"bytes\": %d, \"one_by_one_us\": %.2f, \"gathered_us\": %.2f, "
           "\"times\": %.2f}", FRAMES, RESULT_BYTES, single, gathered, single / gathered);
}

/* ---- from device to device --------------------------------------------------------------------------------------- */

/* The second device, and memory there. */
static bench other;

static void directly(bench *b) {
    for (int i = 0; i < b->pictures; i++) {
        begin_piece(&other);
        check(mr_stream_copy(other.stream, other.there + picture_at(b, i), b->there + picture_at(b, i), PICTURE_BYTES),
              "a copy between devices");
        end_piece(&other);
    }
    end_round(&other);
}

/* Down from the one into pinned memory, and up to the other from there. */
static void through_host(bench *b) {
    for (int i = 0; i < b->pictures; i++) {
        uint8_t *block = b->block + (size_t)(other.turn % IN_FLIGHT) * PICTURE_BYTES;
        begin_piece(&other);
        mr_event *down = NULL;
        check(mr_event_create(&down, b->device, NULL), "an event");
        check(mr_stream_copy(b->stream, block, b->there + picture_at(b, i), PICTURE_BYTES), "a copy");
        check(mr_stream_record(b->stream, down), "an event");
        check(mr_stream_wait(other.stream, down), "an event");
        check(mr_stream_copy(other.stream, other.there + picture_at(b, i), block, PICTURE_BYTES), "a copy");
        mr_event_unref(&down);
        end_piece(&other);
    }
    end_round(&other);
}

static void compare_other(const bench *b) {
    size_t count = (size_t)(b->pictures < 2 * b->set ? b->pictures : 2 * b->set);
    other.host = b->host;
    compare(&other, count * PICTURE_BYTES);
}

/* What is there was uploaded before. */
static void measure_peer(bench *b) {
    int can = 0;
    check(cudaDeviceCanAccessPeer(&can, 1, 0), "the devices");
    check(mr_stream_create(other.device, &other.stream), "a stream");
    check(mr_device_allocate(other.device, MR_MEMORY_DEVICE, all_bytes(b), (void **)&other.there),
          "memory of the device");
    ours(b);
    double bytes = (double)b->pictures * PICTURE_BYTES / 1e9;
    double direct = bytes / best_of(b, directly);
    compare_other(b);
    double staged = bytes / best_of(b, through_host);
    compare_other(b);
    printf(", \"peer\": {\"access\": %s, \"engine_gb_per_s\": %.2f, \"staged_gb_per_s\": %.2f, \"times\": %.2f}}\n",
           can ? "true" : "false", direct, staged, direct / staged);
    mr_device_free(other.device, MR_MEMORY_DEVICE, other.there);
    mr_stream_destroy(&other.stream);
}

static void print_peer(bench *b) {
    if (mr_device_open(&other.device, "cuda:1", 0, false)) {
        printf(", \"peer\": {\"skipped\": \"it takes two CUDA devices\"}}\n");
        return;
    }
    measure_peer(b);
    mr_device_destroy(&other.device);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

int main(int count, char **arguments) {
    bench b = {.pictures = count > 1 ? atoi(arguments[1]) : 200};
    void *handle;
    if (mr_device_open(&b.device, "cuda:0", 0, false)) {
        fprintf(stderr, "bench_cuda_upload: nothing was measured: %s\n", mr_message());
        return 69;
    }
    check(mr_stream_create(b.device, &b.stream), "a stream");
    check(mr_cuda_enter(b.stream, &handle), "the device");
    b.handle = handle;
    make_memory(&b);
    print_pictures(&b);
    print_small(&b);
    print_results(&b);
    print_peer(&b);
    free_memory(&b);
    mr_stream_destroy(&b.stream);
    mr_device_destroy(&b.device);
    return 0;
}
