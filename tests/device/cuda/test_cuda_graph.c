/* Launches that recur become CUDA graphs, and do what they did before: on a GPU, or on the one that the host plays. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/device/cuda/cuda.h"
#include "kernels/classical/classical.h"
#include "kernels/vector/vector.h"
#include "millrace/log.h"
#include "tests/support/on_device.h"
#include "tests/support/suite.h"

#ifdef MILLRACE_CUDA_HOST
#include <cuda_runtime_api.h>
#endif

/* As many graphs as a stream keeps (engine/device/cuda/cuda_graph.h), and half as many again. */
enum { KEPT = 64, SLOTS = KEPT + KEPT / 2, NUMBERS = 40, SIDE = 32, ROOM = 256 };

static uint32_t random_state = 20261121;

static uint8_t draw(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (uint8_t)(random_state >> 24);
}

/* Inputs and outputs, in device or host memory. */
typedef struct slot {
    uint8_t *picture;
    float *vector, *unit;
    uint8_t *hash;
} slot;

typedef struct fixture {
    on_device on;
    uint8_t *memory, *pinned;
    slot here, slots[SLOTS];
} fixture;

enum { SLOT_BYTES = SIDE * SIDE + 3 * ROOM };

static slot slot_at(uint8_t *at) {
    uint8_t *behind = at + SIDE * SIDE;
    return (slot){at, (float *)(void *)behind, (float *)(void *)(behind + ROOM), behind + 2 * ROOM};
}

static bool open_fixture(fixture *f) {
    void *memory = NULL, *pinned = NULL;
    if (!on_device_open(&f->on, "cuda:0"))
        return false;
    assert_int_equal(mr_device_allocate(f->on.device, MR_MEMORY_DEVICE, SLOTS * SLOT_BYTES, &memory), MR_OK);
    assert_int_equal(mr_device_allocate(f->on.device, MR_MEMORY_PINNED, SLOT_BYTES, &pinned), MR_OK);
    /* Bytes that no kernel writes are copied back too, and tools report reads of uninitialised memory. */
    assert_int_equal(mr_stream_copy(f->on.stream, memory, NULL, SLOTS * SLOT_BYTES), MR_OK);
    f->memory = memory;
    f->pinned = pinned;
    f->here = slot_at(f->pinned);
    for (size_t i = 0; i < SLOTS; i++)
        f->slots[i] = slot_at(f->memory + i * SLOT_BYTES);
    return true;
}

static void close_fixture(fixture *f) {
    mr_device_free(f->on.device, MR_MEMORY_DEVICE, f->memory);
    mr_device_free(f->on.device, MR_MEMORY_PINNED, f->pinned);
    on_device_close(&f->on);
}

/* Two operations on new numbers, in one series, with copies before and after it. */
static void compute(fixture *f, const slot *at) {
    mr_stream *stream = f->on.stream;
    float unit[NUMBERS];
    uint8_t hash[MR_HASH_BYTES];
    for (size_t i = 0; i < SIDE * SIDE; i++)
        f->here.picture[i] = draw();
    for (size_t i = 0; i < NUMBERS; i++)
        f->here.vector[i] = (float)(draw() - 128);
    mr_normalize(&(mr_normalize_work){.src = f->here.vector, .dst = unit, .count = NUMBERS});
    mr_phash(f->here.picture, hash);
    const mr_normalize_work normalize = {.src = at->vector, .dst = at->unit, .count = NUMBERS};
    const mr_phash_work phash = {.count = 1, .src = {at->picture}, .dst = {at->hash}};
    assert_int_equal(mr_stream_copy(stream, at->picture, f->here.picture, SIDE * SIDE + ROOM), MR_OK);
    assert_int_equal(mr_normalize_enqueue(stream, &normalize, 1), MR_OK);
    assert_int_equal(mr_phash_enqueue(stream, &phash), MR_OK);
    assert_int_equal(mr_stream_copy(stream, f->here.unit, at->unit, 2 * ROOM), MR_OK);
    on_device_finish(&f->on);
    assert_memory_equal(f->here.unit, unit, sizeof unit);
    assert_memory_equal(f->here.hash, hash, sizeof hash);
}

static mr_cuda_graph_counts counts_of(const fixture *f) {
    return mr_cuda_graph_count(f->on.stream);
}

#ifdef MILLRACE_CUDA_HOST
#define EXPECT_GRAPHS(count) assert_int_equal(mr_host_graphs(), count)
#else
#define EXPECT_GRAPHS(count) ((void)0)
#endif

TEST(what_recurs_is_launched_as_a_graph) {
    fixture f;
    if (!open_fixture(&f))
        skip();
    for (int i = 0; i < 10; i++)
        compute(&f, &f.slots[0]);
    mr_cuda_graph_counts counts = counts_of(&f);
    assert_int_equal(counts.plain, 1);
    assert_int_equal(counts.recorded, 1);
    assert_int_equal(counts.launched, 9);
    for (int i = 0; i < 6; i++)
        compute(&f, &f.slots[1 + i % 2]);
    counts = counts_of(&f);
    assert_int_equal(counts.plain, 3);
    assert_int_equal(counts.recorded, 3);
    assert_int_equal(counts.launched, 13);
    assert_int_equal(counts.forgotten, 0);
    EXPECT_GRAPHS(3);
    close_fixture(&f);
    EXPECT_GRAPHS(0);
}

/* A stream keeps a limited number of graphs: if more recur in turn, each one is gone when it recurs. */
TEST(the_oldest_graphs_are_forgotten) {
    fixture f;
    if (!open_fixture(&f))
        skip();
    for (int i = 0; i < 2 * KEPT; i++)
        compute(&f, &f.slots[i / 2]);
    assert_int_equal(counts_of(&f).recorded, KEPT);
    assert_int_equal(counts_of(&f).forgotten, 0);
    for (int i = 0; i < 2 * (SLOTS - KEPT); i++)
        compute(&f, &f.slots[KEPT + i / 2]);
    assert_int_equal(counts_of(&f).recorded, SLOTS);
    assert_int_equal(counts_of(&f).forgotten, SLOTS - KEPT);
    EXPECT_GRAPHS(KEPT);
    compute(&f, &f.slots[SLOTS - KEPT]);
    assert_int_equal(counts_of(&f).plain, SLOTS);
    compute(&f, &f.slots[0]);
    assert_int_equal(counts_of(&f).plain, SLOTS + 1);
    close_fixture(&f);
    EXPECT_GRAPHS(0);
}

TEST(graphs_that_do_not_pay_are_given_up) {
    ENDED_BY(close_fixture) fixture f;
    if (!open_fixture(&f))
        skip();
    uint64_t before = 0;
    for (int i = 0; i < 10 * KEPT; i++) {
        before = counts_of(&f).recorded;
        compute(&f, &f.slots[i / 2 % SLOTS]);
    }
    assert_int_equal(before, 4 * KEPT);
    assert_int_equal(counts_of(&f).recorded, before);
    assert_true(counts_of(&f).plain > counts_of(&f).launched);
    EXPECT_GRAPHS(0);
}

TEST(graphs_can_be_turned_off) {
    ENDED_BY(close_fixture) fixture f;
    setenv("MILLRACE_CUDA_GRAPHS", "0", 1);
    bool opened = open_fixture(&f);
    unsetenv("MILLRACE_CUDA_GRAPHS");
    if (!opened)
        skip();
    for (int i = 0; i < 4; i++)
        compute(&f, &f.slots[0]);
    assert_int_equal(counts_of(&f).recorded, 0);
    assert_int_equal(counts_of(&f).plain, 4);
}

static int refuse(const void *arguments, void *handle) {
    return *(const int *)arguments;
}

static int record(on_device *d) {
    mr_event *event = NULL;
    assert_int_equal(mr_event_create(&event, d->device, NULL), MR_OK);
    assert_int_equal(mr_stream_record(d->stream, event), MR_OK);
    while (!mr_event_done(event))
        nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
    int status = mr_event_status(event);
    mr_event_unref(&event);
    return status;
}

static void ignore(void *context, mr_log_level level, const char *line) {
    ++*(int *)context;
}

/* What was put off fails the event that it was put off to, and only that. */
TEST(a_launch_that_fails_fails_its_event) {
    int lines = 0;
    ENDED_BY(close_fixture) fixture f;
    if (!open_fixture(&f))
        skip();
    mr_log_to(ignore, &lines);
    assert_int_equal(mr_cuda_launch(f.on.stream, refuse, &(int){MR_ERROR_DEVICE}, sizeof(int), 1), MR_OK);
    assert_int_equal(record(&f.on), MR_ERROR_DEVICE);
    assert_int_equal(record(&f.on), MR_OK);
    assert_int_equal(mr_cuda_launch(f.on.stream, refuse, &(int){MR_ERROR_DEVICE}, sizeof(int), 1), MR_OK);
    assert_int_equal(mr_stream_copy(f.on.stream, f.slots[0].picture, NULL, 1), MR_ERROR_DEVICE);
    assert_int_equal(record(&f.on), MR_OK);
    mr_log_to(NULL, NULL);
    assert_int_equal(lines, 1);
    compute(&f, &f.slots[0]);
}

#ifdef MILLRACE_CUDA_HOST
TEST(what_cannot_be_recorded_is_launched) {
    int lines = 0;
    ENDED_BY(close_fixture) fixture f;
    assert_true(open_fixture(&f));
    mr_host_refuse_capture(true);
    mr_log_to(ignore, &lines);
    for (int i = 0; i < 6; i++)
        compute(&f, &f.slots[i % 2]);
    mr_host_refuse_capture(false);
    for (int i = 0; i < 6; i++)
        compute(&f, &f.slots[i % 2]);
    mr_log_to(NULL, NULL);
    assert_int_equal(lines, 1);
    assert_int_equal(counts_of(&f).refused, 1);
    assert_int_equal(counts_of(&f).recorded, 0);
    assert_int_equal(counts_of(&f).plain, 12);
}

/* Work is compared byte by byte, so the structs must have no padding. */
TEST(structs_of_works_have_no_gaps) {
    size_t pointer = sizeof(void *);
    assert_int_equal(sizeof(mr_linear_work), 8 * pointer + 4 * sizeof(int));
    assert_int_equal(sizeof(mr_top_k_work), 4 * pointer + 4 * sizeof(int));
    assert_int_equal(sizeof(mr_normalize_work), 2 * pointer + 2 * sizeof(int));
    assert_int_equal(sizeof(mr_pool_work), 2 * pointer + 4 * sizeof(int));
    assert_int_equal(sizeof(mr_histogram_work), 6 * sizeof(int32_t) + 2 * MR_PIECE * pointer);
    assert_int_equal(sizeof(mr_hog_work), pointer + 2 * sizeof(int32_t) + 2 * MR_PIECE * pointer);
    assert_int_equal(sizeof(mr_phash_work), 2 * sizeof(int32_t) + 2 * MR_PIECE * pointer);
    assert_int_equal(sizeof(mr_sharpness_item), 2 * pointer + 4 * sizeof(int32_t));
    assert_int_equal(sizeof(mr_sharpness_work), 2 * sizeof(int32_t) + MR_PIECE * sizeof(mr_sharpness_item));
    assert_int_equal(sizeof(mr_change_work), 4 * pointer + 2 * sizeof(int32_t));
}
#endif

RUN_TESTS(NULL, NULL)
